"""The Python client's consumer against one real node: what the pages promise, with both group protocols."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer

from rookery import (
    CommitFailedError,
    ConcurrentUseError,
    Consumer,
    IllegalStateError,
    NoOffsetError,
    OffsetAndMetadata,
    Record,
    TopicPartition,
    WakeupError,
)
from rookery.client.consumer import RebalanceListener, RecordDeserializationError
from rookery.testing import Cluster

PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {},
    "classic": {"group_protocol": "classic"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 200},
}
numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=1,
        config={
            "group.consumer.heartbeat.interval.ms": "200",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.assignment.interval.ms": "0",
        },
    ) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"topic-{next(numbers)}"
    cluster.create_topic(name, 3)
    return name


def write(cluster: Cluster, topic: str, amount: int, first: int = 0, **options: str) -> None:
    """Record n: value and key of n; the partition follows from it, too."""
    producer = OtherProducer(
        {"bootstrap.servers": cluster.bootstrap, **{k.replace("_", "."): v for k, v in options.items()}}
    )
    for n in range(first, first + amount):
        producer.produce(topic, b"%d" % n, b"key-%d" % (n % 10), partition=n % 3, headers=[("n", b"%d" % n)])
    assert producer.flush(30) == 0


async def read(consumer: Consumer, amount: int, timeout_s: float = 30) -> list[Record[Any, Any]]:
    found: list[Record[Any, Any]] = []
    async with asyncio.timeout(timeout_s):
        while len(found) < amount:
            found += await consumer.getmany(timeout_ms=1000, max_records=amount - len(found))
    return found


def values(records: Collection[Record[Any, Any]]) -> list[int]:
    return sorted(int(record.value) for record in records)


@asynccontextmanager
async def background(consumer: Consumer, into: list[Record[Any, Any]]) -> AsyncIterator[None]:
    """A member that reads all the time."""

    async def work() -> None:
        while True:
            into.extend(await consumer.getmany(timeout_ms=100))

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Any, what: str, timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            assert what
            await asyncio.sleep(0.05)


# --- the contract -------------------------------------------------------------------------------------------


@pytest.mark.row(85, 87, 104, 110, 114, 117)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_contract(cluster: Cluster, topic: str, protocol: str) -> None:
    write(cluster, topic, 30)
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
    }
    options |= PROTOCOLS[protocol]
    async with Consumer(topic, **options) as c:
        seen = []
        async for record in c:
            seen.append(record)
            n = int(record.value)
            assert (record.topic, record.partition, record.offset) == (topic, n % 3, n // 3)
            assert (record.key, list(record.headers)) == (b"key-%d" % (n % 10), [("n", b"%d" % n)])
            assert abs(record.timestamp - time.time() * 1000) < 600_000
            if len(seen) == 10:
                break
        batch = await c.getmany(timeout_ms=5000, max_records=5)
        assert isinstance(batch, list)
        assert 1 <= len(batch) <= 5
        rest = await read(c, 20 - len(batch))
        assert values(seen + batch + rest) == list(range(30))
        assert await c.getmany(timeout_ms=100, max_records=500) == []
        await c.commit()
        assert {tp: each and each.offset for tp, each in (await c.committed()).items()} == {
            TopicPartition(topic, n): 10 for n in range(3)
        }
        await c.commit(
            {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): OffsetAndMetadata(5, "a note")}
        )
        committed = await c.committed()
        assert committed[TopicPartition(topic, 1)] == OffsetAndMetadata(5, "a note")
        c.seek_to_beginning()  # or the positions would be committed by close
        c.pause()
        await c.commit({TopicPartition(topic, n): 8 for n in range(3)})
        told = c.explain()
        assert told["group"]["state"] == "stable"
        assert told["group"]["protocol"] == ("consumer" if protocol == "consumer" else "classic")
        await c.commit_async({TopicPartition(topic, n): 8 for n in range(3)})
    await c.close()  # again
    async with Consumer(topic, **options, enable_auto_commit=False) as c:
        by_partition = await c.poll(10_000, max_records=1)
        assert [len(records) for records in by_partition.values()] == [1]


async def test_assignment_by_hand_without_a_group(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 30)
    async with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as c:
        with pytest.raises(IllegalStateError, match="reads nothing yet"):
            await c.getmany()
        c.assign([TopicPartition(topic, 1)])
        assert {record.partition for record in await read(c, 10)} == {1}
        assert await c.position(TopicPartition(topic, 1)) == 10
        with pytest.raises(IllegalStateError, match="Set group_id"):
            await c.commit()
        with pytest.raises(IllegalStateError, match="cannot be mixed"):
            c.subscribe([topic])


async def test_a_consumer_without_a_group_reads_all_partitions_also_new_ones(
    cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, 9)
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "auto_offset_reset": "earliest",
        "metadata_max_age_ms": 200,
    }
    async with Consumer(topic, **options) as one, Consumer(topic, **options) as other:
        assert values(await read(one, 9)) == values(await read(other, 9)) == list(range(9))


@pytest.mark.row(86)
async def test_a_fetch_waits_for_data_and_not_longer(cluster: Cluster, topic: str) -> None:
    """One request at a time waits at the node: nobody asks again and again, and a record is there at once."""
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    async with Consumer(**options, fetch_max_wait_ms=60_000, request_timeout_ms=90_000) as c:
        c.assign([TopicPartition(topic, 0)])
        assert await c.getmany(timeout_ms=1000) == []
        assert 1 <= c.metrics()["fetch-total"] <= 3
        await asyncio.to_thread(write, cluster, topic, 1)
        assert values(await read(c, 1)) == [0]  # within 30 s, half of what an empty answer takes


@pytest.mark.row(122)
async def test_seek_and_pause(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 30)
    before = int(time.time() * 1000)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Consumer(bootstrap_servers=cluster.bootstrap) as c:
        c.assign([first, second])
        c.seek(first, 7)
        assert [record.offset for record in await read(c, 3)] == [7, 8, 9]
        c.seek_to_beginning(second)
        c.pause(first)
        c.seek(first, 0)
        assert {record.partition for record in await read(c, 10)} == {1}
        assert c.paused == {first}
        c.resume()
        assert [record.offset for record in await read(c, 10)] == list(range(10))
        c.seek_to_time(0)
        assert len(await read(c, 20)) == 20
        c.seek_to_time(before + 3_600_000, first)
        assert await c.position(first) == 10
        c.seek_to_end()
        assert await c.position(second) == 10
        assert await c.end_offsets(first) == {first: 10}
        assert await c.beginning_offsets(first) == {first: 0}
        found = await c.offsets_for_times({first: 0, second: before + 3_600_000})
        at = found[first]
        assert at is not None
        assert (at.offset, found[second]) == (0, None)
        assert await c.getmany(timeout_ms=100) == []
        assert c.lag(first) == 0
        with pytest.raises(IllegalStateError, match="not assigned"):
            c.seek(TopicPartition(topic, 2), 0)


async def test_rules_for_the_first_position(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 30)
    place = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="none") as c:
        c.assign([place])
        for _ in range(2):
            with pytest.raises(NoOffsetError, match="auto_offset_reset is none"):
                await c.getmany()
        c.seek(place, 9)
        assert [record.offset for record in await read(c, 1)] == [9]
        c.seek(place, 1000)
        with pytest.raises(NoOffsetError, match="out of range"):
            await c.getmany(timeout_ms=10_000)
    for rule, position in {"latest": 10, "earliest": 0, "by_duration:PT1H": 0}.items():
        async with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset=rule) as c:
            c.assign([place])
            assert await c.position(place) == position


# --- groups -------------------------------------------------------------------------------------------------


@pytest.mark.row(90, 95, 99)
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_members_share_the_partitions_and_take_over(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    write(cluster, topic, 300)
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
    }
    options |= {"heartbeat_interval_ms": 200, **PROTOCOLS[protocol]} if protocol != "consumer" else {}
    found: list[Record[Any, Any]] = []
    async with Consumer(topic, **options) as one, background(one, found):
        await until(lambda: len(found) == 300, "the first member to read everything")
        async with Consumer(topic, **options) as two, background(two, found):
            await until(
                lambda: len(one.assignment) + len(two.assignment) == 3 and two.assignment, "both to share"
            )
            assert not one.assignment & two.assignment
            write(cluster, topic, 300, 300)
            await until(lambda: len(found) >= 600, "both to read")
        await until(lambda: len(one.assignment) == 3, "the first member to take over")
        write(cluster, topic, 300, 600)
        await until(lambda: len(found) >= 900, "one to read everything")
    assert values(found) == list(range(900))  # nothing twice: who gives up partitions commits first


async def test_mixed_group_with_librdkafka(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 300)
    group = f"g-{topic}"
    other = OtherConsumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": 200,
        }
    )
    other.subscribe([topic])
    found: list[Any] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            found.extend(message for message in other.consume(100, 0.1) if message.error() is None)

    reader = threading.Thread(target=work)
    reader.start()
    ours: list[Record[Any, Any]] = []
    try:
        options: dict[str, Any] = {
            "group_id": group, "partition_assignment_strategy": "range", "heartbeat_interval_ms": 200
        }  # fmt: skip
        async with (
            Consumer(
                topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", **options
            ) as c,
            background(c, ours),
        ):
            await until(lambda: 0 < len(c.assignment) < 3, "both to share")
            write(cluster, topic, 300, 300)
            await until(lambda: len(found) + len(ours) >= 600, "both to read")
    finally:
        stop.set()
        reader.join()
        other.close()
    assert set(values(ours)) | {int(message.value()) for message in found} == set(range(600))


@pytest.mark.row(88)
async def test_pattern(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 3)
    for options in (PROTOCOLS["classic"], PROTOCOLS["consumer"]):
        async with Consumer(
            bootstrap_servers=cluster.bootstrap,
            group_id=f"g-{topic}-{len(options)}",
            auto_offset_reset="earliest",
            **options,
        ) as c:
            c.subscribe(pattern=f"{topic}|nothing-.*")
            assert values(await read(c, 3)) == [0, 1, 2]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_static_member_comes_back_to_its_partitions(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
    }
    options |= PROTOCOLS[protocol]
    generations = []
    for _ in range(2):
        async with Consumer(topic, **options, group_instance_id="i") as c:
            write(cluster, topic, 3)
            await read(c, 3)
            assert len(c.assignment) == 3
            generations.append(c.group_metadata().generation_id)
    assert generations[0] == generations[1]


class Listener(RebalanceListener):
    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.events: list[tuple[str, list[TopicPartition]]] = []
        self.refused: list[type[BaseException]] = []

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        assert self.consumer is not None
        self.events.append(("assigned", sorted(assigned)))
        for tp in assigned:
            self.consumer.seek(tp, 5)
            assert await self.consumer.position(tp) == 5
        try:
            await self.consumer.getmany()
        except IllegalStateError as error:
            self.refused.append(type(error))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        assert self.consumer is not None
        self.events.append(("revoked", sorted(revoked)))
        await self.consumer.commit({tp: OffsetAndMetadata(7, "from the listener") for tp in revoked})


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_listeners_may_seek_and_commit_and_cannot_deadlock(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    write(cluster, topic, 30)
    listener = Listener()
    places = [TopicPartition(topic, n) for n in range(3)]
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "enable_auto_commit": False,
    }
    options |= PROTOCOLS[protocol]
    async with Consumer(topic, listener=listener, **options) as c:
        listener.consumer = c
        assert {record.offset for record in await read(c, 15)} == {5, 6, 7, 8, 9}
    assert listener.events == [("assigned", places), ("revoked", places)]
    assert listener.refused == [IllegalStateError]
    async with Consumer(bootstrap_servers=cluster.bootstrap, group_id=f"g-{topic}") as c:
        c.assign(places)
        assert set((await c.committed()).values()) == {OffsetAndMetadata(7, "from the listener")}


@pytest.mark.row(109, 111, 118)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_who_does_not_poll_is_warned_and_leaves_and_learns_why_its_commit_fails(
    cluster: Cluster, topic: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(cluster, topic, 30)
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
    }
    options |= PROTOCOLS[protocol]
    async with Consumer(topic, **options, max_poll_interval_ms=800, enable_auto_commit=False) as c:
        await read(c, 3)
        await until(lambda: c.explain()["group"]["state"] == "leaving", "the member to leave")
        assert [each.message for each in caplog.records if each.message.startswith("poll.")] == [
            "poll.late",
            "poll.late",
            "poll.interval_exceeded",
        ]
        with pytest.raises(CommitFailedError, match=r"\(1\).*max_poll_records.*\(2\).*\(3\).*\(4\)"):
            await c.commit()
        assert values(await read(c, 30)) == list(range(30))  # it is a member again, from the last commit on
        await c.commit()


@pytest.mark.row(105, 113, 128)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_crash_repeats_exactly_what_came_after_the_last_commit(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    write(cluster, topic, 30)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    options |= {"auto_offset_reset": "earliest", "enable_auto_commit": False, **PROTOCOLS[protocol]}
    async with Consumer(topic, **options) as c:
        first = await read(c, 12)
        await c.commit()
        lost = await read(c, 6)
    async with Consumer(topic, **options) as c:
        again = await read(c, 18)
    assert values(first + again) == list(range(30))
    assert {record.offset for record in lost} <= {record.offset for record in again}


@pytest.mark.row(112)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_auto_commit_at_its_interval_and_not_before_a_record_is_processed(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    write(cluster, topic, 30)
    place = TopicPartition(topic, 0)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    options |= {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 100, **PROTOCOLS[protocol]}

    async def committed() -> int:
        found = (await c.committed(place))[place]
        return 0 if found is None else found.offset

    async with Consumer(topic, **options) as c:
        while not (taken := [r.offset for r in await c.getmany(max_records=4) if r.partition == 0]):
            pass
        await asyncio.sleep(0.5)
        assert await committed() <= taken[0]  # what was just handed out is still being processed
        c.pause()
        async with asyncio.timeout(30):
            while await committed() <= taken[-1]:
                await c.getmany(timeout_ms=50)


@pytest.mark.row(115, 116)
async def test_asynchronous_commits_in_order_and_a_last_synchronous_one(
    cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, 300)
    reports: list[tuple[dict[TopicPartition, OffsetAndMetadata], Exception | None]] = []
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    async with Consumer(topic, **options, auto_offset_reset="earliest", enable_auto_commit=False) as c:
        seen = 0
        async for _ in c:
            seen += 1
            if seen % 100 == 0:
                c.commit_async(callback=lambda offsets, error: reports.append((offsets, error)))
            if seen == 300:
                break
        await c.commit()
        assert sum(each.offset for each in (await c.committed()).values() if each) == 300
    assert [error for _, error in reports] == [None] * 3
    assert [sum(each.offset for each in offsets.values()) for offsets, _ in reports] == [100, 200, 300]


@pytest.mark.row(120)
async def test_a_group_with_members_refuses_commits_of_partitions_assigned_by_hand(
    cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, 3)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    async with Consumer(topic, **options, auto_offset_reset="earliest") as member:
        await read(member, 3)
        async with Consumer(**options, enable_auto_commit=False) as c:
            c.assign([TopicPartition(topic, 0)])
            with pytest.raises(CommitFailedError, match="assigned by hand"):
                await c.commit({TopicPartition(topic, 0): 1})


@pytest.mark.row(123)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_heartbeats_go_on_while_records_are_processed(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    write(cluster, topic, 3)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": f"g-{topic}"}
    options |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if protocol == "classic" else {}
    async with Consumer(topic, **options, auto_offset_reset="earliest", enable_auto_commit=False) as c:
        await read(c, 3)
        before = c.group_metadata()
        await asyncio.sleep(7 if protocol == "classic" else 2)
        await c.commit()
        assert c.group_metadata() == before


# --- calls --------------------------------------------------------------------------------------------------


@pytest.mark.row(124)
async def test_wakeup_and_other_threads(cluster: Cluster, topic: str) -> None:
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap) as c:
        threading.Timer(0.2, c.wakeup).start()
        with pytest.raises(WakeupError):
            await c.getmany(timeout_ms=30_000)
        with pytest.raises(ConcurrentUseError, match="another thread"):
            await asyncio.to_thread(c.pause)
        polling = asyncio.create_task(c.getmany(timeout_ms=30_000))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUseError, match="another task"):
            await c.getmany()
        polling.cancel()
        await asyncio.wait([polling])
        assert await c.getmany(timeout_ms=50) == []


async def test_close_ends_an_iteration(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 3)
    seen = []
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as c:
        async for record in c:
            seen.append(record)
            if len(seen) == 3:
                asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(c.close()))
    assert values(seen) == [0, 1, 2]


async def test_poison_records(cluster: Cluster, topic: str) -> None:
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap})
    for value in (b"1", b"poison", b"3"):
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "auto_offset_reset": "earliest",
        "value_deserializer": "json",
    }
    async with Consumer(topic, **options, on_deserialize_error="skip") as c:
        assert [record.value for record in await read(c, 2)] == [1, 3]
        assert c.skipped == 1
    async with Consumer(topic, **options, on_deserialize_error="yield") as c:
        found = await read(c, 3)
        assert [record.value for record in found] == [1, b"poison", 3]
        assert isinstance(found[1].error, RecordDeserializationError)
    async with Consumer(topic, **options) as c:
        assert [record.value for record in await read(c, 1)] == [1]
        with pytest.raises(RecordDeserializationError):
            await c.getmany()
        c.seek(TopicPartition(topic, 0), 2)
        assert [record.value for record in await read(c, 1)] == [3]


async def test_poison_records_go_to_the_dead_letter_topic(cluster: Cluster, topic: str) -> None:
    dead = f"{topic}-dead"
    await asyncio.to_thread(cluster.create_topic, dead, 1)
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap})
    for value in (b"1", b"poison", b"3"):
        producer.produce(topic, value, b"k", partition=0)
    assert producer.flush(30) == 0
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    more: dict[str, Any] = {
        "value_deserializer": "json", "on_deserialize_error": "dead-letter", "dead_letter_topic": dead
    }  # fmt: skip
    async with Consumer(topic, **options, **more) as c:
        assert [record.value for record in await read(c, 2)] == [1, 3]
    async with Consumer(dead, options) as c:
        record = (await read(c, 1))[0]
    assert (record.key, record.value) == (b"k", b"poison")
    headers = dict(record.headers)
    assert (headers["rookery.topic"], headers["rookery.offset"]) == (topic.encode(), b"1")
    assert b"cannot be deserialized" in (headers["rookery.error"] or b"")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_codecs_of_librdkafka(cluster: Cluster, topic: str, codec: str) -> None:
    write(cluster, topic, 3000, compression_type=codec)
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as c:
        found = await read(c, 3000)
    assert values(found) == list(range(3000))
    for partition in range(3):
        assert [r.offset for r in found if r.partition == partition] == list(range(1000))


async def test_read_committed(cluster: Cluster, topic: str) -> None:
    producer = OtherProducer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"x-{topic}"})
    producer.init_transactions(30)
    for first, end in ((0, "commit"), (10, "abort"), (20, "commit")):
        producer.begin_transaction()
        for n in range(first, first + 10):
            producer.produce(topic, b"%d" % n, partition=0)
        assert producer.flush(30) == 0  # an abort drops what is not sent yet
        getattr(producer, f"{end}_transaction")(30)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
    async with Consumer(topic, **options, isolation_level="read_committed") as c:
        assert values(await read(c, 20)) == [*range(10), *range(20, 30)]
    async with Consumer(topic, **options) as c:
        assert values(await read(c, 30)) == list(range(30))


# --- the runner ---------------------------------------------------------------------------------------------


@pytest.mark.row(126)
async def test_a_run_keeps_the_order_of_keys_and_ends_by_a_signal(cluster: Cluster, topic: str) -> None:
    write(cluster, topic, 600)
    handled: dict[Any, list[int]] = {}
    running, most = 0, 0

    async def handle(record: Record[Any, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (record.offset % 3))
        handled.setdefault((record.partition, record.key), []).append(record.offset)
        running -= 1
        if sum(map(len, handled.values())) == 500:
            os.kill(os.getpid(), signal.SIGTERM)

    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
    }
    async with Consumer(topic, **options) as c:
        async with asyncio.timeout(60):
            await c.run(handle, concurrency=8)
        committed = await c.committed()
    assert most == 8
    assert all(offsets == sorted(offsets) for offsets in handled.values())
    done = {(partition, n) for (partition, _), offsets in handled.items() for n in offsets}
    assert len(done) == sum(map(len, handled.values())) >= 500
    for tp, each in committed.items():
        assert all((tp.partition, n) in done for n in range(each.offset if each else 0))
    async with Consumer(topic, **options) as c:
        rest = await read(c, 600 - sum(each.offset for each in committed.values() if each))
    assert done | {(record.partition, record.offset) for record in rest} == {
        (n % 3, n // 3) for n in range(600)
    }


@pytest.mark.row(126)
async def test_a_run_ends_with_the_handlers_error_and_commits_nothing_behind_it(
    cluster: Cluster, topic: str
) -> None:
    write(cluster, topic, 30)

    async def handle(record: Record[Any, Any]) -> None:
        if record.partition == 1 and record.offset == 4:
            raise ValueError("cannot handle this")

    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"g-{topic}",
        "auto_offset_reset": "earliest",
    }
    async with Consumer(topic, **options) as c:
        with pytest.raises(ValueError, match="cannot handle this"):
            async with asyncio.timeout(60):
                await c.run(handle, concurrency=4, order_by="partition")
        committed = (await c.committed(TopicPartition(topic, 1)))[TopicPartition(topic, 1)]
        assert committed is None or committed.offset <= 4
