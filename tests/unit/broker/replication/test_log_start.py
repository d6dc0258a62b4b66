"""Replication goes on while logs are shortened at their beginning, whoever does it and for whatever reason."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import HIGH_WATERMARK
from rookery.broker.log.retention import Retention
from rookery.broker.replication.partition import Partition
from rookery.core.config.options import LONG_MAX
from rookery.core.log import LogConfig
from tests.unit.broker.replication.pair import LEADER, Pair, key_of, led, running_pair
from tests.unit.broker.waiting import until

SEGMENT = 1000
KEEP = Retention(True, -1, -1)
SMALL = TopicLogConfig(log=LogConfig(segment_bytes=SEGMENT, index_interval_bytes=64), retention=KEEP)
BY_TIME = replace(SMALL, retention=Retention(True, 2000, -1))
BY_SIZE = replace(SMALL, retention=Retention(True, -1, 2 * SEGMENT))
COMPACTED = replace(
    SMALL, compact=True, retention=Retention(True, 2000, -1), compaction=CompactionPolicy(0.1, 0, LONG_MAX)
)

Shorten = Callable[[Pair, Partition], Awaitable[None]]


async def by_time(pair: Pair, follower: Partition) -> None:
    pair.clock.advance(3)
    await pair.keeper.delete_old_segments()


async def by_size(pair: Pair, follower: Partition) -> None:
    await pair.keeper.delete_old_segments()


async def by_request(pair: Pair, follower: Partition) -> None:
    pair.leader().log.delete_records(HIGH_WATERMARK)
    await until(lambda: follower.log.start_offset == pair.leader().log.start_offset)


async def by_request_after_own_retention(pair: Pair, follower: Partition) -> None:
    follower.log.delete_records(10)
    await by_request(pair, follower)


async def by_compaction(pair: Pair, follower: Partition) -> None:
    found = await pair.cleaner.dirtiest()
    assert found is not None
    await pair.cleaner.clean(*found)
    assert follower.log.clean_offset is not None
    await by_time(pair, follower)


@pytest.mark.invariant("P8", "P15")
@pytest.mark.parametrize(
    ("config", "shorten"),
    [
        (BY_TIME, by_time),
        (BY_SIZE, by_size),
        (SMALL, by_request),
        (SMALL, by_request_after_own_retention),
        (COMPACTED, by_compaction),
    ],
    ids=["time", "size", "DeleteRecords", "DeleteRecords after retention", "compaction"],
)
async def test_replication_goes_on_after_the_follower_deleted(
    tmp_path: Path, config: TopicLogConfig, shorten: Shorten
) -> None:
    async with running_pair(tmp_path, config) as pair:
        follower = await pair.follow()
        for _ in range(3):
            started = follower.log.start_offset
            pair.produce(50)
            await pair.replicated()
            await until(lambda: follower.log.high_watermark == pair.leader().log.high_watermark)
            await shorten(pair, follower)
            assert follower.log.start_offset > started
            pair.produce(1)
            await pair.replicated()
        assert pair.failed == []


@pytest.mark.invariant("P8")
async def test_an_answer_under_way_while_the_follower_deletes_is_taken(tmp_path: Path) -> None:
    """The deletion falls between each request and its answer, on all partitions of a session at once."""
    async with running_pair(tmp_path, BY_TIME, partitions=12) as pair:
        followers = [await pair.follow(index) for index in range(12)]
        for _ in range(3):
            for index in range(12):
                pair.produce(30, index=index)
            for index in range(12):
                await pair.replicated(index)
            await until(lambda: all(f.log.high_watermark == f.log.end_offset for f in followers))
            pair.clock.advance(3)
            await pair.keeper.delete_old_segments()
            assert all(f.log.start_offset > 0 for f in followers)


async def test_a_replica_that_is_added_catches_up_while_both_delete(tmp_path: Path) -> None:
    """As in a reassignment: it begins empty, at an offset that its leader has deleted, and again when that moves."""
    async with running_pair(tmp_path, BY_TIME) as pair:
        leader = pair.leader()
        leader.apply(led(isr=(LEADER,)))
        pair.produce(50)
        leader.log.delete_records(35)
        follower = await pair.follow(state=led(isr=(LEADER,)))
        await until(lambda: follower.log.end_offset == 50)
        pair.clock.advance(3)
        await pair.keeper.delete_old_segments()
        assert follower.log.start_offset > 35
        pair.produce(20)
        await until(lambda: follower.log.end_offset == 70)
        leader.apply(led()._replace(partition_epoch=2))
        pair.produce(1)
        await pair.replicated()
        assert pair.failed == []


async def test_a_leader_learns_of_the_log_start_of_an_idle_follower(tmp_path: Path) -> None:
    """It sends consumers to followers that have what they ask for."""
    async with running_pair(tmp_path, BY_TIME, partitions=20) as pair:
        followers = [await pair.follow(index) for index in range(20)]
        for index in range(20):
            pair.produce(30, index=index)
        for index in range(20):
            await pair.replicated(index)
        await until(lambda: all(f.log.high_watermark == f.log.end_offset for f in followers))
        pair.clock.advance(3)
        await pair.keeper.delete_old_segments()
        assert all(each.log.start_offset > 0 for each in followers)
        starts = [each.log.start_offset for each in followers]
        await until(lambda: [pair.told_start(each.index) for each in followers] == starts)


@pytest.mark.invariant("P8", "P5")
async def test_what_a_dropped_answer_reported_is_reported_again(tmp_path: Path) -> None:
    """A leader tells of a high watermark once: when the follower could not take that answer, it must not count."""
    async with running_pair(tmp_path, SMALL) as pair:
        follower = await pair.follow()
        pair.produce(5)
        await pair.replicated()
        await until(lambda: follower.log.high_watermark == 5)
        pair.produce(5)
        await pair.replicated()
        may_go_on = asyncio.Event()
        follower._begin_cut(may_go_on.wait())
        await until(lambda: key_of(follower) in pair.fetcher._suspended)
        may_go_on.set()
        await until(lambda: follower.log.high_watermark == 10)
