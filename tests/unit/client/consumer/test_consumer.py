"""What a consumer's calls leave behind when they are cancelled, fail, or find nothing."""

import asyncio
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from rookery.client.consumer.commits import Commits
from rookery.client.consumer.consumer import Consumer
from rookery.client.consumer.fetches import Fetches, FetchLimits, Leader
from rookery.client.consumer.offsets import GroupOffsets
from rookery.client.consumer.options import consumer_settings
from rookery.client.consumer.partition import Partition
from rookery.client.consumer.runner import Runner
from rookery.client.errors import IllegalStateError, KafkaTimeoutError, RetriableError
from rookery.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from rookery.client.types import Record as UserRecord
from rookery.core.net.backoff import BackoffSettings
from rookery.core.wire.apis.fetch import PartitionData
from rookery.core.wire.records import Record, build_batch

TP = TopicPartition("t", 0)
SETTINGS = consumer_settings({"bootstrap_servers": "localhost:1", "group_id": "g"}, {})


def consumer(**options: Any) -> Consumer:
    """Without a cluster: one partition, to be filled by `fill`."""
    made = Consumer(bootstrap_servers="localhost:1", **options)
    made.assign([TP])
    made._fetches.partitions[TP].seek(0)
    nothing = SimpleNamespace(notify=lambda: None)
    engine: Any = SimpleNamespace(crash=None, group=None, fetcher=nothing, positions=nothing)
    made._engine_or_none = engine
    return made


def fill(fetches: Fetches, values: list[bytes]) -> None:
    records = [Record(number, 1000, None, value) for number, value in enumerate(values)]
    wanted, _ = fetches.plan(1, lambda _: Leader(1, 3, UUID(int=9)), 0.0)
    data = PartitionData(partition_index=0, high_watermark=99, records=bytes(build_batch(records, leader_epoch=3)))
    fetches.answered(TP, wanted[TP], fetches.partitions[TP].incarnation, data, 1)


async def test_calls_without_a_timeout_let_other_tasks_run() -> None:
    reader = consumer()
    ran: list[int] = []
    asyncio.get_running_loop().call_soon(ran.append, 1)
    assert await reader.getmany(timeout_ms=0) == []
    assert ran == [1]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_records_are_read_again_if_a_dead_letter_could_not_be_sent(cancelled: bool) -> None:
    reader = consumer(value_deserializer=int, on_deserialize_error="dead-letter", dead_letter_topic="d")
    fill(reader._fetches, [b"0", b"1", b"x", b"3"])
    kept: list[Any] = []

    async def fails(records: Any) -> None:
        if cancelled:
            await asyncio.sleep(60)
        raise KafkaTimeoutError("no broker")

    async def works(records: Any) -> None:
        kept.extend(record.offset for record, _ in records)

    letters: Any = reader._unreadable
    letters._send = fails
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.getmany(), 0.05)
    assert await reader.position(TP) == 0
    letters._send = works
    fill(reader._fetches, [b"0", b"1", b"x", b"3"])
    assert [record.value for record in await reader.getmany()] == [0, 1, 3]
    assert kept == [2]
    assert reader.skipped == 1


async def test_a_listener_cannot_wait_for_itself() -> None:
    reader = consumer()
    reader._rebalancing = asyncio.current_task()
    with pytest.raises(IllegalStateError, match="must not unsubscribe"):
        async with asyncio.timeout(1):
            await reader.unsubscribe()


def group_offsets(cluster: Any = None) -> GroupOffsets:
    return GroupOffsets(
        cluster,
        "g",
        member=lambda: None,
        backoff=BackoffSettings(0.001, 0.002),
        rng=Random(1),
        timeout_s=60,
        require_stable=False,
    )


async def test_commits_have_the_order_of_the_calls() -> None:
    sent: list[int] = []

    class Sender:
        def __init__(self) -> None:
            self._turns = asyncio.Lock()

        async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *_: Any, **__: Any) -> None:
            async with self._turns:
                await asyncio.sleep(0)
                sent.append(offsets[TP].offset)

    commits = Commits(Fetches(FetchLimits()), SETTINGS)
    sender: Any = Sender()
    commits.start(sender)
    commits.commit_async({TP: 5}, None)
    await commits.commit({TP: 9})
    assert sent == [5, 9]


async def test_the_time_of_a_commit_includes_the_wait_for_the_one_before() -> None:
    offsets = group_offsets()
    await offsets._turns.acquire()
    with pytest.raises(KafkaTimeoutError, match="for the one before it"):
        await asyncio.wait_for(offsets.commit({TP: OffsetAndMetadata(1)}, 0.02), 2)


@pytest.mark.row(115)
async def test_a_commit_in_the_background_reports_a_node_that_cannot_be_reached() -> None:
    """The socket's own error, too: the callback is called once, and no exception is left in a task."""
    told: list[Exception | None] = []

    async def refused(*_: Any, **__: Any) -> Any:
        raise ConnectionRefusedError("nothing answers at localhost:1")

    offsets = group_offsets(SimpleNamespace(coordinator=refused, forget_coordinator=lambda *_: None))
    offsets._member = lambda: GroupMetadata("g")
    commits = Commits(Fetches(FetchLimits()), SETTINGS)
    commits.start(offsets)
    await commits.commit_async({TP: 5}, lambda _, error: told.append(error))
    assert [type(error) for error in told] == [RetriableError]
    assert "localhost:1" in str(told[0])


@pytest.mark.row(112)
async def test_an_iteration_that_waits_for_records_commits_what_it_handed_out() -> None:
    """Who waits for the next record has processed the one before, though none may come for hours."""
    reader = consumer(group_id="g", auto_commit_interval_ms=1)
    fill(reader._fetches, [b"0", b"1"])
    sent: list[int] = []

    async def commit(given: Mapping[TopicPartition, OffsetAndMetadata], *_: Any) -> None:
        sent.append(given[TP].offset)

    sender: Any = SimpleNamespace(commit=commit)
    reader._commits.start(sender)
    watching = asyncio.create_task(reader._watch.run())
    records = aiter(reader)
    assert [(await anext(records)).value for _ in range(2)] == [b"0", b"1"]
    waiting = asyncio.ensure_future(anext(records))
    async with asyncio.timeout(10):
        while 2 not in sent:
            await asyncio.sleep(0.01)
    for task in (waiting, watching):
        task.cancel()
    await asyncio.wait((waiting, watching))


async def test_a_runner_forgets_partitions_that_were_lost() -> None:
    record = UserRecord("t", 0, 0, 0, b"k", b"")
    asked = asyncio.Event()
    stopped = asyncio.Event()
    handled: list[int] = []

    async def getmany(**_: Any) -> list[Any]:
        if not asked.is_set():
            asked.set()
            return [record, record._replace(offset=1)]
        await stopped.wait()
        return []

    async def handler(each: Any) -> None:
        await asyncio.sleep(0.01)
        handled.append(each.offset)

    fetches = Fetches(FetchLimits())
    fetches.partitions[TP] = Partition(TP)
    commits = Commits(fetches, SETTINGS)
    world: Any = SimpleNamespace(getmany=getmany, closed=False, assignment=frozenset())
    runner = Runner(world, commits, handler, 1, "key", 1.0)
    running = asyncio.create_task(runner.run(handle_signals=False))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    commits.lost([TP])
    await asyncio.sleep(0.05)
    assert handled == [0]
    assert runner._order.finished() == {}
    runner.stop()
    stopped.set()
    await running


@pytest.mark.parametrize("fails", [False, True])
async def test_an_error_in_the_users_code_commits_nothing_at_the_end(fails: bool) -> None:
    reader = consumer(group_id="g")
    fill(reader._fetches, [b"0", b"1"])
    sent: list[int] = []

    async def commit(offsets: Mapping[TopicPartition, OffsetAndMetadata], *_: Any) -> None:
        sent.append(offsets[TP].offset)

    async def nothing() -> None:
        return

    sender: Any = SimpleNamespace(commit=commit)
    reader._commits.start(sender)
    engine: Any = reader._engine
    engine.stop = engine.fetcher.end_sessions = nothing
    engine.close = lambda: None
    assert len(await reader.getmany()) == 2
    error = ValueError("a record cannot be processed") if fails else None
    await reader.__aexit__(type(error) if error else None, error, None)
    assert sent == ([] if fails else [2])
