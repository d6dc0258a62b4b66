"""Our own producer while nodes are killed, paused and all restarted: nothing lost, doubled or out of order."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition

from rookery import Admin, Producer, RecordMetadata, TopicPartition
from tests.cluster.local import LocalCluster, local_cluster
from tests.cluster.own_load import no_busy_loop, requests_of

TOPIC = "failover"
PARTITIONS = 3
PATIENCE_S = 60.0
REQUESTS_MAX = 500
"""In a second. The load fills a batch of each partition every 10 ms; without pauses there would be thousands."""
IDLE_REQUESTS_MAX = 30
"""In a second, while nobody can answer."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(3, min__insync__replicas="2") as running:
        running.create_topic(TOPIC, PARTITIONS, 3)
        yield running


async def stored(cluster: LocalCluster) -> dict[int, list[tuple[int, int]]]:
    """By partition: offset and number of each record, as another client reads them."""
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.awake)
    await consumer.start()
    try:
        places = [AioPartition(TOPIC, index) for index in range(PARTITIONS)]
        ends = await consumer.end_offsets(places)
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(sum(ends.values())):
                record = await consumer.getone()
                found[record.partition].append((record.offset, int(record.value)))
        return found
    finally:
        await consumer.stop()


class Load:
    """Sends numbers one after the other, about 2,000 a second, until it is stopped."""

    def __init__(self, producer: Producer, first: int) -> None:
        self._producer = producer
        self.next = first
        self.deliveries: dict[int, object] = {}
        self.places: dict[int, RecordMetadata] = {}
        self._stop = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._stop:
            for _ in range(20):
                number = self.next
                self.next += 1
                delivery = await self._producer.send(TOPIC, b"%d" % number, key=b"%d" % (number % 50))
                delivery.add_callback(lambda place, error, number=number: self._ended(number, place, error))  # type: ignore[misc]
            await asyncio.sleep(0.01)

    def _ended(self, number: int, place: RecordMetadata | None, error: Exception | None) -> None:
        assert error is None, f"{number}: {error}"
        assert place is not None
        self.places[number] = place

    async def acknowledged(self, more: int) -> None:
        """Wait for this many further records."""
        target = len(self.places) + more
        async with asyncio.timeout(PATIENCE_S):
            while len(self.places) < target:
                assert not self._task.done() or self._task.exception() is None
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._stop = True
        await self._task
        await self._producer.flush(PATIENCE_S)


async def check(cluster: LocalCluster, load: Load, first: int) -> None:
    assert len(load.places) == load.next - first
    found = await stored(cluster)
    numbers = [number for records in found.values() for _, number in records]
    assert len(numbers) == len(set(numbers)), "a record is stored twice"
    for index, records in found.items():
        offsets = dict(records)
        assert [n for _, n in records] == sorted(n for _, n in records), f"partition {index} is out of order"
        for number, place in load.places.items():
            if place.partition == index:
                assert offsets[place.offset] == number


@pytest.mark.row(11, 12, 13, 17, 20, 27)
@pytest.mark.invariant("T1")
async def test_a_killed_leader(cluster: LocalCluster) -> None:
    """Its partitions go on elsewhere. One with too few replicas in sync goes on for acks=1; with acks=all its records
    wait, and are delivered when the node is back."""
    async with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, linger_ms=2) as producer,
        Producer(bootstrap_servers=cluster.bootstrap, acks=1) as content,
    ):
        load = Load(producer, 0)
        await load.acknowledged(500)
        victim = await asyncio.to_thread(cluster.leader, TOPIC, 0)
        leader = next(node for node in cluster.ids if node != victim)
        await admin.create_topic("pair", assignment={0: [leader, victim]}, config={"min.insync.replicas": "2"})
        assert (await (await producer.send("pair", b"both have it"))).offset == 0
        await asyncio.to_thread(cluster.kill, victim)
        with no_busy_loop(lambda: requests_of(producer, content), REQUESTS_MAX):
            await load.acknowledged(1000)
            waits = await producer.send("pair", b"waits for the follower")
            async with asyncio.timeout(PATIENCE_S):
                while not any("NOT_ENOUGH_REPLICAS" in problem for problem in producer.health().problems):
                    await asyncio.sleep(0.02)
            assert (await (await content.send("pair", b"content with the leader"))).offset == 1
            assert not waits.done()
        await asyncio.to_thread(cluster.up)
        assert (await waits).offset == 2
        await load.acknowledged(500)
        await load.stop()
    await asyncio.to_thread(cluster.wait_in_sync, TOPIC, PARTITIONS, 3)
    await check(cluster, load, 0)


async def test_two_of_three_nodes_killed(cluster: LocalCluster) -> None:
    """No quorum is left, and nothing is acknowledged; the producer waits quietly, and goes on when they are back."""
    async with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=2) as producer:
        load = Load(producer, 500_000)
        await load.acknowledged(200)
        for node in cluster.ids[:2]:
            await asyncio.to_thread(cluster.kill, node)
        with no_busy_loop(lambda: requests_of(producer), IDLE_REQUESTS_MAX):
            await asyncio.sleep(2)
        await asyncio.to_thread(cluster.up)
        await load.acknowledged(500)
        await load.stop()
    await asyncio.to_thread(cluster.wait_in_sync, TOPIC, PARTITIONS, 3)
    await check(cluster, load, 500_000)


async def test_a_paused_leader(cluster: LocalCluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=2, request_timeout_ms=3000) as producer:
        load = Load(producer, 1_000_000)
        await load.acknowledged(500)
        victim = await asyncio.to_thread(cluster.leader, TOPIC, 1)
        cluster.pause(victim)
        with no_busy_loop(lambda: requests_of(producer), REQUESTS_MAX):
            await load.acknowledged(1000)
        cluster.resume(victim)
        await load.acknowledged(500)
        await load.stop()
    await asyncio.to_thread(cluster.wait_in_sync, TOPIC, PARTITIONS, 3)
    await check(cluster, load, 1_000_000)


async def test_all_nodes_restarted(cluster: LocalCluster) -> None:
    """No node is known any more to be alive: the producer starts again from the bootstrap addresses, quietly."""
    async with (
        Producer(bootstrap_servers=cluster.bootstrap, linger_ms=2) as producer,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        load = Load(producer, 2_000_000)
        await load.acknowledged(200)
        for node in cluster.ids:
            await asyncio.to_thread(cluster.kill, node)
        with no_busy_loop(lambda: requests_of(producer), IDLE_REQUESTS_MAX):
            await asyncio.sleep(2)
        await asyncio.to_thread(cluster.up)
        await load.acknowledged(1000)
        await load.stop()
        described = await admin.describe_topic(TOPIC)
        assert len(described.partitions) == PARTITIONS
        assert await admin.list_offsets({TopicPartition(TOPIC, 0): "latest"})
    await asyncio.to_thread(cluster.wait_in_sync, TOPIC, PARTITIONS, 3)
    await check(cluster, load, 2_000_000)
