"""Kafka's own broker serves the same versions, and writes the same records about groups, byte for byte."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from rookery.broker.groups.consumer.records import ConsumerRecord, Kind
from rookery.broker.groups.records import GroupRecord, OffsetRecord, decode, encode
from rookery.core.net.connection import Connection
from tests.cluster.local import wait_for
from tests.interop.kafka.server import KafkaServer
from tests.tidy.pages import handlers

OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    started = KafkaServer(tmp_path_factory.mktemp("kafka"))
    started.start()
    yield started
    started.stop()


async def versions(bootstrap: str) -> dict[int, tuple[int, int]]:
    """What a broker says to serve, by API key."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="asks")
    connection.close()
    return connection.versions


def test_no_served_range_is_older_than_kafkas(server: KafkaServer) -> None:
    theirs = asyncio.run(versions(server.bootstrap))
    ours = {served.api.key: (served.lowest_advertised, served.max) for served in handlers()}
    assert ours == {key: theirs.get(key) for key in ours}


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
    for protocol, instance, topic in (
        ("classic", None, "t"), ("classic", "static", "t"), ("consumer", None, "t"), ("consumer", "static", "^t"),
    ):  # fmt: skip
        config = {
            "bootstrap.servers": bootstrap, "group.id": protocol, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0, "group.protocol": protocol,
        }  # fmt: skip
        if instance is not None:
            config["group.instance.id"] = instance
        consumer = Consumer(config)
        consumer.subscribe([topic])
        wait_for(lambda consumer=consumer: consumer.poll(0.1) or consumer.assignment(), "an assignment", 60)  # type: ignore[misc]
        consumer.commit(offsets=[TopicPartition("t", 0, 7, "a note")], asynchronous=False)
        consumer.commit(offsets=[TopicPartition("t", 0, 8)], asynchronous=False)
        consumer.close()


@pytest.mark.row(103)
def test_kafkas_records_are_ours_byte_for_byte(server: KafkaServer) -> None:
    use_a_group(server.bootstrap)
    theirs = stored(server.bootstrap)
    kinds: set[str | Kind] = set()
    for key, value in theirs:
        record = decode(key, value)
        assert record is not None
        assert encode(record) == (key, value)
        if isinstance(record, GroupRecord) and record.value is not None:
            kinds |= {"member" if record.value.members else "empty"}
        elif isinstance(record, OffsetRecord):
            kinds.add("offset")
        elif isinstance(record, ConsumerRecord) and record.value is not None:
            kinds.add(record.kind)
    assert kinds == {"member", "empty", "offset", *Kind} - {Kind.TOPICS}
