"""Kafka's own broker and tools: its records are ours byte for byte, its tools manage our groups."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from rookery.broker.groups.records import GroupRecord, OffsetRecord, decode, encode
from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.interop.group_members import members, start, wait_for_shares
from tests.interop.kafka import jars
from tests.interop.kafka.server import KafkaServer

OFFSETS = "__consumer_offsets"


def stored(bootstrap: str) -> list[tuple[bytes, bytes | None]]:
    """Everything in the offsets topic, of one partition."""
    reader = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
        "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    reader.assign([TopicPartition(OFFSETS, 0, 0)])
    found: list[tuple[bytes, bytes | None]] = []
    while True:
        message = reader.poll(30)
        assert message is not None
        if message.error() is not None:
            break
        found.append((message.key() or b"", message.value()))
    reader.close()
    return found


def use_a_group(bootstrap: str) -> None:
    """Members with and without an instance id, commits with and without a note, and the end of it all."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(20):
        producer.produce("t", f"v{number}")
    assert producer.flush(30) == 0
    for instance in (None, "static"):
        config = {
            "bootstrap.servers": bootstrap, "group.id": "group", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0,
        }  # fmt: skip
        if instance is not None:
            config["group.instance.id"] = instance
        consumer = Consumer(config)
        consumer.subscribe(["t"])
        wait_for(lambda consumer=consumer: consumer.poll(0.1) or consumer.assignment(), "an assignment", 60)  # type: ignore[misc]
        consumer.commit(offsets=[TopicPartition("t", 0, 7, "a note")], asynchronous=False)
        consumer.commit(offsets=[TopicPartition("t", 0, 8)], asynchronous=False)
        consumer.close()


@pytest.mark.row(103)
def test_kafkas_records_are_ours_byte_for_byte(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    server.start()
    try:
        use_a_group(server.bootstrap)
        theirs = stored(server.bootstrap)
    finally:
        server.stop()
    kinds = set()
    for key, value in theirs:
        record = decode(key, value)
        assert record is not None
        assert encode(record) == (key, value)
        if isinstance(record, GroupRecord) and record.value is not None:
            kinds |= {"member" if record.value.members else "empty"}
        elif isinstance(record, OffsetRecord):
            kinds.add("offset")
    assert kinds == {"member", "empty", "offset"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(
        1,
        group__initial__rebalance__delay__ms="100",
        offsets__topic__num__partitions="1",
        log__retention__ms="-1",  # for old records
    ) as running:
        running.create_topic("t", 2, 1)
        yield running


def groups_tool(cluster: LocalCluster, *words: str) -> str:
    program = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    done = subprocess.run(
        [*jars.command(program), "--bootstrap-server", cluster.bootstrap, "--timeout", "60000", *words],
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    return done.stdout + done.stderr


def rows(output: str, topic: str = "t") -> list[list[str]]:
    return sorted(line.split() for line in output.splitlines() if re.search(rf"\s{topic}\s|^{topic}\s", line))


@pytest.mark.row(121, 122)
def test_kafkas_groups_tool(cluster: LocalCluster) -> None:
    """list, describe, reset-offsets in all its ways, delete-offsets, delete."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(20):
        producer.produce("t", f"v{number}", partition=number % 2, timestamp=1_700_000_000_000 + number // 2 * 1000)
    assert producer.flush(30) == 0
    with members(start("confluent", cluster.bootstrap, "tool", "t")) as group:
        wait_for_shares(group, [2], 60)
        wait_for(lambda: len(group[0].records) == 20, "20 records")
        assert groups_tool(cluster, "--list", "--state").split()[:4] == ["GROUP", "STATE", "tool", "Stable"]
        described = groups_tool(cluster, "--describe", "--group", "tool", "--members", "--verbose")
        assert "/127.0.0.1" in described
        assert re.search(r"\s2\s+.*t", described), described
        group[0].stop()
    lags = groups_tool(cluster, "--describe", "--group", "tool")
    assert [row[1:6] for row in rows(lags)] == [["t", "0", "10", "10", "0"], ["t", "1", "10", "10", "0"]]

    def reset(*how: str) -> list[list[str]]:
        given = ("--reset-offsets", "--group", "tool", "--topic", "t", "--execute")
        return [row[1:4] for row in rows(groups_tool(cluster, *given, *how))]

    assert reset("--to-earliest") == [["t", "0", "0"], ["t", "1", "0"]]
    assert reset("--shift-by", "4") == [["t", "0", "4"], ["t", "1", "4"]]
    assert reset("--to-datetime", "2023-11-14T22:13:27.000") == [["t", "0", "7"], ["t", "1", "7"]]
    assert reset("--to-latest") == [["t", "0", "10"], ["t", "1", "10"]]
    deleted = groups_tool(cluster, "--delete-offsets", "--group", "tool", "--topic", "t:0")
    assert "Successful" in deleted
    assert [row[2:4] for row in rows(groups_tool(cluster, "--describe", "--group", "tool"))] == [["1", "10"]]
    assert "successful" in groups_tool(cluster, "--delete", "--group", "tool")
    assert "tool" not in groups_tool(cluster, "--list").split()
