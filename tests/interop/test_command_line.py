"""Every verb of `rookery` that works over the wire, against this project's nodes and against Apache Kafka's server, its
output beside that of Kafka's own tools where they show the same."""

import asyncio
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from rookery.client.cli.__main__ import COMMANDS, build_parser, main
from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.interop.kafka.cluster import kafka_cluster
from tests.interop.test_transaction_tools import hang
from tests.interop.tools import Tools, table
from tests.tidy.cli_page import below

OPTIONS = {
    "authorizer__class__name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super__users": "User:ANONYMOUS",
    "group__initial__rebalance__delay__ms": "0",
    "offsets__topic__num__partitions": "1",
    "transaction__state__log__num__partitions": "1",
    "transaction__partition__verification__enable": "false",
}
"""Without verification a transaction can be made to hang, as it did before KIP-890."""
ELSEWHERE = {
    "up", "up logs", "up stop", "up restart", "up reset", "down", "node", "completion", "pipeline archive",
    "pipeline run", "pipeline list", "pipeline status", "pipeline stop",
    "context list", "context current", "context add", "context use", "context remove",
    "quorum add-voter", "quorum remove-voter",
}  # fmt: skip
"""Verbs that ask no cluster, or change voters, which only ours do."""
ran: set[str] = set()
Schemas = dict[str, dict[str, set[str]]]
schemas: Schemas = {}
"""By verb: the names in its JSON, and the types of their values."""
SCHEMAS = Path(__file__).parents[1] / "golden" / "cli" / "schemas.json"


class Server:
    """A cluster, our commands at it, and Kafka's tools."""

    def __init__(self, kind: str, cluster: LocalCluster, tools: Tools) -> None:
        self.kind = kind
        self.cluster = cluster
        self._tools = tools
        self.capsys: pytest.CaptureFixture[str] | None = None

    def __call__(self, *words: str, code: int = 0) -> str:
        assert self.capsys is not None
        self.capsys.readouterr()
        found = main([*words, "--bootstrap", self.cluster.bootstrap])
        printed = self.capsys.readouterr()
        assert found == code, f"{words}: {printed.out}{printed.err}"
        ran.add(verb_of(words))
        return printed.out if code == 0 else printed.out + printed.err

    def json(self, *words: str, code: int = 0) -> Any:
        return self._read(words, self(*words, "-o", "json", code=code))

    def _read(self, words: tuple[str, ...], text: str) -> Any:
        rows = json.loads(text)
        for row in rows if isinstance(rows, list) else [rows]:
            schema = schemas.setdefault(verb_of(words), {})
            for name in row:
                schema.setdefault(name, set()).add(type(row[name]).__name__)
        return rows

    def offline(self, *words: str) -> Any:
        """Of a command that asks no broker."""
        assert self.capsys is not None
        self.capsys.readouterr()
        assert main([*words, "-o", "json"]) == 0
        ran.add(verb_of(words))
        return self._read(words, self.capsys.readouterr().out)

    def ends(self, *words: str) -> int:
        """The exit code of a command that says with it how things are."""
        ran.add(verb_of(words))
        return main([*words, "--bootstrap", self.cluster.bootstrap])

    def tool(self, name: str, *words: str, text: str = "") -> str:
        return self._tools.run(name, "--bootstrap-server", self.cluster.bootstrap, *words, text=text)

    def topic(self, name: str, *values: str, partitions: int = 1, replicas: int = 1) -> str:
        """A topic with a record for each value, in turns."""
        self("topic", "create", name, "-p", str(partitions), "-r", str(replicas))
        self.cluster.wait_until_known(name, partitions)
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        for number, value in enumerate(values):
            producer.produce(name, value, partition=number % partitions)
        assert producer.flush(30) == 0
        return name


def verb_of(words: tuple[str, ...]) -> str:
    return " ".join(words[:2]) if " ".join(words[:2]) in VERBS else words[0]


def all_verbs() -> list[str]:
    found = []
    for command in COMMANDS:
        parser = next(each for name, _, each in below(build_parser(command)) if name == command)
        found += [f"{command} {verb}" for verb, _, _ in below(parser)] or [command]
    return found


VERBS = all_verbs()


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    running = Tools()
    yield running
    running.close()


@pytest.fixture(scope="module", params=["rookery", "kafka"])
def running(request: pytest.FixtureRequest, tools: Tools) -> Iterator[Server]:
    start = local_cluster if request.param == "rookery" else kafka_cluster
    ran.clear()
    schemas.clear()
    with start(2, **OPTIONS) as cluster:
        yield Server(request.param, cluster, tools)


@pytest.fixture
def server(running: Server, capsys: pytest.CaptureFixture[str]) -> Server:
    running.capsys = capsys
    return running


def lines_of(printed: str, *, prefix: str) -> list[str]:
    return [line.strip() for line in printed.splitlines() if line.strip().startswith(prefix)]


def test_topics(server: Server, tmp_path: Path) -> None:
    server("topic", "create", "made", "-p", "2", "-r", "2", "--config", "retention.ms=9999999")
    server.cluster.wait_until_known("made", 2)
    assert [row["topic"] for row in server.json("topic", "list")] == sorted(
        name for name in server.tool("kafka-topics", "--list").split() if not name.startswith("__")
    )
    described = server.tool("kafka-topics", "--describe", "--topic", "made")
    rows = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines_of(described, prefix="Topic: made\tPartition")]
    theirs = [(row["Partition"], row["Leader"], row["Replicas"], row["Isr"]) for row in rows]
    ours = [
        (str(row["partition"]), str(row["leader"]), ",".join(map(str, row["replicas"])), ",".join(map(str, row["isr"])))
        for row in server.json("topic", "describe", "made")
    ]
    assert ours == theirs
    assert "retention.ms=9999999" in server("topic", "describe", "made")
    server("topic", "alter", "made", "retention.ms=8888888", "--unset", "cleanup.policy")
    entity = ("--entity-type", "topics", "--entity-name", "made")
    wait_for(lambda: "retention.ms=8888888" in server.tool("kafka-configs", "--describe", *entity), "it to be known")
    server("topic", "add-partitions", "made", "3")
    server.cluster.wait_until_known("made", 3)
    assert "made" in server("topic", "create", "made", code=1)
    assert "did you mean made? `rookery topic list`" in server("topic", "describe", "mad", code=4)
    server("topic", "delete", "made", "--yes")
    server.cluster.wait_until_known("made", 0)


def test_records_offsets_trim_and_copy(server: Server, tmp_path: Path) -> None:
    server.topic("spoken", partitions=2)
    file = tmp_path / "lines"
    file.write_text("k:one\nk:two\nk:three\n")
    server("produce", "spoken", "--key-separator", ":", "--file", str(file))
    assert server("consume", "spoken", "--format", "%k=%v;") == "k=one;k=two;k=three;"
    words = ("--topic", "spoken", "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    assert server.tool("kafka-console-consumer", *words).split() == ["one", "two", "three"]
    read = server.json("consume", "spoken", "--group", "spoken", "-n", "2")
    assert [row["value"] for row in read] == ["one", "two"]

    def offsets(topic: str, column: str) -> list[str]:
        return [f"{topic}:{row['partition']}:{row[column]}" for row in server.json("topic", "offsets", topic)]

    assert offsets("spoken", "latest") == sorted(server.tool("kafka-get-offsets", "--topic", "spoken").split())
    server("topic", "copy", "spoken", "repeated")
    assert offsets("repeated", "latest") == [each.replace("spoken", "repeated") for each in offsets("spoken", "latest")]
    assert [row["records"] for row in server.json("topic", "trim", "spoken", "--before", "-1", "--yes")] == [2]
    earliest = server.tool("kafka-get-offsets", "--topic", "spoken", "--time", "earliest").split()
    assert offsets("spoken", "earliest") == sorted(earliest)


def test_groups(server: Server, tmp_path: Path) -> None:
    topic = server.topic("grouped", *map(str, range(20)), partitions=2)
    consumer = Consumer(
        {
            "bootstrap.servers": server.cluster.bootstrap, "group.id": "readers", "client.id": "one", "log_level": 0,
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    wait_for(lambda: consumer.poll(0.5), "a record")
    consumer.commit(asynchronous=False)

    def theirs(*words: str) -> list[dict[str, str]]:
        printed = server.tool("kafka-consumer-groups", "--describe", "--group", "readers", *words)
        return sorted(table(printed[printed.index("GROUP") :]), key=lambda row: row.get("PARTITION", ""))

    def ours() -> list[dict[str, Any]]:
        return [row for row in server.json("group", "describe", "readers") if row["current-offset"] != "-"]

    same = ("topic", "partition", "current-offset", "log-end-offset", "lag", "consumer-id", "client-id")
    read = [row for row in theirs() if row["CURRENT-OFFSET"] != "-"]
    assert [[str(row[name]) for name in same] for row in ours()] == [
        [row[name.upper()] for name in same] for row in read
    ]
    (member,) = server.json("group", "members", "readers")
    (seen,) = theirs("--members")
    assert (member["consumer-id"], str(member["partitions"])) == (seen["CONSUMER-ID"], seen["#PARTITIONS"])
    assert "record(s) behind" in server("group", "explain", "readers", "--sample", "0.1")
    assert server.json("group", "explain", "readers", "--sample", "0")[0]["remedies"]
    consumer.close()
    wait_for(lambda: not server.json("group", "members", "readers"), "the group to be empty")
    listed = {row["group"]: row for row in server.json("group", "list")}
    assert (listed["readers"]["type"], listed["readers"]["state"]) == ("classic", "Empty")
    reset = ("--reset-offsets", "--group", "readers", "--topic", topic)
    for ways, their_ways in (
        (["--to-earliest"], ["--to-earliest"]),
        (["--to-latest"], ["--to-latest"]),
        (["--to-offset", "7"], ["--to-offset", "7"]),
        (["--to-datetime", "2020-01-01T00:00:00"], ["--to-datetime", "2020-01-01T00:00:00.000"]),
        (["--by-duration", "1d"], ["--by-duration", "P1D"]),
    ):
        plan = server.json("group", "reset", "readers", "--topic", topic, *ways, "--dry-run")
        printed = table(server.tool("kafka-consumer-groups", *reset, *their_ways, "--dry-run"))
        wanted = sorted((row["PARTITION"], row["NEW-OFFSET"]) for row in printed)
        assert [(str(row["partition"]), str(row["new-offset"])) for row in plan] == wanted, ways
    server("group", "reset", "readers", "--topic", topic, "--to-offset", "4", "--yes")
    assert [row["CURRENT-OFFSET"] for row in theirs()] == ["4", "4"]
    saved = tmp_path / "offsets.json"
    saved.write_text(server("group", "export", "readers"))
    server("group", "reset", "readers", "--to-latest", "--yes")
    assert {row["new-offset"] for row in server.json("group", "import", "readers", str(saved), "--yes")} == {4}
    assert [row["CURRENT-OFFSET"] for row in theirs()] == ["4", "4"]
    server("group", "delete-offsets", "readers", "--topic", f"{topic}:0", "--yes")
    assert [row["PARTITION"] for row in theirs()] == ["1"]
    server("group", "delete", "readers", "--yes")
    assert "there is no group" in server("group", "describe", "readers", code=4)


def test_options(server: Server) -> None:
    topic = server.topic("configured")
    server("config", "set", "topic", topic, "retention.ms=60000", "cleanup.policy=delete")
    server("config", "append", "topic", topic, "cleanup.policy=compact")

    def options(kind: str, name: str) -> dict[str, str]:
        return {row["option"]: row["value"] for row in server.json("config", "diff", kind, name)}

    wanted = {"retention.ms": "60000", "cleanup.policy": "delete,compact"}
    wait_for(lambda: wanted.items() <= options("topic", topic).items(), "it to be known")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    described = server.tool("kafka-configs", "--describe", *entity)
    theirs = dict(re.findall(r"^\s+([\w.]+)=(\S*) sensitive", described, re.MULTILINE))
    assert theirs.items() <= options("topic", topic).items()
    (row,) = server.json("config", "get", "topic", topic, "retention.ms")
    assert row["value"] == "60000"
    server("config", "subtract", "topic", topic, "cleanup.policy=compact")
    server("config", "unset", "topic", topic, "retention.ms", "cleanup.policy")
    wait_for(lambda: not wanted.keys() & options("topic", topic).keys(), "it to be known")
    server("config", "set", "broker", "all", "log.cleaner.threads=2")
    brokers = ("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-default")
    wait_for(lambda: "log.cleaner.threads=2" in server.tool(*brokers), "it to be known")
    server("config", "unset", "broker", "all", "log.cleaner.threads")
    server("config", "set", "group", "some", "consumer.session.timeout.ms=50000")
    wait_for(
        lambda: options("group", "some").get("consumer.session.timeout.ms") == "50000", "the group's option to be known"
    )
    assert "did you mean retention.ms?" in server("config", "get", "topic", topic, "retention.m", code=4)


def test_moves_of_replicas(server: Server, tmp_path: Path) -> None:
    topic = server.topic("moved", "v", partitions=2)
    held = {row["partition"]: row["replicas"] for row in server.json("partition", "list", "--topic", topic)}
    described = server.tool("kafka-topics", "--describe", "--topic", topic)
    assert [str(held[number][0]) for number in (0, 1)] == re.findall(r"Replicas: (\d)", described)
    plan = json.loads(server("partition", "reassign", "--topic", topic, "--drain", "2", "--dry-run"))
    assert {tuple(row["replicas"]) for row in plan["partitions"]} <= {(1,)}
    parts = [{"topic": topic, "partition": number, "replicas": [1]} for number in (0, 1)]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": parts}))
    server("partition", "reassign", "--plan", str(file), "--throttle", "1000000", "--yes")
    wait_for(lambda: server.ends("partition", "status") == 0, "the moves to end")
    verify = ("kafka-reassign-partitions", "--verify", "--reassignment-json-file", str(file), "--preserve-throttles")
    wait_for(lambda: server.tool(*verify).count("is completed") == 2, "Kafka's tool to say the same")
    assert {row["state"] for row in server.json("partition", "verify", "--plan", str(file))} == {"complete"}
    assert "no limit" in server("partition", "throttle", "off")
    assert "partition(s) would change" in server("partition", "balance", "--topic", topic, "--dry-run")
    shares = server.json("partition", "balance", "--topic", topic, "--dry-run")
    assert [(row["replicas"], row["new-replicas"]) for row in shares] == [(2, 1), (0, 1)]
    assert {row["result"] for row in server.json("partition", "elect", "--topic", topic)} == {"done"}
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [9]}]}))
    assert "9" in server("partition", "reassign", "--plan", str(file), "--yes", code=1)


def test_a_move_that_takes_too_long_is_cancelled(server: Server, tmp_path: Path) -> None:
    topic = server.topic("heavy", *["v" * 100_000] * 30)
    (row,) = server.json("partition", "list", "--topic", topic)
    other = 3 - row["leader"]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [other]}]}))
    server("partition", "reassign", "--plan", str(file), "--throttle", "1", "--yes")
    (move,) = server.json("partition", "status", code=3)
    assert (move["topic"], move["adding"], move["removing"]) == (topic, [other], [row["leader"]])
    assert f"{topic}-0" in server.tool("kafka-reassign-partitions", "--list")
    assert server("partition", "cancel", "--yes") == "cancelled 1 move(s)\n"
    assert "No partition reassignments found" in server.tool("kafka-reassign-partitions", "--list")
    assert server.json("partition", "list", "--topic", topic)[0]["replicas"] == row["replicas"]
    server("partition", "throttle", "off")


def test_transactions(server: Server) -> None:
    topic = server.topic("bought")
    options = {"bootstrap.servers": server.cluster.bootstrap, "transactional.id": "buyer", "log_level": 0}
    producer = Producer(options)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush(30)
    (row,) = [row for row in server.json("transaction", "list") if row["transactional-id"] == "buyer"]
    theirs = {each["TransactionalId"]: each for each in table(server.tool("kafka-transactions", "list"))}["buyer"]
    assert (str(row["producer-id"]), row["transaction-state"]) == (theirs["ProducerId"], theirs["TransactionState"])
    (row,) = server.json("transaction", "describe", "buyer")
    assert (row["transaction-state"], row["partitions"]) == ("Ongoing", [f"{topic}-0"])
    (row,) = server.json("transaction", "producers", topic, "0")
    place = ("--topic", topic, "--partition", "0")
    (theirs,) = table(server.tool("kafka-transactions", "describe-producers", *place))
    assert (str(row["producer-id"]), str(row["current-transaction-start-offset"])) == (
        theirs["ProducerId"], theirs["CurrentTransactionStartOffset"],
    )  # fmt: skip
    assert server.json("transaction", "hanging") == [], "it is open, and may be"
    server("transaction", "abort", topic, "0", "--start-offset", "0", "--yes")
    (row,) = server.json("transaction", "producers", topic, "0")
    assert row["current-transaction-start-offset"] == "none"
    assert "transaction list" in server("transaction", "describe", "nobodys", code=4)


def test_a_transaction_that_hangs(server: Server) -> None:
    """Its record is from long ago, as if it had hung since then."""
    kept = ("--config", "retention.ms=-1", "--config", f"message.timestamp.before.max.ms={2**63 - 1}")
    server("topic", "create", "hung", "-p", "1", "-r", "1", *kept)
    server.cluster.wait_until_known("hung", 1)
    leader = server.cluster.leader("hung")
    producer_id = asyncio.run(hang(server.cluster.node(leader).kafka, "hung"))
    (row,) = server.json("transaction", "hanging", code=3)
    (theirs,) = table(server.tool("kafka-transactions", "find-hanging", "--broker-id", str(leader)))
    ours = [row[name] for name in ("topic", "partition", "producer-id", "start-offset")]
    assert list(map(str, ours)) == [theirs[name] for name in ("Topic", "Partition", "ProducerId", "StartOffset")]
    assert row["producer-id"] == producer_id
    assert "a transaction hangs in hung-0: producer" in server("doctor", code=3)
    server("transaction", "abort", "hung", "0", "--start-offset", str(row["start-offset"]), "--yes")
    assert server.json("transaction", "hanging") == []


def test_access(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server("acl", "create", "--principal", "User:ann", "--operation", "read", "--resource", "topic", "--name", "orders")
    wait_for(lambda: server.json("acl", "list", "--principal", "User:ann"), "the ACL")
    (line,) = lines_of(server.tool("kafka-acls", "--list", "--principal", "User:ann"), prefix="(principal=User:ann")
    assert line == "(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)"
    assert server("acl", "delete", "--principal", "User:ann", "--yes") == "deleted 1 ACL(s)\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("secret\n"))
    server("user", "create", "ann")
    users = ("kafka-configs", "--describe", "--entity-type", "users")
    wait_for(lambda: "SCRAM-SHA-512=iterations=4096" in server.tool(*users), "Kafka's tool to see her")
    (user,) = wait_for(lambda: server.json("user", "list"), "her to be known everywhere")
    assert (user["user"], user["mechanism"]) == ("ann", "SCRAM-SHA-512")
    server("user", "delete", "ann", "--yes")
    server("quota", "set", "--client-id", "loader", "producer_byte_rate=1024")
    clients = ("kafka-configs", "--describe", "--entity-type", "clients")
    wait_for(lambda: "producer_byte_rate=1024.0" in server.tool(*clients), "Kafka's tool to see it")
    wait_for(lambda: server.json("quota", "list"), "the quota")
    server("quota", "unset", "--client-id", "loader", "producer_byte_rate")
    wait_for(lambda: not server.json("quota", "list"), "the quota to be gone")


def test_the_cluster_and_its_nodes(server: Server) -> None:
    server.topic("there", "v", replicas=2)
    server.cluster.wait_in_sync("there", replicas=2)
    (described,) = server.json("cluster", "describe")
    assert described["cluster_id"] == server.cluster.file.cluster_id
    status = server.tool("kafka-metadata-quorum", "describe", "--status")
    assert re.search(rf"LeaderId:\s+{described['controller']}\b", status)
    theirs = table(server.tool("kafka-metadata-quorum", "describe", "--replication"))
    assert described["voters"] == sorted(int(row["NodeId"]) for row in theirs if row["Status"] != "Observer")
    (state,) = server.json("cluster", "status")
    assert state["controller"] == described["controller"]
    assert [row["state"] for row in server.json("cluster", "health", "--wait", "60")] == ["healthy"]
    assert server.json("cluster", "watch", "-n", "1")["state"] == "healthy"
    rows = server.json("node", "list")
    assert [(row["node"], row["state"]) for row in rows] == [(1, "running"), (2, "running")]
    (one,) = server.json("node", "describe", "1")
    dirs = json.loads(server.tool("kafka-log-dirs", "--describe", "--broker-list", "1").splitlines()[-1])
    assert [each["folder"] for each in one["log-dirs"]] == [each["logDir"] for each in dirs["brokers"][0]["logDirs"]]
    assert "has a replica on every other broker" in server("node", "drain", "2", "--dry-run", code=1)
    rows = server.json("quorum", "status")
    theirs = table(server.tool("kafka-metadata-quorum", "describe", "--replication"))
    assert {(str(row["node"]), row["role"]) for row in rows} == {
        (row["NodeId"], row["Status"].lower().replace("follower", "voter")) for row in theirs
    }


def test_a_healthy_cluster_has_nothing_for_the_doctor(server: Server) -> None:
    said = server("doctor")
    assert said.splitlines()[-1] == "all is well"
    assert [line for line in said.splitlines() if line.startswith(("WARNING", "ERROR"))] == []


def test_load(server: Server) -> None:
    topic = server.topic("loaded")
    (row,) = server.json("bench", "produce", "-n", "200", "--size", "50", "--topic", topic)
    assert (row["records"], server.tool("kafka-get-offsets", "--topic", topic).strip()) == (200, f"{topic}:0:200")
    (row,) = server.json("bench", "consume", "--topic", topic)
    assert row["records"] == 200
    (row,) = server.json("bench", "e2e", "-n", "3", "-r", "1")
    assert row["records"] == 3
    rows = {row["what"]: row for row in server.json("bench", "codecs", "-n", "100", "-r", "1")}
    assert rows["zstd"]["ratio"] > 1.3 > 1 > rows["none"]["ratio"]


def test_the_path_of_a_record_and_what_only_our_nodes_have(server: Server) -> None:
    topic = server.topic("traced", "v", replicas=2)
    steps = server.json("trace", topic, "0", "0")
    assert [step["step"] for step in steps][:3] == ["appended", "replicated", "committed"]
    if server.kind == "rookery":
        assert server.json("events", "--event", "topic.created")
        assert "NODE" in server("cluster", "watch", "--metrics", "-n", "1", "--interval", "0.1")
    else:
        for words in (["events"], ["cluster", "watch", "--metrics"]):
            assert "it is not a node of Rookery" in server(*words, code=1)


def test_controllers_of_ours_are_asked_and_others_are_told_apart(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["quorum", "log"], ["metadata", "dump"]):
        if server.kind == "rookery":
            assert server.offline(*words, "--controllers", server.cluster.node(1).grpc)
        else:
            assert main([*words, "--controllers", server.cluster.node(1).kafka]) == 1
            assert "Those of Apache Kafka have none" in capsys.readouterr().err
            ran.add(verb_of(tuple(words)))


def test_a_broker_that_is_gone_for_good(server: Server) -> None:
    """After all tests that need two of them. Its files are read offline, Kafka's as our own."""
    server.topic("filed", "a", "b")
    file = Path(server.cluster.node(server.cluster.leader("filed")).data) / "filed-0" / f"{0:020}.log"
    assert [row["value"] for row in server.offline("log", "dump", str(file), "--records")] == ["a", "b"]
    server.cluster.stop(2)
    wait_for(lambda: server.json("node", "list")[1]["state"] == "fenced", "the broker to be fenced")
    found = {row["what"]: row["severity"] for row in server.json("doctor", code=3)}
    assert [severity for what, severity in found.items() if "broker 2 is registered but fenced" in what] == ["error"]
    assert [what for what in found if "under-replicated" in what]
    server("node", "remove", "2", "--force", "--yes")
    wait_for(lambda: [row["node"] for row in server.json("node", "list")] == [1], "the broker to be forgotten")
    rows = server.offline("log", "verify", server.cluster.node(2).data)
    assert "traced-0" in {row["partition"] for row in rows}
    assert {row["damage"] for row in rows} == {0}


def test_every_verb_was_called(server: Server) -> None:
    """After all others: the order in the module counts."""
    assert set(VERBS) - ran - ELSEWHERE == set()
    assert ran & ELSEWHERE == set()


def test_the_json_of_each_verb_is_what_programs_know(server: Server) -> None:
    """After all others, too. The same names from both servers; `REWRITE_GOLDEN=1` adds to what is written down."""
    known: dict[str, dict[str, list[str]]] = json.loads(SCHEMAS.read_text()) if SCHEMAS.exists() else {}
    if os.environ.get("REWRITE_GOLDEN"):
        for verb, schema in schemas.items():
            for name, types in schema.items():
                of_verb = known.setdefault(verb, {})
                of_verb[name] = sorted({*of_verb.get(name, ()), *types})
        SCHEMAS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    for verb, schema in schemas.items():
        assert schema.keys() == known[verb].keys(), verb
        strange = {name: types for name, types in schema.items() if types - set(known[verb][name])}
        assert strange == {}, verb
