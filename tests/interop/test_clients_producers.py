"""What producers of other projects promise, seen from the broker they send to."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
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

from tests.cluster.ends import ends
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.peers.peer import PATIENCE_S
from tests.interop.peers.rdkafka import LibRdKafka

LONG_MS = 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster() as running:
        yield running


def producer(cluster: LocalCluster, **options: Any) -> Producer:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **named})


def count(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    """Records that can be read."""
    wait_for(lambda: min(cluster.known(topic)) > partition, f"every broker to know {topic}")
    low, high = ends(cluster, topic, partition)
    return high - low


def values(cluster: LocalCluster, topic: str, partition: int = 0) -> list[bytes]:
    found = LibRdKafka().read(cluster.bootstrap, topic, partition, 0, count(cluster, topic, partition))
    return [one.value or b"" for one in found]


def requests(cluster: LocalCluster) -> float:
    """Produce requests the nodes have answered."""
    lines = [line for each in cluster.ids for line in cluster.http(each, "/metrics").splitlines()]
    counted = [line for line in lines if line.startswith("kafka_network_requestmetrics_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in counted if '"Produce"' in line)


@pytest.mark.row(1)
def test_a_thousand_records_travel_in_few_requests(cluster: LocalCluster) -> None:
    cluster.create_topic("gathered")
    before = requests(cluster)
    sender = producer(cluster, linger_ms=100)
    for number in range(1000):
        sender.produce("gathered", b"%d" % number, partition=0)
    assert sender.flush(PATIENCE_S) == 0
    assert count(cluster, "gathered") == 1000
    assert 1 <= requests(cluster) - before <= 50


@pytest.mark.row(2)
def test_a_full_batch_is_sent_before_its_time(cluster: LocalCluster) -> None:
    cluster.create_topic("full")
    sender = producer(cluster, linger_ms=LONG_MS, batch_size=16384)
    for _ in range(34):
        sender.produce("full", b"x" * 1000, partition=0)
    wait_for(lambda: sender.poll(0) or count(cluster, "full") >= 16, "the first batches, long before linger.ms", 20)
    sender.purge()


@pytest.mark.row(4, 5)
@pytest.mark.parametrize("end", [lambda sender: sender.flush(PATIENCE_S), lambda sender: sender.close(PATIENCE_S)])
def test_flush_and_close_send_what_is_gathered(cluster: LocalCluster, end: Callable[[Any], Any]) -> None:
    topic = f"flushed-{time.monotonic_ns()}"
    cluster.create_topic(topic)
    sender = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=LONG_MS)
    sent = [sender.send(topic, b"%d" % number, partition=0) for number in range(500)]
    end(sender)
    assert [one.get(PATIENCE_S).offset for one in sent] == list(range(500))
    assert count(cluster, topic) == 500
    sender.close(PATIENCE_S)


@pytest.mark.row(10)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_kind_of_acknowledgement(cluster: LocalCluster, acks: str) -> None:
    topic = f"acks-{acks}"
    cluster.create_topic(topic)
    offsets = []
    sender = producer(cluster, acks=acks)
    for number in range(100):
        sender.produce(
            topic, b"%d" % number, partition=0, on_delivery=lambda error, message: offsets.append(message.offset())
        )
    assert sender.flush(PATIENCE_S) == 0
    wait_for(lambda: count(cluster, topic) == 100, "all records")
    nobody_knows = {"0": [None] * 100}
    assert offsets == nobody_knows.get(acks, list(range(100)))


@pytest.mark.row(20, 27)
def test_order_holds_per_key_with_five_requests_in_flight(cluster: LocalCluster) -> None:
    cluster.create_topic("keyed", 3)
    options = {"max_in_flight_requests_per_connection": 5, "enable_idempotence": True, "linger_ms": 0}
    sender = producer(cluster, **options, partitioner="murmur2_random")
    for number in range(3000):
        sender.produce("keyed", b"%d" % number, key=b"%d" % (number % 10))
        sender.poll(0)
    assert sender.flush(PATIENCE_S) == 0
    seen: dict[bytes, list[int]] = {}
    for partition in range(3):
        for one in LibRdKafka().read(cluster.bootstrap, "keyed", partition, 0, count(cluster, "keyed", partition)):
            assert (murmur2(one.key) & 0x7FFFFFFF) % 3 == partition, "the same place that Java's client computes"
            seen.setdefault(one.key or b"", []).append(int(one.value or b""))
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 3000


@pytest.mark.row(23)
def test_an_explicit_partition_wins_over_key_and_partitioner(cluster: LocalCluster) -> None:
    cluster.create_topic("chosen", 3)
    led: list[int] = []

    class AlwaysTwo(Partitioner):  # type: ignore[misc]
        def partition(self, topic: str, *record: Any) -> int:
            view = record[-1]
            led.append(view.leader_for_partition(PyPartition(topic, 2)))
            return 2

    sender = KafkaProducer(bootstrap_servers=cluster.bootstrap, partitioner=AlwaysTwo())
    assert sender.send("chosen", b"v", key=b"k", partition=1).get(PATIENCE_S).partition == 1
    assert sender.send("chosen", b"v", key=b"k").get(PATIENCE_S).partition == 2
    assert led == [cluster.leader("chosen", 2)], "asked once, and it could see who leads"
    sender.close(PATIENCE_S)


@pytest.mark.row(26)
def test_records_without_keys_spread_over_all_partitions(cluster: LocalCluster) -> None:
    cluster.create_topic("spread", 3)
    sender = producer(cluster, partitioner="random", sticky_partitioning_linger_ms=0)
    for partition in range(3):  # librdkafka draws once more for a partition whose leader it has yet to reach
        sender.produce("spread", b"first", partition=partition)
    assert sender.flush(PATIENCE_S) == 0
    where: Counter[int | None] = Counter()
    for _ in range(3000):
        sender.produce("spread", b"x", on_delivery=lambda error, message: where.update([message.partition()]))
    assert sender.flush(PATIENCE_S) == 0
    assert where.total() == 3000
    expected = 1000
    chi_square = sum((where[partition] - expected) ** 2 / expected for partition in range(3))
    assert chi_square < 20, f"{where} is not even"


@pytest.mark.row(30)
def test_more_partitions_do_not_move_what_is_there(cluster: LocalCluster) -> None:
    cluster.create_topic("grown", 1)
    sender = producer(cluster)
    for number in range(10):
        sender.produce("grown", b"%d" % number, key=b"k")
    assert sender.flush(PATIENCE_S) == 0
    before = values(cluster, "grown")
    cluster.admin().create_partitions([NewPartitions("grown", 4)])["grown"].result(PATIENCE_S)
    assert values(cluster, "grown") == before == [b"%d" % number for number in range(10)]
    cluster.wait_until_known("grown", 4)
    assert [count(cluster, "grown", partition) for partition in (1, 2, 3)] == [0, 0, 0]


@pytest.mark.row(31)
def test_one_partition_gives_one_order_to_all_readers(cluster: LocalCluster) -> None:
    cluster.create_topic("ordered", 1)

    def send(name: str) -> None:
        sender = producer(cluster, linger_ms=0)
        for number in range(300):
            sender.produce("ordered", f"{name} {number}".encode())
        assert sender.flush(PATIENCE_S) == 0

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(send, "abc"))
    first, again = values(cluster, "ordered"), values(cluster, "ordered")
    assert first == again
    assert len(first) == 900
    for name in (b"a", b"b", b"c"):
        numbers = [int(value.split()[1]) for value in first if value.startswith(name)]
        assert numbers == list(range(300))


@pytest.mark.parametrize("kind", [ResourceType.BROKER, ResourceType.TOPIC])
def test_options_change_while_brokers_run(cluster: LocalCluster, kind: ResourceType) -> None:
    topic = f"limited-by-{kind.name.lower()}"
    cluster.create_topic(topic)
    of_broker = (ConfigResource(kind, str(cluster.leader(topic))), "message.max.bytes")
    of_topic = (ConfigResource(kind, topic), "max.message.bytes")
    resource, name = of_broker if kind is ResourceType.BROKER else of_topic
    alter(cluster, resource, ConfigEntry(name, "2000", incremental_operation=AlterConfigOpType.SET))
    wait_for(lambda: not is_taken(cluster, topic, b"x" * 10_000), "the leader to know the limit")
    alter(cluster, resource, ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE))
    wait_for(lambda: is_taken(cluster, topic, b"x" * 10_000), "the leader to forget the limit")
    assert count(cluster, topic) >= 1


def alter(cluster: LocalCluster, resource: ConfigResource, entry: ConfigEntry) -> None:
    wanted = ConfigResource(resource.restype, resource.name, incremental_configs=[entry])
    (altered,) = cluster.admin().incremental_alter_configs([wanted]).values()
    altered.result(PATIENCE_S)


def is_taken(cluster: LocalCluster, topic: str, value: bytes) -> bool:
    """Whether a record of this size is stored."""
    failed: list[Any] = []
    sender = producer(cluster)
    sender.produce(topic, value, partition=0, on_delivery=lambda error, message: failed.append(error))
    assert sender.flush(PATIENCE_S) == 0
    assert failed[0] is None or failed[0].name() == "MSG_SIZE_TOO_LARGE"
    return failed[0] is None
