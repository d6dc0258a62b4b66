"""Answers that wait for the high watermark, and calls that come in time."""

from typing import Any

import pytest

from rookery.broker.coordination.alarms import Alarms
from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.reply import Gather
from rookery.broker.coordination.step import Answer
from rookery.broker.replication.waiters import Waiters
from rookery.core.errors import ErrorCode, NotCoordinatorError
from rookery.core.types import TopicPartition
from tests.unit.broker.coordination.by_hand import ByHand
from tests.unit.broker.groups.driver import Caller


class FakeLog:
    def __init__(self) -> None:
        self.end_offset = 0
        self.high_watermark = 0


class FakePartition:
    """As much of a partition as the queue looks at."""

    stranded = False

    def __init__(self) -> None:
        self.log = FakeLog()
        self.topic_partition = TopicPartition("__consumer_offsets", 0)


class Setup:
    def __init__(self) -> None:
        self.partition = FakePartition()
        self.time = ByHand()
        self.waiters: Waiters[Any] = Waiters(self.time)
        self.queue = CommitQueue(self.waiters, self.partition, 5.0, self.time.time)  # type: ignore[arg-type]

    def give(self, response: object) -> Caller:
        caller = Caller()
        self.queue.add([Answer(caller, response)])
        return caller

    def commit(self, offset: int) -> None:
        self.partition.log.high_watermark = offset
        self.waiters.wake(self.partition)
        self.time.wait()


@pytest.mark.invariant("G3")
def test_answers_wait_until_all_that_was_written_is_committed() -> None:
    setup = Setup()
    assert setup.give("at once").response == "at once"
    setup.partition.log.end_offset = 5
    first = setup.give("first")
    setup.partition.log.end_offset = 8
    second = setup.give("second")
    setup.commit(4)
    assert first.waiting
    setup.commit(5)
    assert first.response == "first"
    assert second.waiting
    setup.commit(8)
    assert second.response == "second"
    assert setup.waiters.size("Coordinator") == 0


def test_an_answer_never_overtakes_another() -> None:
    setup = Setup()
    setup.partition.log.end_offset = 5
    first = setup.give("first")
    setup.partition.log.high_watermark = 5
    second = setup.give("second")
    assert second.waiting
    setup.commit(5)
    assert (first.response, second.response) == ("first", "second")


def test_what_is_not_committed_in_time_is_refused() -> None:
    setup = Setup()
    setup.partition.log.end_offset = 5
    late = setup.give("late")
    setup.time.wait(3)
    later = setup.give("later")
    setup.time.wait(2)
    assert late.response is ErrorCode.REQUEST_TIMED_OUT
    assert later.waiting
    setup.commit(5)
    assert later.response == "later"


def test_who_waits_at_a_broker_that_is_cut_off_is_informed() -> None:
    setup = Setup()
    setup.partition.log.end_offset = 5
    waiting = [setup.give(number) for number in range(2)]
    setup.partition.stranded = True
    setup.commit(4)
    assert [caller.response for caller in waiting] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert setup.waiters.size("Coordinator") == 0
    setup.partition.stranded = False
    later = setup.give("later")
    setup.commit(5)
    assert later.response == "later"
    assert [caller.answers for caller in waiting] == [1, 1]


def test_the_last_of_several_has_its_whole_time() -> None:
    """The timer that was set for an answer already given rings early for those behind it."""
    setup = Setup()
    setup.partition.log.end_offset = 5
    setup.give("early")
    setup.partition.log.end_offset = 8
    setup.time.wait(4)
    last = setup.give("last")
    setup.commit(5)
    setup.time.wait(4.9)
    assert last.waiting
    setup.time.wait(0.2)
    assert last.response is ErrorCode.REQUEST_TIMED_OUT


def test_a_shard_that_is_lost_refuses_what_it_owes() -> None:
    setup = Setup()
    setup.partition.log.end_offset = 5
    owed = [setup.give(number) for number in range(3)]
    setup.queue.close(NotCoordinatorError("led elsewhere"))
    assert {caller.response for caller in owed} == {ErrorCode.NOT_COORDINATOR}
    setup.commit(5)
    assert [caller.answers for caller in owed] == [1, 1, 1]


def test_alarms_ring_by_the_earliest_time_they_were_set_for() -> None:
    time = ByHand()
    rung: list[str] = []
    alarms: Alarms[str] = Alarms(time, rung.append)
    alarms.set("a", 100_000, 0)
    alarms.set("a", 10, 0)
    alarms.set("a", 50_000, 0)
    alarms.set("never", None, 0)
    alarms.set("late", 0, 5)
    time.wait(0.009)
    assert rung == ["late"]
    time.wait(0.002)
    assert rung == ["late", "a"]
    alarms.set("a", 20, 11)
    alarms.clear()
    time.wait(1000)
    assert rung == ["late", "a"]


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
