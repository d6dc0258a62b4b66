"""What producers of other projects promise, seen from the broker they send to."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from kafka import KafkaProducer
from kafka import TopicPartition as PyPartition
from kafka.partitioner import murmur2
from kafka.partitioner.abc import Partitioner

from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.interop.peers.peer import PATIENCE_S
from tests.interop.peers.rdkafka import LibRdKafka

LONG_MS = 60_000


@pytest.fixture(scope="module")
def node() -> Iterator[LocalCluster]:
    with local_cluster(1) as running:
        yield running


def producer(node: LocalCluster, **options: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return Producer({"bootstrap.servers": node.bootstrap, "log_level": 0, **named})


def count(node: LocalCluster, topic: str, partition: int = 0) -> int:
    """Records that can be read."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "none", "log_level": 0})
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)
    consumer.close()
    return high - low


def values(node: LocalCluster, topic: str, partition: int = 0) -> list[bytes]:
    found = LibRdKafka().read(node.bootstrap, topic, partition, 0, count(node, topic, partition))
    return [one.value or b"" for one in found]


def requests(node: LocalCluster) -> float:
    """Produce requests the node has answered."""
    lines = node.http(1, "/metrics").splitlines()
    counted = [line for line in lines if line.startswith("kafka_network_requestmetrics_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in counted if '"Produce"' in line)


@pytest.mark.row(1)
def test_a_thousand_records_travel_in_few_requests(node: LocalCluster) -> None:
    node.create_topic("gathered")
    before = requests(node)
    sender = producer(node, linger_ms=100)
    for number in range(1000):
        sender.produce("gathered", b"%d" % number, partition=0)
    assert sender.flush(PATIENCE_S) == 0
    assert count(node, "gathered") == 1000
    assert 1 <= requests(node) - before <= 50


@pytest.mark.row(2)
def test_a_full_batch_is_sent_before_its_time(node: LocalCluster) -> None:
    node.create_topic("full")
    sender = producer(node, linger_ms=LONG_MS, batch_size=16384)
    for _ in range(34):
        sender.produce("full", b"x" * 1000, partition=0)
    wait_for(lambda: sender.poll(0) or count(node, "full") >= 16, "the first batches, long before linger.ms", 20)
    sender.purge()


@pytest.mark.row(4, 5)
@pytest.mark.parametrize("end", [lambda sender: sender.flush(PATIENCE_S), lambda sender: sender.close(PATIENCE_S)])
def test_flush_and_close_send_what_is_gathered(node: LocalCluster, end: Callable[[Any], Any]) -> None:
    topic = f"flushed-{time.monotonic_ns()}"
    node.create_topic(topic)
    sender = KafkaProducer(bootstrap_servers=node.bootstrap, linger_ms=LONG_MS)
    sent = [sender.send(topic, b"%d" % number, partition=0) for number in range(500)]
    end(sender)
    assert [one.get(PATIENCE_S).offset for one in sent] == list(range(500))
    assert count(node, topic) == 500
    sender.close(PATIENCE_S)


@pytest.mark.row(10)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(node: LocalCluster, acks: str) -> None:
    topic = f"acks-{acks}"
    node.create_topic(topic)
    offsets = []
    sender = producer(node, acks=acks)
    for number in range(100):
        sender.produce(
            topic, b"%d" % number, partition=0, on_delivery=lambda error, message: offsets.append(message.offset())
        )
    assert sender.flush(PATIENCE_S) == 0
    wait_for(lambda: count(node, topic) == 100, "all records")
    nobody_knows = {"0": [None] * 100}
    assert offsets == nobody_knows.get(acks, list(range(100)))


@pytest.mark.row(20, 27)
def test_order_holds_per_key_with_five_requests_in_flight(node: LocalCluster) -> None:
    node.create_topic("keyed", 3)
    options = {"max_in_flight_requests_per_connection": 5, "enable_idempotence": True, "linger_ms": 0}
    sender = producer(node, **options, partitioner="murmur2_random")
    for number in range(3000):
        sender.produce("keyed", b"%d" % number, key=b"%d" % (number % 10))
        sender.poll(0)
    assert sender.flush(PATIENCE_S) == 0
    seen: dict[bytes, list[int]] = {}
    for partition in range(3):
        for one in LibRdKafka().read(node.bootstrap, "keyed", partition, 0, count(node, "keyed", partition)):
            assert (murmur2(one.key) & 0x7FFFFFFF) % 3 == partition, "the same place that Java's client computes"
            seen.setdefault(one.key or b"", []).append(int(one.value or b""))
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 3000


@pytest.mark.row(23)
def test_an_explicit_partition_wins_over_key_and_partitioner(node: LocalCluster) -> None:
    node.create_topic("chosen", 3)
    led: list[int] = []

    class AlwaysTwo(Partitioner):  # type: ignore[misc]
        def partition(self, topic: str, *record: Any) -> int:
            cluster = record[-1]
            led.append(cluster.leader_for_partition(PyPartition(topic, 2)))
            return 2

    sender = KafkaProducer(bootstrap_servers=node.bootstrap, partitioner=AlwaysTwo())
    assert sender.send("chosen", b"v", key=b"k", partition=1).get(PATIENCE_S).partition == 1
    assert sender.send("chosen", b"v", key=b"k").get(PATIENCE_S).partition == 2
    assert led == [1], "asked once, and it could see who leads"
    sender.close(PATIENCE_S)


@pytest.mark.row(26)
def test_records_without_keys_spread_over_all_partitions(node: LocalCluster) -> None:
    node.create_topic("spread", 3)
    sender = producer(node, partitioner="random", sticky_partitioning_linger_ms=0)
    where: Counter[int] = Counter()
    for _ in range(3000):
        sender.produce("spread", b"x", on_delivery=lambda error, message: where.update([message.partition() or 0]))
    assert sender.flush(PATIENCE_S) == 0
    assert where.total() == 3000
    expected = 1000
    chi_square = sum((where[partition] - expected) ** 2 / expected for partition in range(3))
    assert chi_square < 20, f"{where} is not even"


@pytest.mark.row(30)
def test_more_partitions_do_not_move_what_is_there(node: LocalCluster) -> None:
    node.create_topic("grown", 1)
    sender = producer(node)
    for number in range(10):
        sender.produce("grown", b"%d" % number, key=b"k")
    assert sender.flush(PATIENCE_S) == 0
    before = values(node, "grown")
    node.admin().create_partitions([NewPartitions("grown", 4)])["grown"].result(PATIENCE_S)
    assert values(node, "grown") == before == [b"%d" % number for number in range(10)]
    assert [count(node, "grown", partition) for partition in (1, 2, 3)] == [0, 0, 0]


@pytest.mark.row(31)
def test_one_partition_gives_one_order_to_all_readers(node: LocalCluster) -> None:
    node.create_topic("ordered", 1)

    def send(name: str) -> None:
        sender = producer(node, linger_ms=0)
        for number in range(300):
            sender.produce("ordered", f"{name} {number}".encode())
        assert sender.flush(PATIENCE_S) == 0

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(send, "abc"))
    first, again = values(node, "ordered"), values(node, "ordered")
    assert first == again
    assert len(first) == 900
    for name in (b"a", b"b", b"c"):
        numbers = [int(value.split()[1]) for value in first if value.startswith(name)]
        assert numbers == list(range(300))


@pytest.mark.parametrize("kind", [ResourceType.BROKER, ResourceType.TOPIC])
def test_options_change_while_brokers_run(node: LocalCluster, kind: ResourceType) -> None:
    topic = f"limited-by-{kind.name.lower()}"
    node.create_topic(topic)
    of_broker = (ConfigResource(kind, "1"), "message.max.bytes")
    of_topic = (ConfigResource(kind, topic), "max.message.bytes")
    resource, name = of_broker if kind is ResourceType.BROKER else of_topic
    alter(node, resource, ConfigEntry(name, "2000", incremental_operation=AlterConfigOpType.SET))
    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        send_one(node, topic, b"x" * 10_000)
    alter(node, resource, ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE))
    send_one(node, topic, b"x" * 10_000)
    assert count(node, topic) == 1


def alter(node: LocalCluster, resource: ConfigResource, entry: ConfigEntry) -> None:
    wanted = ConfigResource(resource.restype, resource.name, incremental_configs=[entry])
    (altered,) = node.admin().incremental_alter_configs([wanted]).values()
    altered.result(PATIENCE_S)


def send_one(node: LocalCluster, topic: str, value: bytes) -> None:
    failed: list[Any] = []
    sender = producer(node)
    sender.produce(topic, value, partition=0, on_delivery=lambda error, message: failed.append(error))
    assert sender.flush(PATIENCE_S) == 0
    if failed[0] is not None:
        raise KafkaException(failed[0])
