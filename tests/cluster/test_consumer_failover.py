"""The Python client's consumer while nodes die, stall and return: it goes on by itself, and reads every record once and
in order."""

import asyncio
import resource
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer

from rookery import Consumer, Record
from rookery.broker.coordination.internal_topic import partition_for
from tests.cluster.local import LocalCluster, local_cluster
from tests.cluster.own_load import no_busy_loop, requests_of

PARTITIONS = 3
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
IDLE_REQUESTS_MAX = 30
"""In a second, while nobody can answer."""
numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(
        3,
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
        replica__lag__time__max__ms="2000",
        group__initial__rebalance__delay__ms="0",
        leader__imbalance__check__interval__seconds="1",
    ) as running:
        yield running


class Writer:
    """Writes numbers, each partition's in order, until it is stopped."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "socket.timeout.ms": 5_000,
                "request.timeout.ms": 5_000,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.acknowledged: list[list[int]] = [[] for _ in range(PARTITIONS)]

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(120) == 0

    def _work(self) -> None:
        for n in count():
            if self._stop.wait(0.002):
                return
            partition = n % PARTITIONS

            def done(error: Any, message: Any, n: int = n, partition: int = partition) -> None:
                assert error is None, error
                self.acknowledged[partition].append(n)

            self._producer.produce(self._topic, b"%d" % n, partition=partition, on_delivery=done)
            self._producer.poll(0)


class Reader:
    """Reads in the background, and knows how long it had to wait."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.found: list[Record[Any, Any]] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Reader":
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled() or self._task.exception() is None

    async def _work(self) -> None:
        while True:
            self.found += await self._consumer.getmany(timeout_ms=200)

    async def more(self, amount: int, timeout_s: float = 60) -> None:
        goal = len(self.found) + amount
        await until(lambda: len(self.found) >= goal or self._failed, timeout_s)
        assert not self._failed, self._task

    @property
    def _failed(self) -> bool:
        return self._task is not None and self._task.done()


async def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.05)


def check(found: list[Record[Any, Any]], writer: Writer) -> None:
    for partition, written in enumerate(writer.acknowledged):
        read = [int(record.value) for record in found if record.partition == partition]
        assert read == written


async def finish(reader: Reader, writer: Writer) -> None:
    await until(lambda: len(reader.found) >= sum(map(len, writer.acknowledged)))
    check(reader.found, writer)


def new_topic(cluster: LocalCluster) -> str:
    topic = f"failover-{next(numbers)}"
    cluster.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
    return topic


def options(cluster: LocalCluster, protocol: str, topic: str) -> dict[str, Any]:
    given: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    if protocol != "none":
        given |= {"group_id": f"g-{topic}", "group_protocol": protocol}
    return given


def leader_or_coordinator(cluster: LocalCluster, topic: str, protocol: str, turn: int) -> int:
    """First the leader of a partition, then the group's coordinator."""
    if turn == 0 or protocol == "none":
        return cluster.leader(topic, turn)
    return cluster.leader(OFFSETS_TOPIC, partition_for(f"g-{topic}", OFFSETS_PARTITIONS))


@pytest.mark.row(101)
@pytest.mark.parametrize("protocol", ["none", "classic", "consumer"])
async def test_leaders_and_coordinators_are_killed(cluster: LocalCluster, protocol: str) -> None:
    topic = await asyncio.to_thread(new_topic, cluster)
    async with Consumer(topic, **options(cluster, protocol, topic)) as consumer, Reader(consumer) as reader:
        with Writer(cluster, topic) as writer:
            await reader.more(100)
            for turn in range(2):
                victim = await asyncio.to_thread(leader_or_coordinator, cluster, topic, protocol, turn)
                await asyncio.to_thread(cluster.kill, victim)
                await reader.more(500)
                await asyncio.to_thread(cluster.up)
                await asyncio.to_thread(cluster.wait_in_sync, topic, PARTITIONS)
                await reader.more(100)
        await finish(reader, writer)


@pytest.mark.row(103)
async def test_all_nodes_are_killed_and_come_back(cluster: LocalCluster) -> None:
    topic = await asyncio.to_thread(new_topic, cluster)
    async with Consumer(topic, **options(cluster, "classic", topic)) as consumer, Reader(consumer) as reader:
        with Writer(cluster, topic) as writer:
            await reader.more(100)
            await consumer.commit()
            before = {tp: each.offset for tp, each in (await consumer.committed()).items() if each is not None}
            assert len(before) == PARTITIONS
            for node in cluster.ids:
                await asyncio.to_thread(cluster.kill, node)
            used, begun = resource.getrusage(resource.RUSAGE_THREAD).ru_utime, time.monotonic()
            with no_busy_loop(lambda: requests_of(consumer), IDLE_REQUESTS_MAX):
                await asyncio.sleep(5)
            busy = (resource.getrusage(resource.RUSAGE_THREAD).ru_utime - used) / (time.monotonic() - begun)
            assert busy < 0.3, "it tries in a loop without pauses"
            await asyncio.to_thread(cluster.up)
            await reader.more(300, 120)
            after = {tp: each.offset for tp, each in (await consumer.committed()).items() if each is not None}
            assert all(after[tp] >= offset for tp, offset in before.items()), "commits survive"
        await finish(reader, writer)


async def test_a_leader_stands_still_and_goes_on(cluster: LocalCluster) -> None:
    topic = await asyncio.to_thread(new_topic, cluster)
    async with Consumer(topic, **options(cluster, "consumer", topic)) as consumer, Reader(consumer) as reader:
        with Writer(cluster, topic) as writer:
            await reader.more(100)
            victim = await asyncio.to_thread(cluster.leader, topic, 0)
            cluster.pause(victim)
            try:
                await until(lambda: len([r for r in reader.found if r.partition == 0]) > 0)
                before = len([r for r in reader.found if r.partition == 0])
                await until(lambda: len([r for r in reader.found if r.partition == 0]) > before + 100, 60)
            finally:
                cluster.resume(victim)
            await reader.more(300)
        await finish(reader, writer)
