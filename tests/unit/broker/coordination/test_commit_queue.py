"""Answers that wait for the high watermark."""

import asyncio
from typing import Any

import pytest

from rookery.broker.coordination.alarms import Alarms
from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.gather import Gather
from rookery.broker.coordination.step import Answer
from rookery.broker.replication.waiters import Waiters
from rookery.core.errors import ErrorCode, NotCoordinatorError
from rookery.core.types import TopicPartition
from tests.unit.broker.groups.driver import Caller


class FakeLog:
    def __init__(self) -> None:
        self.end_offset = 0
        self.high_watermark = 0


class FakePartition:
    """As much of a partition as the queue looks at."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.topic_partition = TopicPartition("__consumer_offsets", 0)


class Setup:
    def __init__(self, timeout_s: float = 5.0) -> None:
        self.partition = FakePartition()
        loop = asyncio.get_running_loop()
        self.waiters: Waiters[Any] = Waiters(loop)
        self.queue = CommitQueue(self.waiters, self.partition, timeout_s, loop.time)  # type: ignore[arg-type]

    def give(self, response: object) -> Caller:
        caller = Caller()
        self.queue.give([Answer(caller, response)])
        return caller

    async def commit(self, offset: int) -> None:
        self.partition.log.high_watermark = offset
        self.waiters.wake(self.partition)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.mark.invariant("G3")
async def test_answers_wait_until_all_that_was_written_is_committed() -> None:
    setup = Setup()
    assert setup.give("at once").response == "at once"
    setup.partition.log.end_offset = 5
    first = setup.give("first")
    setup.partition.log.end_offset = 8
    second = setup.give("second")
    await setup.commit(4)
    assert first.waiting
    await setup.commit(5)
    assert first.response == "first"
    assert second.waiting
    await setup.commit(8)
    assert second.response == "second"
    assert setup.waiters.size("Coordinator") == 0


async def test_an_answer_never_overtakes_another() -> None:
    setup = Setup()
    setup.partition.log.end_offset = 5
    first = setup.give("first")
    setup.partition.log.high_watermark = 5
    second = setup.give("second")
    assert second.waiting
    setup.waiters.wake(setup.partition)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (first.response, second.response) == ("first", "second")


async def test_what_is_not_committed_in_time_is_refused() -> None:
    setup = Setup(timeout_s=0.05)
    setup.partition.log.end_offset = 5
    late = setup.give("late")
    await asyncio.sleep(0.03)
    later = setup.give("later")
    await asyncio.sleep(0.035)
    assert late.response is ErrorCode.REQUEST_TIMED_OUT
    assert later.waiting
    await setup.commit(5)
    assert later.response == "later"


async def test_a_shard_that_is_lost_refuses_what_it_owes() -> None:
    setup = Setup()
    setup.partition.log.end_offset = 5
    owed = [setup.give(number) for number in range(3)]
    setup.queue.close(NotCoordinatorError("led elsewhere"))
    assert {caller.response for caller in owed} == {ErrorCode.NOT_COORDINATOR}
    await setup.commit(5)
    assert [caller.answers for caller in owed] == [1, 1, 1]


async def test_alarms_ring_by_the_earliest_time_they_were_set_for() -> None:
    rung: list[str] = []
    alarms: Alarms[str] = Alarms(asyncio.get_running_loop(), rung.append)
    alarms.set("a", 100_000, 0)
    alarms.set("a", 10, 0)
    alarms.set("a", 50_000, 0)
    alarms.set("never", None, 0)
    alarms.set("cleared", 10, 0)
    alarms.set("b", 0, 5)
    await asyncio.sleep(0.005)
    alarms.clear()
    alarms.set("a", 10, 0)
    async with asyncio.timeout(5):
        while len(rung) < 2:
            await asyncio.sleep(0.005)
    assert rung == ["b", "a"]


def test_parts_leave_together_in_their_order() -> None:
    done: list[list[str]] = []
    gather: Gather[str] = Gather(2, done.append)
    gather.put(1, "second")
    gather.put(1, "again")
    assert done == []
    gather.put(0, "first")
    assert done == [["first", "second"]]
    Gather(0, done.append)
    assert done[-1] == []


