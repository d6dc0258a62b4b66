"""The Python client's consumer together with its producer, its blocking face, and the clients of other projects."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

import rookery.sync
from rookery import Consumer, Producer, Record, TopicPartition, WakeupError
from rookery.testing import Cluster

numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=1,
        config={
            "group.consumer.heartbeat.interval.ms": "200",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.assignment.interval.ms": "0",
            "transaction.state.log.num.partitions": "1",
        },
    ) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"with-others-{next(numbers)}"
    cluster.create_topic(name, 3)
    return name


@pytest.fixture
def output(cluster: Cluster, topic: str) -> str:
    cluster.create_topic(f"{topic}-out", 1)
    return f"{topic}-out"


async def write(cluster: Cluster, topic: str, amount: int, first: int = 0) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for n in range(first, first + amount):
            await producer.send(topic, b"%d" % n, key=b"key-%d" % n)
        await producer.flush()


async def read(consumer: Consumer, amount: int) -> list[Record[Any, Any]]:
    found: list[Record[Any, Any]] = []
    async with asyncio.timeout(30):
        while len(found) < amount:
            found += await consumer.getmany(timeout_ms=1000, max_records=amount - len(found))
    return found


def values(records: list[Record[Any, Any]]) -> list[int]:
    return sorted(int(record.value) for record in records)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_exactly_once_from_topic_to_topic(
    cluster: Cluster, topic: str, output: str, protocol: str
) -> None:
    """Every third transaction fails and is done again; a new pair of clients takes over in the middle."""
    await write(cluster, topic, 300)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    options |= {"isolation_level": "read_committed", "enable_auto_commit": False}
    attempts, done = count(1), 0
    for part in (150, 300):
        async with (
            Consumer(topic, **options, group_id=f"g-{topic}", group_protocol=protocol) as consumer,
            Producer(bootstrap_servers=cluster.bootstrap, transactional_id=f"x-{topic}") as producer,
        ):
            async with asyncio.timeout(60):
                while done < part:
                    records = await consumer.getmany(timeout_ms=1000, max_records=40)
                    try:
                        async with producer.transaction() as transaction:
                            for record in records:
                                await transaction.send(output, record.value)
                            if next(attempts) % 3 == 0:
                                raise ValueError("this one fails")
                            await transaction.send_offsets(consumer.positions(), consumer.group_metadata())
                        done += len(records)
                    except ValueError:
                        consumer.seek_to_committed()
    async with Consumer(output, **options) as check:
        found = await read(check, 300)
        assert await check.getmany(timeout_ms=300) == []
    assert values(found) == list(range(300))


@pytest.mark.row(94, 125)
def test_the_blocking_face_in_threads_of_one_group(cluster: Cluster, topic: str) -> None:
    """One consumer per thread: together they read everything once."""
    asyncio.run(write(cluster, topic, 300))
    found: list[Record[Any, Any]] = []
    held: dict[int, int] = {}
    shared = threading.Event()
    problems: list[BaseException] = []

    def work(number: int) -> None:
        options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
        deadline = time.monotonic() + 30
        try:
            with rookery.sync.Consumer(topic, **options, auto_offset_reset="earliest") as consumer:
                while not shared.is_set():
                    found.extend(consumer.getmany(timeout_ms=100))
                    held[number] = len(consumer.assignment)
                    if len(found) >= 300 and sorted(held.values()) == [1, 2]:
                        shared.set()
                    assert time.monotonic() < deadline, "both threads should have had partitions"
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    assert values(found) == list(range(300))


def test_the_blocking_face_iterates_and_is_woken(cluster: Cluster, topic: str) -> None:
    asyncio.run(write(cluster, topic, 30))
    with rookery.sync.Consumer(
        topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        first = []
        for record in consumer:
            first.append(record)
            if len(first) == 10:
                break
        while len(first) < 30:
            first += consumer.getmany(timeout_ms=1000)
        assert values(first) == list(range(30))
        consumer.seek(TopicPartition(topic, 0), 0)
        assert consumer.position(TopicPartition(topic, 0)) == 0
        consumer.pause()
        threading.Timer(0.2, consumer.wakeup).start()
        with pytest.raises(WakeupError):
            consumer.getmany(timeout_ms=30_000)


@pytest.mark.row(90, 92)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_twenty_members_share_a_hundred_partitions(cluster: Cluster, topic: str, protocol: str) -> None:
    await asyncio.to_thread(cluster.create_topic, f"{topic}-100", 100)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    options |= {"group_protocol": protocol} | ({"heartbeat_interval_ms": 200} if protocol == "classic" else {})
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(Consumer(f"{topic}-100", **options)) for _ in range(20)]

        async def poll(member: Consumer) -> None:
            while True:
                await member.getmany(timeout_ms=100)

        polling = [asyncio.create_task(poll(member)) for member in members]
        try:
            async with asyncio.timeout(60):
                while sorted(len(member.assignment) for member in members) != [5] * 20:
                    await asyncio.sleep(0.05)
        finally:
            for task in polling:
                task.cancel()
            await asyncio.wait(polling)
        assert len(frozenset[TopicPartition]().union(*(member.assignment for member in members))) == 100


async def test_mixed_group_with_aiokafka(cluster: Cluster, topic: str) -> None:
    await write(cluster, topic, 300)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    options |= {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200}
    other = AIOKafkaConsumer(topic, **options)
    await other.start()
    found: list[int] = []

    async def theirs() -> None:
        async for record in other:
            found.append(int(record.value or b""))

    async def ours() -> None:
        while True:
            found.extend(values(await consumer.getmany(timeout_ms=100)))

    tasks = [asyncio.create_task(theirs())]
    try:
        async with Consumer(
            topic, **options, partition_assignment_strategy=["roundrobin", "range"]
        ) as consumer:
            tasks.append(asyncio.create_task(ours()))
            async with asyncio.timeout(30):
                while not (0 < len(consumer.assignment) < 3):
                    await asyncio.sleep(0.05)
                await write(cluster, topic, 300, 300)
                while set(found) != set(range(600)):
                    await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await other.stop()


@pytest.mark.row(89, 95)
@pytest.mark.parametrize(
    "options",
    [{}, {"group_protocol": "classic"}, {"partition_assignment_strategy": "cooperative-sticky"}],
    ids=["consumer", "classic", "cooperative"],
)
async def test_a_subscription_grows_shrinks_ends_and_begins_again(
    cluster: Cluster, topic: str, output: str, options: dict[str, Any]
) -> None:
    await write(cluster, topic, 5)
    await write(cluster, output, 5)
    options = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest", **options}
    async with Consumer(topic, **options, group_id=f"g-{topic}") as consumer:
        assert {record.topic for record in await read(consumer, 5)} == {topic}
        consumer.subscribe([topic, output])
        assert {record.topic for record in await read(consumer, 5)} == {output}
        assert len(consumer.assignment) == 4
        consumer.subscribe([output])
        async with asyncio.timeout(30):
            while consumer.assignment != {TopicPartition(output, 0)}:
                assert await consumer.getmany(timeout_ms=100) == []
        await consumer.unsubscribe()
        assert consumer.assignment == frozenset()
        consumer.subscribe(topic)
        await write(cluster, topic, 5, 5)
        assert values(await read(consumer, 5)) == [5, 6, 7, 8, 9]
