"""Apache Kafka's own command line tools against three nodes: a smoke call of each."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.core.net.cluster import Cluster
from rookery.core.wire.apis.describe_client_quotas import DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.tools import Tools


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(3) as running:
        yield running


class Shell:
    """The tools, aimed at the cluster."""

    def __init__(self, tools: Tools, cluster: LocalCluster) -> None:
        self._tools = tools
        self.at = ("--bootstrap-server", cluster.bootstrap)

    def __call__(self, tool: str, *words: str, text: str = "") -> str:
        return self._tools.run(tool, *self.at, *words, text=text)

    def alone(self, tool: str, *words: str) -> str:
        """A tool that is told the cluster's address in another way."""
        return self._tools.run(tool, *words)

    def fails(self, tool: str, *words: str) -> str:
        """What the tool says when it cannot do it."""
        done = self._tools.call(tool, *self.at, *words)
        assert done.code != 0, done.out
        return done.out + done.err

    def describe(self, topic: str) -> list[dict[str, str]]:
        """The partitions as kafka-topics prints them."""
        lines = self("kafka-topics", "--describe", "--topic", topic).splitlines()
        rows = [dict(part.strip().partition(": ")[::2] for part in line.split("\t") if part.strip()) for line in lines]
        return [row for row in rows if "Partition" in row]


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Iterator[Shell]:
    tools = Tools()
    yield Shell(tools, cluster)
    tools.close()


@pytest.mark.row(53, 76)
def test_kafka_topics(shell: Shell, cluster: LocalCluster) -> None:
    """Each call asks any broker: all have to know what the call before did."""
    shell("kafka-topics", "--create", "--topic", "made", "--partitions", "3", "--replication-factor", "3")
    cluster.wait_until_known("made", 3)
    assert "made" in shell("kafka-topics", "--list").split()
    rows = shell.describe("made")
    assert [row["Partition"] for row in rows] == ["0", "1", "2"]
    assert {frozenset(row["Replicas"].split(",")) for row in rows} == {frozenset("123")}
    assert {row["Leader"] for row in rows} == {"1", "2", "3"}
    shell("kafka-topics", "--alter", "--topic", "made", "--partitions", "5")
    cluster.wait_until_known("made", 5)
    assert len(shell.describe("made")) == 5
    assert "made" in shell.fails("kafka-topics", "--create", "--topic", "made")
    shell("kafka-topics", "--delete", "--topic", "made")
    cluster.wait_until_known("made", 0)
    assert "made" not in shell("kafka-topics", "--list").split()


def test_kafka_configs(shell: Shell, cluster: LocalCluster) -> None:
    cluster.create_topic("configured")
    entity = ("--entity-type", "topics", "--entity-name", "configured")
    shell("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=12345,cleanup.policy=[compact,delete]")
    set_here = {"retention.ms": "12345", "cleanup.policy": "compact,delete"}
    wait_for(lambda: all(told == set_here for told in cluster.overrides("configured")), "every broker to know")
    told = shell("kafka-configs", "--describe", *entity)
    assert "retention.ms=12345" in told
    assert "cleanup.policy=compact,delete" in told
    shell("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    wait_for(lambda: all("retention.ms" not in told for told in cluster.overrides("configured")), "all to know")
    assert "retention.ms" not in shell("kafka-configs", "--describe", *entity)
    assert "retention.ms=" in shell("kafka-configs", "--describe", "--all", *entity)
    broker = ("--entity-type", "brokers")
    shell("kafka-configs", "--alter", *broker, "--entity-default", "--add-config", "message.max.bytes=2000000")
    everybody = ("kafka-configs", "--describe", *broker, "--entity-default")
    wait_for(lambda: "message.max.bytes=2000000" in shell(*everybody), "every broker to know")
    shell("kafka-configs", "--alter", *broker, "--entity-default", "--add-config", "background.threads=12")
    wait_for(lambda: "background.threads=12" in shell(*everybody), "every broker to know, though it has no effect")
    shell("kafka-configs", "--alter", *broker, "--entity-name", "1", "--add-config", "message.max.bytes=3000000")
    first = ("kafka-configs", "--describe", *broker, "--entity-name", "1")
    wait_for(lambda: "message.max.bytes=3000000" in shell(*first), "the broker to know")
    shell("kafka-configs", "--alter", *entity, "--delete-config", "cleanup.policy")
    wait_for(lambda: not any(cluster.overrides("configured")), "every broker to know")
    wrong = ("--add-config", "retention.ms=soon")
    assert "retention.ms" in shell.fails("kafka-configs", "--alter", *entity, *wrong)


def has_quotas(address: str) -> bool:
    """Whether this very node knows of some."""

    async def ask() -> bool:
        async with Cluster(address) as node:
            everything = DescribeClientQuotasRequest(components=(), strict=False)
            return bool((await node.ask_any(DESCRIBE_CLIENT_QUOTAS, everything)).entries)

    return asyncio.run(ask())


def test_kafka_configs_of_clients_and_a_producer_that_is_held(shell: Shell, cluster: LocalCluster) -> None:
    cluster.create_topic("limited")
    entity = ("--entity-type", "clients", "--entity-name", "perf")
    shell("kafka-configs", "--alter", *entity, "--add-config", "producer_byte_rate=50000,request_percentage=90")
    wait_for(lambda: "producer_byte_rate=50000.0" in shell("kafka-configs", "--describe", *entity), "the one asked")
    wait_for(lambda: all(has_quotas(node.kafka) for node in cluster.file.nodes), "all to know: the leader has to")
    props = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}", "client.id=perf", "linger.ms=50")
    size = ("--num-records", "540", "--record-size", "1000", "--throughput", "-1")
    told = shell.alone("kafka-producer-perf-test", "--topic", "limited", *size, "--print-metrics", *props)
    (held_ms,) = re.findall(r"produce-throttle-time-max\S* *: *([0-9.]+)", told)
    assert float(held_ms) > 0, "ten seconds' worth may go at once, the rest has to wait"
    shell("kafka-configs", "--alter", *entity, "--delete-config", "producer_byte_rate,request_percentage")
    wait_for(lambda: "producer_byte_rate" not in shell("kafka-configs", "--describe", *entity), "all to know")
    user = ("--entity-type", "users", "--entity-name", "ann")
    shell("kafka-configs", "--alter", *user, "--add-config", "consumer_byte_rate=60000")
    users = ("kafka-configs", "--describe", "--entity-type", "users")
    wait_for(lambda: "consumer_byte_rate=60000.0" in shell(*users), "the one asked")
    default = ("--entity-type", "users", "--entity-default")
    wrong = ("--add-config", "producer_byte_rate=0")
    assert "producer_byte_rate" in shell.fails("kafka-configs", "--alter", *default, *wrong)


def test_kafka_console_producer_and_consumer(shell: Shell, cluster: LocalCluster) -> None:
    cluster.create_topic("spoken", 2)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    shell("kafka-console-producer", "--topic", "spoken", "--sync", *keyed, text="k:one\nk:two\nk:three\n")
    partition = next(p for p in "01" if f"spoken:{p}:3" in shell("kafka-get-offsets", "--topic", "spoken"))
    start = ("--partition", partition, "--offset", "1", "--max-messages", "2", "--timeout-ms", "20000")
    assert shell("kafka-console-consumer", "--topic", "spoken", *start).split() == ["two", "three"]
    assert f"spoken:{partition}:0" in shell("kafka-get-offsets", "--topic", "spoken", "--time", "earliest")


@pytest.mark.row(78)
def test_kafka_metadata_quorum(shell: Shell, cluster: LocalCluster) -> None:
    told = shell("kafka-metadata-quorum", "describe", "--status")
    assert f"ClusterId:              {cluster.file.cluster_id}" in told
    assert f"LeaderId:               {cluster.active_controller()}" in told
    replicas = shell("kafka-metadata-quorum", "describe", "--replication").splitlines()[1:]
    assert {line.split()[0] for line in replicas} == {"1", "2", "3"}


def test_kafka_log_dirs(shell: Shell, cluster: LocalCluster) -> None:
    cluster.create_topic("stored", 1, 3)

    def replicas() -> list[tuple[int, str]]:
        told = json.loads(shell("kafka-log-dirs", "--describe", "--topic-list", "stored").splitlines()[-1])
        folders = [(broker["broker"], folder) for broker in told["brokers"] for folder in broker["logDirs"]]
        assert [(broker, folder["error"]) for broker, folder in folders] == [(1, None), (2, None), (3, None)]
        return [(broker, one["partition"]) for broker, folder in folders for one in folder["partitions"]]

    everywhere = [(1, "stored-0"), (2, "stored-0"), (3, "stored-0")]
    wait_for(lambda: replicas() == everywhere, "each broker to have made its replica")


@pytest.mark.row(70)
def test_kafka_leader_election(shell: Shell, cluster: LocalCluster) -> None:
    cluster.create_topic("elected", 1, 3)
    before = cluster.leader("elected")
    cluster.stop(before)
    wait_for(lambda: cluster.leader("elected") != before, "another leader")
    cluster.up()
    cluster.wait_in_sync("elected")
    shell("kafka-leader-election", "--election-type", "preferred", "--topic", "elected", "--partition", "0")
    wait_for(lambda: cluster.leader("elected") == before, "the node that is asked to have heard")
    again = shell("kafka-leader-election", "--election-type", "preferred", "--topic", "elected", "--partition", "0")
    assert "Valid replica already elected" in again


class Move:
    """A plan for kafka-reassign-partitions in a file, and the calls with it."""

    def __init__(self, shell: Shell, file: Path, topic: str, replicas: list[int]) -> None:
        part = {"topic": topic, "partition": 0, "replicas": replicas}
        file.write_text(json.dumps({"version": 1, "partitions": [part]}))
        self._shell = shell
        self._file = str(file)

    def __call__(self, *words: str) -> str:
        return self._shell("kafka-reassign-partitions", *words, "--reassignment-json-file", self._file)

    def wait(self) -> None:
        wait_for(lambda: "is completed" in self("--verify"), "the move to be over")


@pytest.mark.row(71)
def test_kafka_reassign_partitions_moves_records(shell: Shell, cluster: LocalCluster, tmp_path: Path) -> None:
    shell("kafka-topics", "--create", "--topic", "moved", "--replica-assignment", "1:2")
    cluster.wait_until_known("moved", 1)
    shell("kafka-console-producer", "--topic", "moved", "--sync", text="before the move\n")
    move = Move(shell, tmp_path / "plan.json", "moved", [3, 1])
    assert "Successfully started" in move("--execute")
    move.wait()
    assert "No partition reassignments found" in shell("kafka-reassign-partitions", "--list")
    wait_for(lambda: shell.describe("moved")[0]["Replicas"] == "3,1", "the broker asked to know")
    read = ("--partition", "0", "--offset", "0", "--max-messages", "1", "--timeout-ms", "20000")
    assert shell("kafka-console-consumer", "--topic", "moved", *read).strip() == "before the move"


@pytest.mark.row(71)
def test_kafka_reassign_partitions_throttles_and_cancels(
    shell: Shell, cluster: LocalCluster, tmp_path: Path
) -> None:
    shell("kafka-topics", "--create", "--topic", "slow", "--replica-assignment", "1:2")
    cluster.wait_until_known("slow", 1)
    load = ("--topic", "slow", "--num-records", "40000", "--record-size", "100", "--throughput", "-1")
    shell.alone("kafka-producer-perf-test", *load, "--producer-props", f"bootstrap.servers={cluster.bootstrap}")
    move = Move(shell, tmp_path / "plan.json", "slow", [3, 2])
    assert "throttle" in move("--execute", "--throttle", "10000")
    limit = "leader.replication.throttled.rate=10000"
    brokers = ("--describe", "--entity-type", "brokers", "--entity-name", "1")
    assert limit in shell("kafka-configs", *brokers)
    under_way = "slow-0: replicas: 3,2,1. adding: 3. removing: 1."
    assert under_way in shell("kafka-reassign-partitions", "--list")
    assert "Successfully cancelled" in move("--cancel")
    assert limit not in shell("kafka-configs", *brokers)
    wait_for(lambda: set(shell.describe("slow")[0]["Replicas"].split(",")) == {"1", "2"}, "the broker asked to know")
    move("--execute")
    move.wait()
    wait_for(lambda: shell.describe("slow")[0]["Replicas"] == "3,2", "the broker asked to know")


def test_kafka_delete_records(shell: Shell, cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.create_topic("emptied", 1, 3)
    shell("kafka-console-producer", "--topic", "emptied", "--sync", text="a\nb\nc\n")
    plan = tmp_path / "delete.json"
    part = {"topic": "emptied", "partition": 0, "offset": 2}
    plan.write_text(json.dumps({"version": 1, "partitions": [part]}))
    assert "low_watermark: 2" in shell("kafka-delete-records", "--offset-json-file", str(plan))
    assert "emptied:0:2" in shell("kafka-get-offsets", "--topic", "emptied", "--time", "earliest")


def test_kafka_producer_perf_test(shell: Shell, cluster: LocalCluster) -> None:
    cluster.create_topic("fast", 3, 3)
    load = ("--topic", "fast", "--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    properties = ("--producer-props", f"bootstrap.servers={cluster.bootstrap}", "acks=all", "compression.type=lz4")
    told = shell.alone("kafka-producer-perf-test", *load, *properties)
    assert re.search(r"2000 records sent", told)
    counts = shell("kafka-get-offsets", "--topic", "fast").split()
    assert sum(int(line.rpartition(":")[2]) for line in counts) == 2000


def test_kafka_broker_api_versions(shell: Shell) -> None:
    told = shell("kafka-broker-api-versions")
    assert told.count("-> (") == 3
    assert "DescribeQuorum(55): 0 to 2" in told


def test_kafka_features(shell: Shell) -> None:
    level = "eligible.leader.replicas.version"
    assert re.search(rf"Feature: {level}\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1", described(shell, level))
    assert "downgraded to 0" in shell("kafka-features", "downgrade", "--feature", f"{level}=0")
    wait_for(lambda: "FinalizedVersionLevel: 0" in described(shell, level), "every broker to know")
    assert "upgraded to 1" in shell("kafka-features", "upgrade", "--feature", f"{level}=1")
    wait_for(lambda: "FinalizedVersionLevel: 1" in described(shell, level), "every broker to know")
    assert "Could not upgrade" in shell.fails("kafka-features", "upgrade", "--feature", f"{level}=2")
    assert "metadata.version" in shell("kafka-features", "describe")


def described(shell: Shell, feature: str) -> str:
    return next(line for line in shell("kafka-features", "describe").splitlines() if feature in line)
