"""`partition`, `transaction`, `acl`, `user` and `quota` against a cluster in this process."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rookery.testing import Cluster
from tests.unit.client.cli.test_admin_commands import Command

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4, config=AUTHORIZER) as running:
        yield running


@pytest.fixture
def rookery(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capsys)


def test_replicas_are_drained_off_a_broker(cluster: Cluster, rookery: Command, tmp_path: Path) -> None:
    cluster.create_topic("moved", partitions=4, replication_factor=2)
    plan = json.loads(rookery("partition", "reassign", "--topic", "moved", "--drain", "4", "--dry-run"))
    assert all(4 not in row["replicas"] for row in plan["partitions"])
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    rookery("partition", "reassign", "--topic", "moved", "--plan", str(file), "--yes")
    cluster.wait_for(lambda: rookery("partition", "status", "-o", "json").strip() == "[]", "the move to end")
    rows = rookery.json("partition", "list", "--topic", "moved")
    assert all(4 not in row["replicas"] for row in rows)
    assert rookery("partition", "reassign", "--topic", "moved", "--drain", "4", "--yes") == "nothing to move\n"
    assert "broker 9 is not there" in rookery("partition", "reassign", "--brokers", "1,9", "--yes", code=2)
    assert "nothing is being moved" in rookery("partition", "cancel", "--yes")


def options_of(rookery: Command, kind: str, name: str) -> dict[str, str]:
    return {row["option"]: row["value"] for row in rookery.json("config", "diff", kind, name)}


def plan_of(path: Path, topic: str, *replicas: list[int]) -> str:
    rows = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def test_a_move_is_limited_verified_and_the_limits_are_lifted(
    cluster: Cluster, rookery: Command, tmp_path: Path
) -> None:
    cluster.create_topic("slow", replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(20):
        producer.produce("slow", bytes(100_000))
    assert producer.flush(30) == 0
    old = cluster.leader("slow", 0)
    new = old % 4 + 1
    plan = plan_of(tmp_path / "plan.json", "slow", [new])
    assert "other replicas" in rookery("partition", "verify", "--plan", plan, code=1)
    assert "more than 0" in rookery("partition", "reassign", "--plan", plan, "--throttle", "0", "--yes", code=2)
    rookery("partition", "reassign", "--plan", plan, "--throttle", "1", "--yes")
    assert "in progress" in rookery("partition", "verify", "--plan", plan, code=3)
    own = options_of(rookery, "topic", "slow")
    assert own["leader.replication.throttled.replicas"] == f"0:{old}"
    assert own["follower.replication.throttled.replicas"] == f"0:{new}"
    assert options_of(rookery, "broker", str(new))["follower.replication.throttled.rate"] == "1"
    rookery("partition", "throttle", "1000000000")
    assert options_of(rookery, "broker", str(old))["leader.replication.throttled.rate"] == "1000000000"
    cluster.wait_for(lambda: rookery("partition", "status", "-o", "json").strip() == "[]", "the move to end")
    (row,) = rookery.json("partition", "verify", "--plan", plan)
    assert (row["replicas"], row["state"]) == ([new], "complete")
    assert "leader.replication.throttled.replicas" not in options_of(rookery, "topic", "slow")
    assert "leader.replication.throttled.rate" not in options_of(rookery, "broker", str(old))
    assert "nothing is being moved" in rookery("partition", "throttle", "5", code=1)
    assert "bytes a second are needed" in rookery("partition", "throttle", "fast", code=2)
    assert "no limit" in rookery("partition", "throttle", "off")
    missing = plan_of(tmp_path / "none.json", "nobody", [1])
    assert "no such partition" in rookery("partition", "verify", "--plan", missing, code=1)


def test_brokers_are_balanced_after_a_look_at_it(cluster: Cluster, rookery: Command, tmp_path: Path) -> None:
    cluster.create_topic("uneven", partitions=4, replication_factor=2)
    plan = plan_of(tmp_path / "plan.json", "uneven", *[[1, 2]] * 4)
    rookery("partition", "reassign", "--plan", plan, "--yes")
    cluster.wait_for(lambda: rookery("partition", "status", "-o", "json").strip() == "[]", "the move to end")
    seen = rookery("partition", "balance", "--topic", "uneven", "--dry-run")
    assert "4 replica(s) would be copied" in seen
    rows = rookery.json("partition", "balance", "--topic", "uneven", "--dry-run")
    assert [(row["replicas"], row["new-replicas"], row["new-leaders"]) for row in rows] == [
        (4, 2, 1), (4, 2, 1), (0, 2, 1), (0, 2, 1),
    ]  # fmt: skip
    assert "needs --yes" in rookery("partition", "balance", "--topic", "uneven", code=2)
    assert rookery.json("partition", "list", "--topic", "uneven")[0]["replicas"] == [1, 2], "nothing moved so far"
    rookery("partition", "balance", "--topic", "uneven", "--yes")
    cluster.wait_for(lambda: rookery("partition", "status", "-o", "json").strip() == "[]", "the move to end")
    held = [broker for row in rookery.json("partition", "list", "--topic", "uneven") for broker in row["replicas"]]
    assert sorted(held) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert "0 partition(s) would change" in rookery("partition", "balance", "--topic", "uneven", "--yes")


def test_preferred_leaders_come_back(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("led", partitions=4, replication_factor=3)
    first = cluster.leader("led", 0)
    cluster.restart(first)
    cluster.wait_in_sync("led")
    rows = rookery.json("partition", "elect", "--topic", "led")
    assert {(row["topic"], row["result"]) for row in rows} <= {("led", "done")}
    cluster.wait_for(lambda: cluster.leader("led", 0) == first, "the preferred leader")


def test_an_open_transaction_is_shown_and_can_be_aborted(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("tx")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "hanging"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("tx", b"open")
    producer.flush(30)
    states = {row["transactional-id"]: row["transaction-state"] for row in rookery.json("transaction", "list")}
    assert states["hanging"] == "Ongoing"
    (described,) = rookery.json("transaction", "describe", "hanging")
    assert described["partitions"] == ["tx-0"]
    (found,) = rookery.json("transaction", "producers", "tx", "0")
    assert found["current-transaction-start-offset"] == 0
    assert "`rookery transaction list` shows" in rookery("transaction", "describe", "nobodys", code=4)
    assert "begins at 7" in rookery("transaction", "abort", "tx", "0", "--start-offset", "7", "--yes", code=4)
    rookery("transaction", "abort", "tx", "0", "--start-offset", "0", "--yes")
    (after,) = rookery.json("transaction", "producers", "tx", "0")
    assert after["current-transaction-start-offset"] == "none"


def test_acls(rookery: Command) -> None:
    reads = ("--principal", "User:alice", "--operation", "read", "--resource", "topic", "--name", "orders")
    assert rookery("acl", "create", *reads) == "User:alice may read topic orders\n"
    (row,) = rookery.json("acl", "list", "--principal", "User:alice")
    assert (row["operation"], row["resource"], row["name"], row["pattern"]) == ("read", "topic", "orders", "literal")
    assert "needs --yes" in rookery("acl", "delete", "--principal", "User:alice", code=2)
    assert rookery("acl", "delete", "--principal", "User:alice", "--yes") == "deleted 1 ACL(s)\n"
    assert "no ACL matches" in rookery("acl", "delete", "--principal", "User:alice", "--yes", code=4)


def test_users(rookery: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    assert "secret" not in rookery("user", "create", "alice")
    assert rookery.json("user", "list") == [{"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096}]
    rookery("user", "delete", "alice", "--yes")
    assert rookery.json("user", "list") == []
    assert "`rookery user list` shows what there is" in rookery("user", "delete", "alice", "--yes", code=4)


def test_quotas(cluster: Cluster, rookery: Command) -> None:
    rookery("quota", "set", "--user", "alice", "producer_byte_rate=1024")
    rookery("quota", "set", "--client-id", "<default>", "consumer_byte_rate=2048")
    cluster.wait_for(lambda: len(rookery.json("quota", "list")) == 2, "the quotas")
    rows = {row["entity"]: row["value"] for row in rookery.json("quota", "list")}
    assert rows == {"user alice": 1024.0, "client-id <default>": 2048.0}
    rookery("quota", "unset", "--user", "alice", "producer_byte_rate")
    cluster.wait_for(lambda: len(rookery.json("quota", "list")) == 1, "the quota to be gone")
    assert "known quotas are" in rookery("quota", "set", "--user", "a", "bytes=1", code=2)
    assert "did you mean producer_byte_rate?" in rookery("quota", "set", "--ip", "x", "producer_byte_rat=1", code=2)
    assert "whose quota?" in rookery("quota", "set", "producer_byte_rate=1", code=2)


def test_options_of_a_client_are_its_quotas(cluster: Cluster, rookery: Command) -> None:
    assert "allowed, not changed" in rookery("config", "set", "client", "loader", "producer_byte_rate=5", "--dry-run")
    rookery("config", "set", "client", "loader", "producer_byte_rate=1234567", "request_percentage=12.5")
    rookery("config", "set", "client", "all", "consumer_byte_rate=99")

    def changed(name: str) -> dict[str, str]:
        return {row["option"]: row["value"] for row in rookery.json("config", "diff", "client", name)}

    wanted = {"producer_byte_rate": "1234567", "request_percentage": "12.5"}
    cluster.wait_for(lambda: changed("loader") == wanted, "the quotas")
    cluster.wait_for(lambda: changed("all") == {"consumer_byte_rate": "99"}, "the default")
    (row,) = rookery.json("config", "get", "client", "loader", "consumer_byte_rate")
    assert (row["value"], row["source"]) == ("", "default")
    rookery("config", "unset", "client", "loader", "producer_byte_rate", "request_percentage")
    rookery("config", "unset", "client", "all", "consumer_byte_rate")
    cluster.wait_for(lambda: not rookery.json("quota", "list"), "no quotas")
    assert "options of a client are" in rookery("config", "set", "client", "loader", "bytes=1", code=2)
    assert "a number is needed" in rookery("config", "set", "client", "x", "producer_byte_rate=y", code=2)
    assert "not lists" in rookery("config", "append", "client", "x", "producer_byte_rate=1", code=2)


def test_the_state_of_the_cluster_in_every_form(rookery: Command) -> None:
    (state,) = rookery.json("cluster", "health", "--wait", "30")
    assert (state["state"], state["problems"], state["brokers"]) == ("healthy", [], [1, 2, 3, 4])
    assert rookery("cluster", "health", "-o", "name") == "healthy\n"
    line = json.loads(rookery("cluster", "watch", "-n", "1", "-o", "json"))
    assert {"time", "state", "problems", "controller", "brokers"} == set(line)
    (report,) = rookery.json("cluster", "status")
    assert rookery("cluster", "status", "-o", "name").strip() == report["cluster_id"]
    assert rookery("cluster", "status", "-o", "csv").startswith("CLUSTER_ID,CONTROLLER\n")
    assert rookery("cluster", "status", "-o", "yaml").startswith("- cluster_id: ")


def test_nodes_are_listed_described_drained_and_removed(cluster: Cluster, rookery: Command) -> None:
    """Last in this module: the cluster has one broker fewer afterwards."""
    cluster.create_topic("kept", partitions=4, replication_factor=2)
    rows = rookery.json("node", "list")
    assert [(row["node"], row["state"]) for row in rows] == [(number, "running") for number in (1, 2, 3, 4)]
    assert sum(row["leaders"] for row in rows) >= 4
    (one,) = rookery.json("node", "describe", "4")
    assert one["log-dirs"][0]["state"] == "online"
    assert one["options"]["node.id"] == "4"
    assert "authorizer.class.name=" in rookery("node", "describe", "4")
    assert "there is no broker 9; there are 1, 2, 3, 4" in rookery("node", "describe", "9", code=4)
    assert "is running: stop it first" in rookery("node", "remove", "4", "--yes", code=1)
    plan = json.loads(rookery("node", "drain", "4", "--dry-run"))
    assert all(4 not in row["replicas"] for row in plan["partitions"])
    assert "needs --yes" in rookery("node", "drain", "4", code=2)
    assert "holds nothing any more" in rookery("node", "drain", "4", "--yes", "--wait", "60")
    assert rookery("node", "drain", "4", "--yes") == "broker 4 holds no replica\n"
    cluster.stop_node(4)
    cluster.wait_for(lambda: rookery.json("node", "list")[-1]["state"] == "fenced", "the broker to be fenced")
    assert "is forgotten" in rookery("node", "remove", "4", "--yes")
    cluster.wait_for(lambda: [row["node"] for row in rookery.json("node", "list")] == [1, 2, 3], "all to know")
