"""Positions: the group's commits, the rules without one, and what a new leader says about what was read."""

import asyncio
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from rookery.client.consumer.fetches import Fetches, FetchLimits, Leader
from rookery.client.consumer.lookups import EpochEnd, OffsetAtTime
from rookery.client.consumer.partition import EARLIEST, LATEST, Partition, Phase
from rookery.client.consumer.positions import LogTruncationError, Positions, wait_for_position
from rookery.client.errors import NoOffsetError
from rookery.client.types import OffsetAndMetadata, TopicPartition
from rookery.core.errors import NotLeaderOrFollowerError
from rookery.core.net.backoff import BackoffSettings
from rookery.core.testing.clock import ManualClock

TP = TopicPartition("t", 0)


class World:
    """One partition; the answers of coordinator and leader are set by the test."""

    def __init__(self, reset: str, *, group: bool = True) -> None:
        self.committed: OffsetAndMetadata | None = None
        self.times: dict[int, int] = {EARLIEST: 3, LATEST: 20}
        self.end = EpochEnd(1, 100)
        self.failures = 0
        self.asked: list[int] = []
        self.fetches = Fetches(FetchLimits())
        self.partition = self.fetches.partitions[TP] = Partition(TP)
        leader = Leader(1, 5, UUID(int=1))
        metadata: Any = SimpleNamespace(leader=lambda _: leader, request=lambda: None)
        lookups: Any = SimpleNamespace(at_times=self._at_times, epoch_ends=self._epoch_ends)
        offsets: Any = SimpleNamespace(committed=self._committed) if group else None
        self.positions = Positions(
            self.fetches,
            metadata,
            lookups,
            offsets,
            reset=reset,
            clock=ManualClock(),
            backoff=BackoffSettings(0.001, 0.002),
            rng=Random(1),
            on_found=lambda: None,
        )

    async def _committed(
        self, places: Any, _timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return dict.fromkeys(places, self.committed)

    async def _at_times(self, times: Mapping[TopicPartition, int]) -> Any:
        self.asked += times.values()
        if self.failures:
            self.failures -= 1
            return {}, NotLeaderOrFollowerError()
        return {tp: OffsetAtTime(self.times.get(time, -1), time, 5) for tp, time in times.items()}, None

    async def _epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Any:
        return dict.fromkeys(epochs, self.end), None

    async def settle(self) -> int:
        task = asyncio.create_task(self.positions.run())
        try:
            return await wait_for_position(self.positions, self.partition, 5.0)
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def validate(self) -> None:
        task = asyncio.create_task(self.positions.run())
        async with asyncio.timeout(5):
            while self.partition.phase is Phase.VALIDATE:
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])


async def test_the_committed_offset_comes_first() -> None:
    world = World("earliest")
    world.committed = OffsetAndMetadata(7, "", 2)
    assert await world.settle() == 7
    assert world.partition.fetch_epoch == 2


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize(("rule", "position"), [("earliest", 3), ("latest", 20)])
async def test_rules_without_a_commit(rule: str, position: int, group: bool) -> None:
    assert await World(rule, group=group).settle() == position


async def test_a_time_after_the_last_record_means_the_end() -> None:
    world = World("by_duration:PT1S")
    assert await world.settle() == 20
    assert world.asked[-1] == LATEST


async def test_no_rule_is_an_error_until_the_user_seeks() -> None:
    world = World("none")
    with pytest.raises(NoOffsetError):
        await world.settle()
    world.partition.seek(5)
    assert await world.settle() == 5


async def test_failures_that_pass_are_waited_out() -> None:
    world = World("earliest")
    world.failures = 3
    assert await world.settle() == 3
    assert len(world.asked) == 4


def after_a_change_of_leader(rule: str) -> World:
    world = World(rule)
    world.partition.seek(10, leader_epoch=2)
    world.partition.saw_leader(5)
    assert world.partition.phase is Phase.VALIDATE
    return world


async def test_a_leader_with_the_same_history_confirms() -> None:
    world = after_a_change_of_leader("earliest")
    world.end = EpochEnd(2, 10)
    await world.validate()
    assert (world.partition.phase, world.partition.position, world.partition.leader_epoch) == (
        Phase.FETCH,
        10,
        5,
    )


async def test_reading_goes_on_where_histories_part() -> None:
    world = after_a_change_of_leader("earliest")
    world.end = EpochEnd(1, 6)
    await world.validate()
    assert (world.partition.position, world.partition.fetch_epoch) == (6, 1)


async def test_truncation_is_an_error_without_a_rule() -> None:
    world = after_a_change_of_leader("none")
    world.end = EpochEnd(1, 6)
    await world.validate()
    assert isinstance(world.partition.problem, LogTruncationError)
    assert "parts from that at offset 6" in str(world.partition.problem)
