"""Unmodified clients of other projects against three nodes: whatever one wrote, every other reads."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rookery.core.wire.compression import Codec
from rookery.core.wire.records import batches
from tests import needs
from tests.cluster.ends import ends
from tests.cluster.local import LocalCluster, wait_for
from tests.interop import peers
from tests.interop.aim import aimed_cluster
from tests.interop.peers import go
from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Peer, key, timestamp, value


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(3, num__partitions=str(len(CODECS)), log__retention__ms="-1") as running:  # for old records
        yield running


def by_name(peer: Peer) -> str:
    return peer.name


@pytest.fixture(scope="module")
def written(cluster: LocalCluster) -> dict[str, Peer]:
    """Per client, a topic that it made and filled: a partition for each codec."""
    topics = {f"from-{peer.name}": peer for peer in peers.ALL}
    for topic, peer in topics.items():
        peer.create(cluster.bootstrap, topic, len(CODECS))
        if peer.name != "kcat":  # which makes its topic by writing to it
            cluster.wait_until_known(topic, len(CODECS))
        peer.write(cluster.bootstrap, topic)
    return topics


@pytest.mark.row(7, 23, 32, 46, 143, 158)
@pytest.mark.parametrize("reader", peers.ALL, ids=by_name)
def test_what_any_client_wrote_with_any_codec_is_read(
    cluster: LocalCluster, written: dict[str, Peer], reader: Peer
) -> None:
    """Two partitions of each writer, so that all pairs and, over all readers, all codecs come together."""
    turn = peers.ALL.index(reader)
    for step, (topic, writer) in enumerate(written.items()):
        for partition in {(turn + step) % len(CODECS), (turn + step + 2) % len(CODECS)}:
            found = reader.read(cluster.bootstrap, topic, partition, 0, RECORDS)
            assert [(one.topic, one.partition, one.offset) for one in found] == [
                (topic, partition, number) for number in range(RECORDS)
            ]
            assert [(one.key, one.value) for one in found] == [(key(n), value(n)) for n in range(RECORDS)]
            assert {one.headers for one in found} == {(("from", writer.name.encode()),)}
            if writer.sets_timestamps:
                assert [one.timestamp for one in found] == [timestamp(number) for number in range(RECORDS)]


@pytest.mark.row(32)
def test_batches_are_kept_as_they_were_compressed(cluster: LocalCluster, written: dict[str, Peer]) -> None:
    raw = sum(len(key(number)) + len(value(number)) for number in range(RECORDS))
    for topic in written:
        for partition, codec in enumerate(CODECS):
            log = Path(cluster.node(cluster.leader(topic, partition)).data) / f"{topic}-{partition}" / f"{0:020}.log"
            stored = log.read_bytes()
            assert {header.codec for _, header in batches(stored)} == {Codec[codec.upper()]}, (topic, codec)
            assert (len(stored) < raw) == (codec != "none"), (topic, codec)


@pytest.mark.row(39, 159)
@pytest.mark.parametrize("reader", peers.ALL, ids=by_name)
def test_reading_starts_at_an_offset_or_at_a_time(
    cluster: LocalCluster, written: dict[str, Peer], reader: Peer
) -> None:
    partition = peers.ALL.index(reader) % len(CODECS)
    (at_offset,) = reader.read(cluster.bootstrap, "from-librdkafka", partition, 7, 1)
    assert (at_offset.offset, at_offset.value) == (7, value(7))
    (at_time,) = reader.since(cluster.bootstrap, "from-librdkafka", partition, timestamp(4) - 500, 1)
    assert (at_time.offset, at_time.timestamp) == (4, timestamp(4))


@pytest.mark.row(76)
@pytest.mark.parametrize("peer", [peer for peer in peers.ALL if peer.deletes], ids=by_name)
def test_a_topic_is_made_and_deleted(cluster: LocalCluster, peer: Peer) -> None:
    topic = f"short-lived-{peer.name}"
    peer.create(cluster.bootstrap, topic, 2)
    cluster.wait_until_known(topic, 2)
    peer.delete(cluster.bootstrap, topic)
    cluster.wait_until_known(topic, 0)


def end_offset(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    return ends(cluster, topic, partition)[1]


# --- kafka-go's own ways ------------------------------------------------------------------------------------


@pytest.mark.row(158)
def test_kafka_go_conn(cluster: LocalCluster) -> None:
    cluster.create_topic("conn")
    (said,) = go.run("conn", cluster.bootstrap, "conn")
    assert said == {
        "values": ["one!", "two!", "three!"], "seek": 1, "next": "two!",
        "first": 0, "last": 3, "partitions": 1, "leader": cluster.leader("conn"),
    }  # fmt: skip


@pytest.mark.row(159)
def test_kafka_go_reader_starts_at_offset_42(cluster: LocalCluster) -> None:
    cluster.create_topic("fortytwo")
    (said,) = go.run("async", cluster.bootstrap, "fortytwo", 50)
    assert said == {"delivered": 50}, "an asynchronous writer delivers all that it took before it closes"
    found = go.run("read", cluster.bootstrap, "fortytwo", 0, 42, 8)
    assert [one["offset"] for one in found] == list(range(42, 50))
    assert [one["value"] for one in found] == [str(number) for number in range(42, 50)]


@pytest.mark.row(160)
def test_kafka_go_reader_ends_with_its_context(cluster: LocalCluster) -> None:
    cluster.create_topic("silent")
    (said,) = go.run("cancel", cluster.bootstrap, "silent")
    assert said["deadline"], said["error"]


@pytest.mark.row(165)
def test_kafka_go_writer_balances_by_bytes(cluster: LocalCluster) -> None:
    cluster.create_topic("balanced", 3)
    go.run("balance", cluster.bootstrap, "balanced", 600)
    sizes = Counter[int]()
    for partition in range(3):
        count = end_offset(cluster, "balanced", partition)
        for one in peers.ALL[0].read(cluster.bootstrap, "balanced", partition, 0, count):
            sizes[partition] += len(one.value or b"")
    assert sizes.total() == sum(1 + number % 100 for number in range(600))
    assert max(sizes.values()) <= 1.1 * min(sizes.values())


@pytest.mark.row(24)
def test_kafka_go_writer_takes_turns(cluster: LocalCluster) -> None:
    cluster.create_topic("turns", 3)
    go.run("turns", cluster.bootstrap, "turns", 9)
    assert [end_offset(cluster, "turns", partition) for partition in range(3)] == [3, 3, 3]


@pytest.mark.row(167)
def test_kafka_go_writer_makes_its_topic(cluster: LocalCluster) -> None:
    needs.own_server("Kafka's answer to a writer's first request is none of those that this program tries again after")
    assert go.run("autocreate", cluster.bootstrap, "made-by-writing") == [{"written": True}]
    assert sum(end_offset(cluster, "made-by-writing", partition) for partition in range(len(CODECS))) == 2


@pytest.mark.row(168)
def test_kafka_go_writer_to_several_topics(cluster: LocalCluster) -> None:
    cluster.create_topic("first")
    cluster.create_topic("second")
    (said,) = go.run("several", cluster.bootstrap, "first", "second")
    assert (end_offset(cluster, "first"), end_offset(cluster, "second")) == (1, 1)
    assert "opic" in said["without"]
    assert "opic" in said["twice"]


@pytest.mark.row(84, 160, 166)
def test_clients_go_on_after_the_leader_was_killed(cluster: LocalCluster) -> None:
    """Last in this file: it takes a node down, and with it the only one that the producer was told of."""
    cluster.create_topic("outlives")
    victim = cluster.leader("outlives")
    cluster.wait_in_sync("outlives")
    producer = Producer({"bootstrap.servers": cluster.node(victim).kafka, "log_level": 0})
    producer.produce("outlives", b"before")
    assert producer.flush(PATIENCE_S) == 0
    with go.started("read", cluster.bootstrap, "outlives", 0, 0, 2) as reader:
        wait_for(lambda: reader.lines == 1, "the first record")
        cluster.kill(victim)
        producer.produce("outlives", b"after")
        assert producer.flush(2 * PATIENCE_S) == 0
        wait_for(lambda: reader.lines == 2, "the record after the failover")
    assert [one["value"] for one in reader.said] == ["before", "after"]
    assert cluster.leader("outlives") != victim
