"""Racks on real nodes: where replicas are put, whom consumers read from, and a broker that comes later.

The tests build on each other, in their order: three nodes in two racks, then a fourth.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition

from rookery.sync import Consumer as OwnConsumer
from rookery.sync import TopicPartition as OwnPartition
from tests.cluster.local import LocalCluster, local_cluster, wait_for

RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
NEAR = 2
"""The only node of rack b, until the fourth comes."""
PATIENCE_S = 60.0
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(
        3,
        broker__rack="a,b",
        replica__selector__class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
        min__insync__replicas="1",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def consumer(cluster: LocalCluster) -> Iterator[Consumer]:
    """Stands in rack b."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": "near", "client.rack": "b", "log_level": 0,
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    yield reader
    reader.close()


def replicas(cluster: LocalCluster, topic: str, partitions: int) -> list[list[int]]:
    return [list(cluster.partition(topic, index).replicas) for index in range(partitions)]


def send(cluster: LocalCluster, topic: str, partition: int, *values: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.awake, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def receive(consumer: Consumer, *values: str) -> None:
    """Exactly these come next."""
    seen: list[str] = []

    def has_all() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            seen.append((message.value() or b"").decode())
        return len(seen) >= len(values)

    wait_for(has_all, f"{len(values)} records", PATIENCE_S)
    assert seen == list(values)


def bytes_out(cluster: LocalCluster, node_id: int, topic: str) -> float:
    """What consumers got of a topic from a node."""
    lines = cluster.http(node_id, "/metrics").splitlines()
    mine = [line for line in lines if line.startswith(BYTES_OUT + "{") and f'topic="{topic}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in mine)


def far_partition(cluster: LocalCluster, topic: str) -> tuple[int, int]:
    """A partition that a node of rack a leads and the one of rack b follows; and its leader."""
    found = [(index, cluster.partition(topic, index)) for index in range(6)]
    return next((index, one.leader) for index, one in found if one.leader != NEAR and NEAR in one.isr)


@pytest.mark.row(72)
def test_replicas_are_spread_over_racks(cluster: LocalCluster) -> None:
    cluster.create_topic("spread", 6, 2)
    for nodes in replicas(cluster, "spread", 6):
        assert {RACKS[node] for node in nodes} == {"a", "b"}


@pytest.mark.row(73)
def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: LocalCluster, consumer: Consumer) -> None:
    cluster.wait_in_sync("spread", 6, replicas=2)
    partition, leader = far_partition(cluster, "spread")
    consumer.assign([TopicPartition("spread", partition, 0)])
    receive_first = [f"{number}" for number in range(5)]
    send(cluster, "spread", partition, *receive_first)
    receive(consumer, *receive_first)
    wait_for(lambda: sent_on(cluster, consumer, partition), "the consumer to read from the follower", PATIENCE_S)
    before = bytes_out(cluster, leader, "spread")
    near_before = bytes_out(cluster, NEAR, "spread")
    more = [f"more {number}" for number in range(5)]
    send(cluster, "spread", partition, *more)
    receive(consumer, *more)
    assert bytes_out(cluster, NEAR, "spread") > near_before
    assert bytes_out(cluster, leader, "spread") == before


@pytest.mark.row(73)
def test_our_own_consumer_does_so_too(cluster: LocalCluster) -> None:
    cluster.create_topic("own", 6, 2)
    cluster.wait_in_sync("own", 6, replicas=2)
    partition, leader = far_partition(cluster, "own")
    place = OwnPartition("own", partition)
    with OwnConsumer(bootstrap_servers=cluster.bootstrap, client_rack="b", auto_offset_reset="latest") as reader:
        reader.assign([place])
        reader.position(place)

        def comes_from_near(value: str) -> bool:
            before = bytes_out(cluster, NEAR, "own")
            send(cluster, "own", partition, value)
            (record,) = reader.getmany(timeout_ms=int(PATIENCE_S * 1000))
            assert record.value == value.encode()
            return bytes_out(cluster, NEAR, "own") > before

        wait_for(lambda: comes_from_near("probe"), "the consumer to read from the follower", PATIENCE_S)
        before = bytes_out(cluster, leader, "own")
        assert all(comes_from_near(f"own {number}") for number in range(5))
        assert bytes_out(cluster, leader, "own") == before


def sent_on(cluster: LocalCluster, consumer: Consumer, partition: int, topic: str = "spread") -> bool:
    """Write and read one more record; whether the follower gave it."""
    before = bytes_out(cluster, NEAR, topic)
    send(cluster, topic, partition, "probe")
    receive(consumer, "probe")
    return bytes_out(cluster, NEAR, topic) > before


@pytest.mark.row(73, 135)
@pytest.mark.invariant("T9", "T10")
def test_a_follower_serves_read_committed(cluster: LocalCluster) -> None:
    """What was aborted, what is open and what lies behind it is hidden by the replica in the consumer's rack, too."""
    topic = "decided"
    cluster.create_topic(topic, 6, 2)
    cluster.wait_in_sync(topic, 6, replicas=2)
    partition, leader = far_partition(cluster, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "far", "log_level": 0})
    producer.init_transactions(PATIENCE_S)

    def begin(*values: str) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(PATIENCE_S) == 0

    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": "committed", "client.rack": "b", "log_level": 0,
            "enable.auto.commit": False, "isolation.level": "read_committed",
        }
    )  # fmt: skip
    reader.assign([TopicPartition(topic, partition, 0)])
    wait_for(lambda: sent_on(cluster, reader, partition, topic), "the consumer to read from the follower", PATIENCE_S)
    before = bytes_out(cluster, leader, topic)
    begin("first", "second")
    producer.commit_transaction(PATIENCE_S)
    begin("aborted")
    producer.abort_transaction(PATIENCE_S)
    begin("third")
    producer.commit_transaction(PATIENCE_S)
    receive(reader, "first", "second", "third")
    begin("open")
    send(cluster, topic, partition, "behind it")
    assert reader.poll(1.0) is None
    producer.commit_transaction(PATIENCE_S)
    receive(reader, "open", "behind it")
    assert bytes_out(cluster, leader, topic) == before, "the leader served it"
    reader.close()


@pytest.mark.row(71, 72, 77)
def test_a_broker_that_comes_later_takes_new_partitions_and_moved_ones(cluster: LocalCluster) -> None:
    cluster.up(nodes=4)
    cluster.create_topic("wide", 8, 2)
    placed = replicas(cluster, "wide", 8)
    assert any(4 in nodes for nodes in placed)
    assert all({RACKS[node] for node in nodes} == {"a", "b"} for nodes in placed)

    cluster.create_topic("moving", 1, 1)
    send(cluster, "moving", 0, *map(str, range(100)))
    assert replicas(cluster, "moving", 1) != [[4]]
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    moved = PythonPartition("moving", 0)
    assert admin.alter_partition_reassignments({moved: [4]}) == {moved: None}
    wait_for(lambda: not admin.list_partition_reassignments(), "the end of the move", PATIENCE_S)
    admin.close()
    wait_for(lambda: (replicas(cluster, "moving", 1), cluster.leader("moving")) == ([[4]], 4), "all to have heard")
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "after", "log_level": 0})
    reader.assign([TopicPartition("moving", 0, 0)])
    receive(reader, *map(str, range(100)))
    reader.close()


@pytest.mark.row(73)
def test_a_consumer_goes_on_when_its_replica_is_killed(cluster: LocalCluster, consumer: Consumer) -> None:
    """Last in this file: it takes a node down."""
    (assigned,) = consumer.assignment()
    cluster.kill(NEAR)
    send(cluster, "spread", assigned.partition, "after the kill")
    receive(consumer, "after the kill")
