"""Nodes die, stall and return while clients go on: nothing acknowledged is lost, nothing comes twice."""

import asyncio
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from rookery.core.errors import ErrorCode
from rookery.core.net.cluster import PartitionView
from rookery.core.net.connection import Connection
from rookery.core.wire.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from tests.cluster.ends import ends
from tests.cluster.load import Load
from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.cluster.replicas import check_history_and_replicas

pytestmark = pytest.mark.alone

TOPIC = "orders"
PARTITIONS = 3
LEADERS_ONLY = 10
"""The last version of Fetch in which a consumer has no rack, so that only leaders answer it."""
AFTER_FAULT = 300
"""Acknowledgements that must come after each fault before the next."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(
        3,
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
        replica__lag__time__max__ms="2000",
        leader__imbalance__check__interval__seconds="1",
    ) as running:
        running.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})
        yield running


@pytest.fixture(autouse=True)
def _logs_of_a_failure(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[None]:
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        cluster.show_logs()


def check(cluster: LocalCluster, load: Load) -> None:
    check_history_and_replicas(cluster, load, TOPIC, PARTITIONS)


@pytest.mark.row(12, 17, 20, 63, 65, 67, 69, 77)
@pytest.mark.invariant("P1", "P4")
def test_leaders_killed_and_restarted_under_load(cluster: LocalCluster) -> None:
    draw = random.Random(7)
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        for _ in range(3):
            victim = cluster.leader(TOPIC, draw.randrange(PARTITIONS))
            begun = time.monotonic()
            cluster.kill(victim)
            load.go_on(AFTER_FAULT)
            print(f"kill -9 of node {victim}: longest gap {load.longest_gap_s(begun):.2f} s")
            cluster.up()
            cluster.wait_in_sync(TOPIC, PARTITIONS)
    check(cluster, load)


@pytest.mark.row(74, 79)
@pytest.mark.invariant("P4", "M2")
def test_the_active_controller_killed_under_load(cluster: LocalCluster) -> None:
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = cluster.active_controller()
        cluster.kill(victim)
        load.go_on(AFTER_FAULT)
        assert cluster.active_controller() != victim
        cluster.up()
        cluster.wait_in_sync(TOPIC, PARTITIONS)
    check(cluster, load)


@pytest.mark.row(69)
@pytest.mark.invariant("P11", "P4")
def test_a_paused_leader_is_replaced_and_cannot_acknowledge_when_it_wakes(cluster: LocalCluster) -> None:
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = cluster.leader(TOPIC, 0)
        cluster.pause(victim)
        wait_for(lambda: cluster.partition(TOPIC, 0).leader not in (victim, -1), "another leader", 30)
        load.go_on(AFTER_FAULT)
        cluster.resume(victim)
        load.go_on(AFTER_FAULT)
        cluster.wait_in_sync(TOPIC, PARTITIONS)
    check(cluster, load)


@pytest.mark.row(77)
def test_controlled_shutdown_hands_over_first(cluster: LocalCluster) -> None:
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        for victim in cluster.ids:
            begun = time.monotonic()
            cluster.stop(victim)
            load.go_on(AFTER_FAULT)
            print(f"controlled stop of node {victim}: longest gap {load.longest_gap_s(begun):.2f} s")
            assert "broker.left" in cluster.log(victim)
            cluster.up()
            cluster.wait_in_sync(TOPIC, PARTITIONS)
    check(cluster, load)


@pytest.mark.row(103)
@pytest.mark.invariant("P13")
def test_all_nodes_killed_and_started_again(cluster: LocalCluster) -> None:
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        for node_id in cluster.ids:
            cluster.kill(node_id)
        cluster.up()
        load.go_on(AFTER_FAULT)
        cluster.wait_in_sync(TOPIC, PARTITIONS)
    check(cluster, load)


def wait_for_preferred(cluster: LocalCluster) -> None:
    def preferred(told: PartitionView) -> bool:
        return told.leader == told.replicas[0]

    wait_for(
        lambda: all(cluster.everywhere(preferred, TOPIC, index) for index in range(PARTITIONS)),
        "every leader to be the preferred one, as every node tells",
    )


@pytest.mark.row(70)
def test_preferred_leaders_return_by_themselves(cluster: LocalCluster) -> None:
    wait_for_preferred(cluster)


def test_a_node_returns_with_an_empty_disk(cluster: LocalCluster) -> None:
    """Its data comes from the others; as a voter it is another one, so a controller keeps its log elsewhere."""
    with Load(cluster, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = next(n for n in cluster.ids if n != cluster.active_controller())
        cluster.kill(victim)
        for partition in range(PARTITIONS):
            folder = Path(cluster.node(victim).data) / f"{TOPIC}-{partition}"
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        cluster.up()
        load.go_on(AFTER_FAULT)
        cluster.wait_in_sync(TOPIC, PARTITIONS)
    check(cluster, load)


def note_offset(offsets: list[int], error: KafkaError | None, message: Message) -> None:
    assert error is None
    offsets.append(message.offset() or 0)


def ask_follower(cluster: LocalCluster, partition: int) -> ErrorCode:
    """What a follower says to a consumer that comes without having been sent."""
    leader = cluster.leader(TOPIC, partition)
    follower = next(n for n in cluster.partition(TOPIC, partition).isr if n != leader)
    host, _, port = cluster.node(follower).kafka.partition(":")
    part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1000)
    wanted = FetchTopic(topic=TOPIC, partitions=[part])

    async def ask() -> ErrorCode:
        connection = await Connection.open(host, int(port), client_id="reader")
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[wanted])
        answer = await connection.request(FETCH, LEADERS_ONLY, request, 10)
        connection.close()
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    return asyncio.run(ask())


@pytest.mark.row(68)
@pytest.mark.invariant("P5")
def test_what_was_acknowledged_is_read_at_once_and_no_consumer_goes_back(cluster: LocalCluster) -> None:
    """Each consumer is a new one, and the leader changes in between; followers serve no reads of their own accord."""
    latest = 0
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(6):
        offsets: list[int] = []
        value = b"mine %d" % number
        producer.produce(TOPIC, value, partition=0, on_delivery=partial(note_offset, offsets))
        assert producer.flush(30) == 0
        low, high = ends(cluster, TOPIC, 0)
        assert low <= offsets[0] < high
        assert high >= latest, "the end went back"
        latest = high
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "not-used"})
        consumer.assign([TopicPartition(TOPIC, 0, offsets[0])])
        message = consumer.poll(30)
        assert message is not None
        assert (message.error(), message.value(), message.offset()) == (None, value, offsets[0])
        consumer.close()
        if number % 3 == 1:
            cluster.stop(cluster.leader(TOPIC, 0))
        elif number % 3 == 2:
            cluster.up()
            cluster.wait_in_sync(TOPIC, PARTITIONS)
            wait_for_preferred(cluster)  # so that none moves back while it is asked
    assert ask_follower(cluster, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.row(84)
def test_one_bootstrap_address_is_enough(cluster: LocalCluster) -> None:
    first = cluster.bootstrap.split(",")[0]
    producer = Producer({"bootstrap.servers": first, "acks": "all"})
    producer.list_topics(timeout=10)
    cluster.kill(cluster.ids[0])
    results: list[object] = []
    producer.produce(TOPIC, b"after", partition=0, on_delivery=lambda error, _: results.append(error))
    producer.flush(30)
    cluster.up()
    assert results == [None]
