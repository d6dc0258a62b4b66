"""`group`, `config` and `doctor` against a cluster in this process."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from rookery.client.cli.__main__ import main
from rookery.sync import Admin
from rookery.sync import Producer as OwnProducer
from rookery.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Nobody waits for heartbeats longer than needed."""
    options = {
        "broker.session.timeout.ms": 1500,
        "broker.heartbeat.interval.ms": 300,
        "group.consumer.assignment.interval.ms": 0,
    }
    with Cluster(nodes=3, config=options) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    cluster.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(20):
        producer.produce(name, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    return name


def commit(cluster: Cluster, group: str, topic: str, **offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, int(name[1:]), offset) for name, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


class Command:
    """Runs `rookery ...` and reads what it printed."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster = cluster
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        found = main([*words, "--bootstrap", self._cluster.bootstrap])
        printed = self._capsys.readouterr()
        assert found == code, printed.out + printed.err
        return printed.out if code == 0 else printed.out + printed.err

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "-o", "json", code=code))


@pytest.fixture
def rookery(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capsys)


# --- group --------------------------------------------------------------------------------------------------


def test_list_and_describe_with_lag(cluster: Cluster, rookery: Command, topic: str) -> None:
    commit(cluster, topic, topic, p0=4, p1=10)
    listed = {row["group"]: row for row in rookery.json("group", "list")}
    assert (listed[topic]["type"], listed[topic]["state"]) == ("classic", "Empty")
    rows = rookery.json("group", "describe", topic)
    assert [(row["partition"], row["current-offset"], row["log-end-offset"], row["lag"]) for row in rows] == [
        (0, 4, 10, 6),
        (1, 10, 10, 0),
    ]
    assert rows[0]["lag-seconds"] >= 0
    table = rookery("group", "describe", topic)
    assert "members 0  lag 6" in table
    assert "CURRENT-OFFSET" in table


def test_describe_shows_who_reads_what(cluster: Cluster, rookery: Command, topic: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "client.id": "me"}
    )
    consumer.subscribe([topic])
    cluster.wait_for(lambda: consumer.poll(0.5), "a record")
    try:
        (member,) = rookery.json("group", "describe", topic, "--members")
        assert (member["client-id"], member["partitions"]) == ("me", 2)
        assert {row["client-id"] for row in rookery.json("group", "describe", topic)} == {"me"}
        assert "has 1 member(s)" in rookery("group", "reset", topic, "--to-latest", "--yes", code=1)
    finally:
        consumer.close()


def test_explain_says_why_and_is_silent_when_all_is_read(cluster: Cluster, rookery: Command, topic: str) -> None:
    commit(cluster, topic, topic, p0=10, p1=10)
    assert "It is up to date." in rookery("group", "explain", topic)
    commit(cluster, topic, topic, p0=1)
    said = rookery("group", "explain", topic)
    assert "No consumer runs: the group has no members, and 9 record(s) wait" in said
    assert "1. start its consumers" in said


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (["--to-earliest"], [0, 0]),
        (["--to-latest"], [10, 10]),
        (["--to-offset", "7"], [7, 7]),
        (["--to-offset", "99"], [10, 10]),
        (["--shift-by", "-2"], [2, 8]),
        (["--by-duration", "1d"], [0, 0]),
        (["--to-datetime", "2999-01-01T00:00:00"], [10, 10]),
        (["--to-current"], [4, 10]),
    ],
)
def test_reset_in_every_way(
    cluster: Cluster, rookery: Command, way: list[str], expected: list[int], request: pytest.FixtureRequest
) -> None:
    name = "reset" + "".join(filter(str.isalnum, request.node.name))
    cluster.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(20):
        producer.produce(name, b"v", partition=number % 2)
    producer.flush(30)
    commit(cluster, name, name, p0=4, p1=10)
    planned = rookery.json("group", "reset", name, *way, "--dry-run")
    assert [row["new-offset"] for row in planned] == expected
    assert [row["current-offset"] for row in rookery.json("group", "describe", name)] == [4, 10]
    rookery("group", "reset", name, *way, "--yes")
    assert [row["current-offset"] for row in rookery.json("group", "describe", name)] == expected


def test_a_reset_off_a_terminal_needs_yes(cluster: Cluster, rookery: Command, topic: str) -> None:
    commit(cluster, topic, topic, p0=4)
    assert "needs --yes" in rookery("group", "reset", topic, "--to-earliest", code=2)
    assert rookery.json("group", "describe", topic)[0]["current-offset"] == 4


def test_export_and_import(cluster: Cluster, rookery: Command, topic: str, tmp_path: Path) -> None:
    commit(cluster, topic, topic, p0=4, p1=5)
    saved = tmp_path / "offsets.json"
    saved.write_text(rookery("group", "export", topic))
    rookery("group", "reset", topic, "--to-earliest", "--yes")
    rookery("group", "reset", topic, "--from-file", str(saved), "--yes")
    assert [row["current-offset"] for row in rookery.json("group", "describe", topic)] == [4, 5]
    saved.write_text("{}x")
    assert "rows of topic, partition and offset are needed" in rookery(
        "group", "reset", topic, "--from-file", str(saved), "--yes", code=2
    )


def test_delete_and_delete_offsets(cluster: Cluster, rookery: Command, topic: str) -> None:
    commit(cluster, topic, topic, p0=4, p1=5)
    rookery("group", "delete-offsets", topic, "--topic", f"{topic}:1", "--yes")
    assert [row["partition"] for row in rookery.json("group", "describe", topic)] == [0]
    rookery("group", "delete", topic, "--yes")
    said = rookery("group", "describe", topic, code=4)
    assert f"there is no group {topic!r}" in said


# --- config -------------------------------------------------------------------------------------------------


def test_options_of_a_topic(rookery: Command, topic: str) -> None:
    rookery("config", "set", "topic", topic, "retention.ms=60000", "cleanup.policy=delete")
    assert {row["option"]: row["value"] for row in rookery.json("config", "get", "topic", topic, "retention.ms")} == {
        "retention.ms": "60000"
    }
    rookery("config", "append", "topic", topic, "cleanup.policy=compact")
    changed = {row["option"]: row["value"] for row in rookery.json("config", "diff", "topic", topic)}
    assert changed["cleanup.policy"] == "delete,compact"
    rookery("config", "unset", "topic", topic, "retention.ms", "cleanup.policy")
    assert "retention.ms" not in {row["option"] for row in rookery.json("config", "diff", "topic", topic)}


def test_wrong_options_are_refused_with_a_hint(rookery: Command, topic: str) -> None:
    assert "did you mean retention.ms?" in rookery("config", "get", "topic", topic, "retention.m", code=4)
    assert "KEY=VALUE is needed" in rookery("config", "set", "topic", topic, "retention.ms", code=2)
    assert "retention.ms" in rookery("config", "set", "topic", topic, "retention.ms=x", code=1)
    assert "did you mean retention.ms?" in rookery("topic", "alter", topic, "retention.m=5", code=1)
    assert "there are [1, 2, 3]" in rookery("config", "get", "broker", "9", code=4)
    assert "number of a broker" in rookery("config", "get", "broker", "one", code=2)


def test_options_of_brokers_and_groups(rookery: Command) -> None:
    rookery("config", "set", "broker", "all", "log.cleaner.threads=2")
    rows = rookery.json("config", "get", "broker", "1", "log.cleaner.threads")
    assert [(row["value"], row["source"]) for row in rows] == [("2", "dynamic-default-broker")]
    rookery("config", "unset", "broker", "all", "log.cleaner.threads")
    rookery("config", "set", "group", "g", "consumer.session.timeout.ms=50000")
    rows = rookery.json("config", "get", "group", "g", "consumer.session.timeout.ms")
    assert rows[0]["value"] == "50000"


def test_every_form_of_output(rookery: Command, topic: str) -> None:
    words = ("config", "get", "topic", topic, "retention.ms")
    assert rookery(*words, "-o", "name") == "retention.ms\n"
    assert rookery(*words, "-o", "csv").startswith("OPTION,VALUE,SOURCE\nretention.ms,")
    assert rookery(*words, "-o", "yaml").startswith('- option: "retention.ms"\n  value: ')
    assert json.loads(rookery(*words, "-o", "jsonl"))["option"] == "retention.ms"
    assert rookery(*words).splitlines()[0].split() == ["OPTION", "VALUE", "SOURCE"]


# --- doctor -------------------------------------------------------------------------------------------------


def test_the_doctor_is_silent_on_a_healthy_cluster_and_names_a_dead_node(
    cluster: Cluster, rookery: Command, topic: str, tmp_path: Path
) -> None:
    cluster.wait_in_sync(topic)
    assert rookery("doctor").splitlines()[-1] == "all is well"
    with cluster.kill(3):
        cluster.wait_for(lambda: 3 not in cluster.isr(topic), "node 3 to leave the ISR")
        said = rookery("doctor", "--bundle", str(tmp_path / "b.tar.gz"), code=3)
        assert "broker 3 is registered but fenced" in said
        assert "cannot be reached" in said
        assert "under-replicated" in said
    cluster.wait_in_sync(topic)
    with tarfile.open(tmp_path / "b.tar.gz") as bundle:
        assert "rookery-doctor/diagnoses.json" in bundle.getnames()


def test_the_doctor_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--bootstrap", "127.0.0.1:1"]) == 3
    assert "127.0.0.1:1 cannot be reached: Connection refused" in capsys.readouterr().out
    assert main(["doctor", "--bootstrap", "nonsense"]) == 2
    assert main(["doctor", "--bootstrap", "127.0.0.1:1", "--bundle", "/nobody/here.tar.gz"]) == 1
    assert "--bundle /nobody/here.tar.gz: No such file or directory" in capsys.readouterr().err


def test_a_secured_cluster_by_command_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file that `rookery up --secure` writes serves `group`, `config` and `doctor` as it does others."""
    from rookery.client.local import launcher

    folder = tmp_path / "secure"
    request = launcher.UpRequest(folder, 1, 0, {}, ephemeral=False, secure=True)
    launcher.bring_up(request, lambda _: None)
    try:
        for file in ("client.properties", "librdkafka.properties"):
            given = ["--command-config", str(folder / file)]
            assert main(["config", "get", "broker", "1", "log.retention.hours", *given]) == 0
            assert "168" in capsys.readouterr().out
            assert main(["group", "list", *given]) == 0
            assert main(["doctor", *given]) == 0, capsys.readouterr().out
        wrong = folder / "wrong.properties"
        text = (folder / "librdkafka.properties").read_text()
        wrong.write_text(re.sub(r"^sasl.password=.*$", "sasl.password=guessed", text, flags=re.MULTILINE))
        for words in (["topic", "list"], ["group", "list"]):
            assert main([*words, "--command-config", str(wrong)]) == 5
            assert "Check mechanism, user and password in the file that" in capsys.readouterr().err
        assert main(["doctor", "--command-config", str(wrong)]) == 3
        assert "are mechanism, user and password right?" in capsys.readouterr().out
    finally:
        launcher.bring_down(folder, lambda _: None)


# --- topic --------------------------------------------------------------------------------------------------


def test_a_topic_is_altered_trimmed_and_its_offsets_shown(rookery: Command, topic: str, tmp_path: Path) -> None:
    assert "allowed, not changed" in rookery("topic", "alter", topic, "retention.ms=1000000", "--dry-run")
    rookery("topic", "alter", topic, "retention.ms=1000000", "segment.bytes=2000000")
    rookery("topic", "alter", topic, "--unset", "segment.bytes")
    described = rookery("topic", "describe", topic)
    assert "retention.ms=1000000" in described
    assert "segment.bytes" not in described
    assert "nothing to change" in rookery("topic", "alter", topic, code=2)

    def offsets() -> list[tuple[int, int, int]]:
        return [(row["earliest"], row["last-stable"], row["latest"]) for row in rookery.json("topic", "offsets", topic)]

    assert offsets() == [(0, 10, 10)] * 2
    plan = rookery.json("topic", "trim", f"{topic}:1", "--before", "-3", "--dry-run")
    assert [(row["partition"], row["new-start-offset"], row["records"]) for row in plan] == [(1, 7, 7)]
    assert offsets() == [(0, 10, 10)] * 2
    assert "needs --yes" in rookery("topic", "trim", topic, "--before", "4", code=2)
    rookery("topic", "trim", topic, "--before", "4", "--yes")
    assert offsets() == [(4, 10, 10)] * 2
    assert rookery.json("topic", "trim", topic, "--before", "2", "--yes") == []
    assert "nothing before 99 can be deleted" in rookery("topic", "trim", topic, "--before", "99", "--yes", code=2)
    file = tmp_path / "delete.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": -1}]}))
    rookery("topic", "trim", topic, "--from-file", str(file), "--yes")
    assert offsets() == [(10, 10, 10), (4, 10, 10)]
    assert "an offset, -N, @time or end" in rookery("topic", "trim", topic, "--before", "soon", "--yes", code=2)
    (row, _) = rookery.json("topic", "offsets", topic, "--at", "2999-01-01T00:00:00")
    assert row["at"] == "-"


def test_a_topic_is_copied_with_its_options(cluster: Cluster, rookery: Command, topic: str) -> None:
    rookery("topic", "alter", topic, "retention.ms=777777777")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"tx", b"key", partition=0, headers=[("h", b"x")], timestamp=1234567)
    producer.commit_transaction(30)
    with OwnProducer(bootstrap_servers=cluster.bootstrap) as own:
        own.send(topic, b"timeless", partition=1, timestamp_ms=-1).result()
    assert "copied 22 record(s)" in rookery("topic", "copy", topic, f"{topic}-copy")
    assert "retention.ms=777777777" in rookery("topic", "describe", f"{topic}-copy")

    def stored(name: str) -> list[tuple[int, int, bytes | None, bytes | None, object]]:
        return [(r.partition, r.timestamp, r.key, r.value, r.headers) for r in cluster.records(name)]

    assert stored(f"{topic}-copy") == stored(topic)
    assert (1, -1, None, b"timeless") in [each[:4] for each in stored(f"{topic}-copy")]
    assert "copied 0 record(s)" in rookery("topic", "copy", topic, f"{topic}-copy", "--since", "2999-01-01T00:00:00")
    rookery("topic", "create", f"{topic}-small", "-p", "1")
    assert "add-partitions" in rookery("topic", "copy", topic, f"{topic}-small", code=1)
    assert "cannot be copied to itself" in rookery("topic", "copy", topic, topic, code=2)


def test_deleting_a_topic_has_to_be_confirmed(rookery: Command, topic: str) -> None:
    assert "needs --yes" in rookery("topic", "delete", topic, code=2)
    assert "deleted topic" in rookery("topic", "delete", topic, "--yes")


# --- group, again -------------------------------------------------------------------------------------------


def test_offsets_are_exported_and_imported(cluster: Cluster, rookery: Command, topic: str, tmp_path: Path) -> None:
    commit(cluster, topic, topic, p0=4, p1=9)
    file = tmp_path / "offsets.json"
    file.write_text(rookery("group", "export", topic))
    commit(cluster, topic, topic, p0=10, p1=10)
    preview = rookery.json("group", "import", topic, str(file), "--dry-run")
    assert [(row["current-offset"], row["new-offset"]) for row in preview] == [(10, 4), (10, 9)]
    rookery("group", "import", topic, str(file), "--yes")
    assert [row["current-offset"] for row in rookery.json("group", "describe", topic)] == [4, 9]
    file.write_text("{}")
    assert "rows of topic, partition and offset" in rookery("group", "import", topic, str(file), "--yes", code=2)
    assert rookery.json("group", "members", topic) == []


# --- cluster ------------------------------------------------------------------------------------------------


def test_status_names_the_active_controller_whichever_broker_answers(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        leader = admin.describe_quorum().leader_id
    for address in cluster.bootstrap.split(","):
        capsys.readouterr()
        assert main(["cluster", "status", "-o", "json", "--bootstrap", address]) == 0
        (report,) = json.loads(capsys.readouterr().out)
        assert report["controller"] == leader


def test_the_cluster_is_described_and_health_is_an_exit_code(cluster: Cluster, rookery: Command, topic: str) -> None:
    cluster.wait_in_sync(topic)
    (report,) = rookery.json("cluster", "describe")
    assert report["voters"] == [1, 2, 3]
    assert [broker["state"] for broker in report["brokers"]] == ["running"] * 3
    assert "metadata.version" in report["features"]
    assert "controller" in rookery("cluster", "describe")
    assert rookery("cluster", "health", "--wait", "30").startswith("healthy")
    assert "healthy" in rookery("cluster", "watch", "-n", "1")
    victim = cluster.leader(topic, 0)
    cluster.kill(victim)
    try:
        cluster.wait_for(lambda: cluster.leader(topic, 0) != victim, "another leader")
        said = rookery("cluster", "health", code=3)
        assert "under-replicated" in said
        assert "rookery doctor" in said
    finally:
        cluster.start_node(victim)
    assert rookery("cluster", "health", "--wait", "60").startswith("healthy")


# --- bench --------------------------------------------------------------------------------------------------


def test_load_is_measured(cluster: Cluster, rookery: Command, topic: str) -> None:
    """That it counts right; how fast it is, benchmarks say."""
    (row,) = rookery.json("bench", "produce", "-n", "300", "--size", "50", "--compression", "zstd", "--topic", topic)
    assert row["records"] == 300
    assert 0 < row["p50-ms"] <= row["p99-ms"] <= row["max-ms"]
    (row,) = rookery.json("bench", "consume", "--topic", topic)
    assert (row["records"], row["p50-ms"]) == (320, "-")
    assert f"did you mean {topic}?" in rookery("bench", "consume", "--topic", f"{topic}s", code=4)
    assert f"{topic}s" not in rookery("topic", "list", "-o", "name").split(), "who reads creates nothing"
    (row,) = rookery.json("bench", "e2e", "-n", "5", "--size", "10")
    assert row["records"] == 5
    assert not [name for name in rookery("topic", "list", "-o", "name").split() if name.startswith("rookery-bench-")]
    assert "at least 1" in rookery("bench", "produce", "-n", "0", code=2)
    assert "at least 1" in rookery("bench", "e2e", "--size", "0", code=2)


@pytest.mark.row(33)
def test_codecs_are_compared_by_speed_and_ratio(rookery: Command) -> None:
    rows = {row["what"]: row for row in rookery.json("bench", "codecs", "-n", "200", "-p", "2")}
    assert list(rows) == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert 0.9 < rows["none"]["ratio"] < 1, "the log has headers besides the values"
    assert all(rows[codec]["ratio"] > 1.3 for codec in ("gzip", "snappy", "lz4", "zstd"))
    assert rows["zstd"]["ratio"] > rows["snappy"]["ratio"]
    assert all(row["records"] == 200 and row["MB/s"] > 0 and row["read-MB/s"] > 0 for row in rows.values())
    head, *lines = rookery("bench", "codecs", "-n", "5").splitlines()
    assert head.split()[-2:] == ["RATIO", "READ-MB/S"]
    assert len(lines) == 5


# --- consume ------------------------------------------------------------------------------------------------


def test_records_are_printed_by_a_format_and_up_to_a_place(
    cluster: Cluster, topic: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def printed(*words: str) -> bytes:
        assert main(["consume", topic, *words, "--bootstrap", cluster.bootstrap]) == 0
        return capfdbinary.readouterr().out

    assert printed("-p", "1", "--from", "-2", "--format", "%i:%t/%p/%o=%v;") == (
        f"1:{topic}/1/8=17;2:{topic}/1/9=19;".encode()
    )
    assert printed("-p", "0", "--until", "3", "--format", "%o ") == b"0 1 2 "
    assert printed("--until", "@2001-01-01T00:00:00", "--format", "%o ") == b""
    assert len(printed("-o", "jsonl").splitlines()) == len(json.loads(printed("-o", "json"))) == 20
    assert printed("-o", "name", "-p", "1", "-n", "1") == f"{topic} 1 0\n".encode()
    for words in (["--format", "%q"], ["--until", "soon"], ["--until", "-1"], ["--from", "soon"]):
        assert main(["consume", topic, *words, "--bootstrap", cluster.bootstrap]) == 2


def test_a_group_goes_on_where_it_was(cluster: Cluster, rookery: Command, topic: str) -> None:
    def read(*words: str) -> list[int]:
        return sorted(int(line) for line in rookery("consume", topic, "--group", topic, *words).split())

    first = read("-n", "7")
    assert len(first) == 7
    offsets = {row["partition"]: row["current-offset"] for row in rookery.json("group", "describe", topic)}
    assert sum(each for each in offsets.values() if each != "-") == 7, "what was not printed is not committed"
    assert sorted(first + read()) == list(range(20)), "nothing twice, nothing skipped, and it ends at the end"
    assert read() == []
    assert rookery.json("group", "members", topic) == []
    assert "without --partition and --until" in rookery("consume", topic, "-g", "g", "-p", "0", code=2)
    assert "--from start or end" in rookery("consume", topic, "-g", "g", "--from", "5", code=2)
    assert rookery("consume", topic, "-g", f"{topic}-late", "--from", "end") == ""
    assert "topic list" in rookery("consume", "nobody-has-it", "-g", "g", code=4)
