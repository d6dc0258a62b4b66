"""Unmodified clients of other projects against one node: whatever one wrote, every other reads."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from rookery.core.wire.compression import Codec
from rookery.core.wire.records import batches
from tests.cluster.local import LocalCluster, wait_for
from tests.interop import peers
from tests.interop.lossy_node import lossy_node
from tests.interop.lost_answer import LosesOneAnswer
from tests.interop.peers import go
from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Peer, key, timestamp, value

Lossy = tuple[LocalCluster, LosesOneAnswer]


@pytest.fixture(scope="module")
def lossy() -> Iterator[Lossy]:
    with lossy_node(num__partitions=str(len(CODECS))) as both:
        yield both


@pytest.fixture(scope="module")
def node(lossy: Lossy) -> LocalCluster:
    return lossy[0]


def by_name(peer: Peer) -> str:
    return peer.name


@pytest.fixture(scope="module")
def written(node: LocalCluster) -> dict[str, Peer]:
    """Per client, a topic that it made and filled: a partition for each codec."""
    topics = {f"from-{peer.name}": peer for peer in peers.ALL}
    for topic, peer in topics.items():
        peer.create(node.bootstrap, topic, len(CODECS))
        peer.write(node.bootstrap, topic)
    return topics


@pytest.mark.row(7, 23, 32, 46, 143, 158)
@pytest.mark.parametrize("reader", peers.ALL, ids=by_name)
def test_what_any_client_wrote_with_any_codec_is_read(
    node: LocalCluster, written: dict[str, Peer], reader: Peer
) -> None:
    """Two partitions of each writer, so that all pairs and, over all readers, all codecs come together."""
    turn = peers.ALL.index(reader)
    for step, (topic, writer) in enumerate(written.items()):
        for partition in {(turn + step) % len(CODECS), (turn + step + 2) % len(CODECS)}:
            found = reader.read(node.bootstrap, topic, partition, 0, RECORDS)
            assert [(one.topic, one.partition, one.offset) for one in found] == [
                (topic, partition, number) for number in range(RECORDS)
            ]
            assert [(one.key, one.value) for one in found] == [(key(n), value(n)) for n in range(RECORDS)]
            assert {one.headers for one in found} == {(("from", writer.name.encode()),)}
            if writer.sets_timestamps:
                assert [one.timestamp for one in found] == [timestamp(number) for number in range(RECORDS)]


@pytest.mark.row(32)
def test_batches_are_kept_as_they_were_compressed(node: LocalCluster, written: dict[str, Peer]) -> None:
    raw = sum(len(key(number)) + len(value(number)) for number in range(RECORDS))
    for topic in written:
        for partition, codec in enumerate(CODECS):
            log = Path(node.node(1).data) / f"{topic}-{partition}" / f"{0:020}.log"
            stored = log.read_bytes()
            assert {header.codec for _, header in batches(stored)} == {Codec[codec.upper()]}, (topic, codec)
            assert (len(stored) < raw) == (codec != "none"), (topic, codec)


@pytest.mark.row(39, 159)
@pytest.mark.parametrize("reader", peers.ALL, ids=by_name)
def test_reading_starts_at_an_offset_or_at_a_time(
    node: LocalCluster, written: dict[str, Peer], reader: Peer
) -> None:
    partition = peers.ALL.index(reader)
    (at_offset,) = reader.read(node.bootstrap, "from-librdkafka", partition, 7, 1)
    assert (at_offset.offset, at_offset.value) == (7, value(7))
    (at_time,) = reader.since(node.bootstrap, "from-librdkafka", partition, timestamp(4) - 500, 1)
    assert (at_time.offset, at_time.timestamp) == (4, timestamp(4))


@pytest.mark.row(76)
@pytest.mark.parametrize("peer", [peer for peer in peers.ALL if peer.deletes], ids=by_name)
def test_a_topic_is_made_and_deleted(node: LocalCluster, peer: Peer) -> None:
    topic = f"short-lived-{peer.name}"
    peer.create(node.bootstrap, topic, 2)
    assert len(node.admin().list_topics(timeout=PATIENCE_S).topics[topic].partitions) == 2
    peer.delete(node.bootstrap, topic)
    assert topic not in node.admin().list_topics(timeout=PATIENCE_S).topics


# --- an answer gets lost ------------------------------------------------------------------------------------


def rdkafka_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for one in values:
        producer.produce(topic, one, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def aiokafka_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
            for one in values:
                await producer.send_and_wait(topic, one, partition=0)

    asyncio.run(asyncio.wait_for(send(), PATIENCE_S))


def kafka_python_sends(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    for sent in [producer.send(topic, one, partition=0) for one in values]:
        sent.get(PATIENCE_S)
    producer.close()


@pytest.mark.row(14, 15, 16, 17, 22)
@pytest.mark.invariant("T1")
@pytest.mark.parametrize("send", [rdkafka_sends, aiokafka_sends, kafka_python_sends])
def test_a_retry_after_a_lost_answer_stores_once(lossy: Lossy, send: Any) -> None:
    node, between = lossy
    topic = send.__name__.replace("_", "-")
    node.create_topic(topic)
    lost = between.lost
    between.lose_next_produce_answer()
    values = [b"%d" % number for number in range(5)]
    send(node.bootstrap, topic, values)
    assert between.lost == lost + 1
    found = peers.ALL[0].read(node.bootstrap, topic, 0, 0, len(values))
    assert [one.value for one in found] == values
    assert end_offset(node, topic) == len(values)


def end_offset(node: LocalCluster, topic: str, partition: int = 0) -> int:
    log = Path(node.node(1).data) / f"{topic}-{partition}" / f"{0:020}.log"
    return sum(header.record_count for _, header in batches(log.read_bytes()))


# --- kafka-go's own ways ------------------------------------------------------------------------------------


@pytest.mark.row(158)
def test_kafka_go_conn(node: LocalCluster) -> None:
    node.create_topic("conn")
    (said,) = go.run("conn", node.bootstrap, "conn")
    assert said == {
        "values": ["one!", "two!", "three!"], "seek": 1, "next": "two!",
        "first": 0, "last": 3, "partitions": 1, "leader": 1,
    }  # fmt: skip


@pytest.mark.row(159)
def test_kafka_go_reader_starts_at_offset_42(node: LocalCluster) -> None:
    node.create_topic("fortytwo")
    (said,) = go.run("async", node.bootstrap, "fortytwo", 50)
    assert said == {"delivered": 50}, "an asynchronous writer delivers all that it took before it closes"
    found = go.run("read", node.bootstrap, "fortytwo", 0, 42, 8)
    assert [one["offset"] for one in found] == list(range(42, 50))
    assert [one["value"] for one in found] == [str(number) for number in range(42, 50)]


@pytest.mark.row(160)
def test_kafka_go_reader_ends_with_its_context(node: LocalCluster) -> None:
    node.create_topic("silent")
    (said,) = go.run("cancel", node.bootstrap, "silent")
    assert said["deadline"], said["error"]


@pytest.mark.row(165)
def test_kafka_go_writer_balances_by_bytes(node: LocalCluster) -> None:
    node.create_topic("balanced", 3)
    go.run("balance", node.bootstrap, "balanced", 600)
    sizes = Counter[int]()
    for partition in range(3):
        count = end_offset(node, "balanced", partition)
        for one in peers.ALL[0].read(node.bootstrap, "balanced", partition, 0, count):
            sizes[partition] += len(one.value or b"")
    assert sizes.total() == sum(1 + number % 100 for number in range(600))
    assert max(sizes.values()) <= 1.1 * min(sizes.values())


@pytest.mark.row(24)
def test_kafka_go_writer_takes_turns(node: LocalCluster) -> None:
    node.create_topic("turns", 3)
    go.run("turns", node.bootstrap, "turns", 9)
    assert [end_offset(node, "turns", partition) for partition in range(3)] == [3, 3, 3]


@pytest.mark.row(167)
def test_kafka_go_writer_makes_its_topic(node: LocalCluster) -> None:
    assert go.run("autocreate", node.bootstrap, "made-by-writing") == [{"written": True}]
    assert sum(end_offset(node, "made-by-writing", partition) for partition in range(len(CODECS))) == 2


@pytest.mark.row(168)
def test_kafka_go_writer_to_several_topics(node: LocalCluster) -> None:
    node.create_topic("first")
    node.create_topic("second")
    (said,) = go.run("several", node.bootstrap, "first", "second")
    assert (end_offset(node, "first"), end_offset(node, "second")) == (1, 1)
    assert "opic" in said["without"]
    assert "opic" in said["twice"]


@pytest.mark.row(160, 166)
def test_a_reader_goes_on_after_the_broker_was_killed(node: LocalCluster) -> None:
    """Last in this file: it takes the node down."""
    node.create_topic("outlives")
    rdkafka_sends(node.bootstrap, "outlives", [b"before"])
    with go.started("read", node.bootstrap, "outlives", 0, 0, 2) as reader:
        wait_for(lambda: reader.lines == 1, "the first record")
        node.kill(1)
        node.up()
        rdkafka_sends(node.bootstrap, "outlives", [b"after"])
        wait_for(lambda: reader.lines == 2, "the record after the restart")
    assert [one["value"] for one in reader.said] == ["before", "after"]
