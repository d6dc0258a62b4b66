"""Parked requests: woken once per pass, timed out once, and gone when they are done."""

from collections.abc import Sequence

import pytest

from rookery.broker.replication.waiters import (
    ANYTHING,
    APPENDED,
    COMMITTED,
    FOR_APPENDED,
    FOR_COMMITTED,
    OTHERWISE,
    RECENT,
    Parked,
    Waiters,
)
from tests.unit.broker.server.fakes import FakeScheduler


class Recorder:
    """Done when told to be; remembers what it was asked."""

    def __init__(self, kind: str = "Fetch") -> None:
        self.kind = kind
        self.done = False
        self.broken = False
        self.looks: list[list[str]] = []
        self.expired = 0
        self.failed: list[Exception] = []

    def try_complete(self, changed: Sequence[str]) -> bool:
        self.looks.append(list(changed))
        if self.broken:
            raise ZeroDivisionError("a bug")
        return self.done

    def expire(self) -> None:
        self.expired += 1

    def fail(self, error: Exception) -> None:
        self.failed.append(error)


def rig() -> tuple[FakeScheduler, Waiters[str]]:
    scheduler = FakeScheduler()
    return scheduler, Waiters(scheduler)


def park(waiters: Waiters[str], waiter: Recorder, keys: Sequence[str], timeout_s: float) -> Parked[str]:
    """Park somebody who has to wait; the look that comes with it is not counted."""
    parked = waiters.park(waiter, keys, timeout_s)
    assert parked is not None
    assert waiter.looks == [list(dict.fromkeys(keys))]
    waiter.looks.clear()
    return parked


def test_who_parks_is_looked_at_once_it_is_parked() -> None:
    """What it waits for may have happened before, and then nobody wakes it."""
    scheduler, waiters = rig()
    waiter = Recorder()
    waiter.done = True
    assert waiters.park(waiter, ["a", "b"], 10.0) is None
    assert (waiter.looks, waiters.size("Fetch"), scheduler.timers) == ([["a", "b"]], 0, 0)
    waiters.wake("a")
    scheduler.advance(20.0)
    assert (len(waiter.looks), waiter.expired) == (1, 0)
    assert not waiters.forget(None)


def test_what_happens_during_the_first_look_is_not_missed() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    look = waiter.try_complete

    def look_and_wake(changed: Sequence[str]) -> bool:
        if not waiter.looks:
            waiters.wake("a")
        return look(changed)

    waiter.try_complete = look_and_wake  # type: ignore[method-assign]
    waiters.park(waiter, ["a"], 10.0)
    waiter.done = True
    scheduler.run()
    assert (len(waiter.looks), waiters.size("Fetch")) == (2, 0)


def test_who_breaks_at_the_first_look_leaves_nothing_behind() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    waiter.broken = True
    assert waiters.park(waiter, ["a"], 10.0) is None
    assert [type(error) for error in waiter.failed] == [ZeroDivisionError]
    assert (waiters.size("Fetch"), scheduler.timers) == (0, 0)


def test_many_changes_cost_one_look_in_one_pass() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    park(waiters, waiter, ["a", "b", "c"], 10.0)
    for _ in range(100):
        waiters.wake("a")
        waiters.wake("b")
    assert waiter.looks == [], "nobody is answered from inside an append"
    scheduler.run()
    assert waiter.looks == [["a", "b"]]
    assert scheduler.passes == 1


def test_what_nobody_waits_for_costs_nothing() -> None:
    scheduler, waiters = rig()
    park(waiters, Recorder(), ["a"], 10.0)
    waiters.wake("b")
    assert scheduler.is_idle


@pytest.mark.row(140)
def test_done_requests_leave_with_their_timer() -> None:
    scheduler, waiters = rig()
    waiter = Recorder("Produce")
    park(waiters, waiter, ["a", "b"], 10.0)
    assert (waiters.size("Produce"), waiters.size("Fetch")) == (1, 0)
    waiter.done = True
    waiters.wake("a")
    scheduler.run()
    assert (waiters.size("Produce"), scheduler.timers) == (0, 0)
    waiters.wake("b")
    scheduler.advance(20.0)
    assert (len(waiter.looks), waiter.expired) == (1, 0)


def test_a_request_times_out_once() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    park(waiters, waiter, ["a"], 0.5)
    scheduler.advance(0.4)
    assert waiter.expired == 0
    waiters.wake("a")
    scheduler.advance(10.0)
    waiters.wake("a")
    scheduler.run()
    assert (waiter.expired, len(waiter.looks), waiters.size("Fetch")) == (1, 2, 0)


def test_what_has_happened_before_the_time_is_up_counts() -> None:
    """After a stall the timer rings before anybody comes to look."""
    scheduler, waiters = rig()
    waiter = Recorder("Produce")
    parked = park(waiters, waiter, ["a", "b"], 0.5)
    waiters.wake("b")
    waiter.done = True
    waiters.expire(parked)
    assert (waiter.expired, waiter.looks, waiters.size("Produce")) == (0, [["b"]], 0)
    scheduler.advance(1.0)
    waiters.expire(parked)
    assert (waiter.expired, len(waiter.looks)) == (0, 1)


def test_a_forgotten_request_gets_nothing_more() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    parked = park(waiters, waiter, ["a"], 0.5)
    waiters.wake("a")
    assert waiters.forget(parked)
    assert not waiters.forget(parked)
    scheduler.advance(10.0)
    assert (waiter.looks, waiter.expired) == ([], 0)


def test_a_broken_request_does_not_keep_others_from_being_looked_at() -> None:
    scheduler, waiters = rig()
    broken, fine = Recorder(), Recorder()
    park(waiters, broken, ["a"], 1.0)
    park(waiters, fine, ["a"], 1.0)
    broken.broken = fine.done = True
    waiters.wake("a")
    scheduler.run()
    assert [type(error) for error in broken.failed] == [ZeroDivisionError]
    assert (len(fine.looks), waiters.size("Fetch")) == (1, 0)


def test_a_request_may_wait_for_the_same_thing_twice() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    park(waiters, waiter, ["a", "a"], 1.0)
    waiter.done = True
    waiters.wake("a")
    scheduler.run()
    assert waiter.looks == [["a"]]
    assert waiters.size("Fetch") == 0


def test_waking_from_within_a_look_takes_another_pass() -> None:
    scheduler, waiters = rig()
    first, second = Recorder(), Recorder()
    park(waiters, second, ["b"], 1.0)
    park(waiters, first, ["a"], 1.0)
    look = first.try_complete

    def look_and_wake(changed: Sequence[str]) -> bool:
        waiters.wake("b")
        return look(changed)

    first.try_complete = look_and_wake  # type: ignore[method-assign]
    waiters.wake("a")
    scheduler.run()
    assert (len(first.looks), len(second.looks), scheduler.passes) == (1, 1, 2)


def test_who_knows_that_nothing_has_changed_since_its_decision_is_not_looked_at() -> None:
    scheduler, waiters = rig()
    first, second = Recorder(), Recorder()
    as_of = waiters.changes
    waiters.park(first, ["a"], 10, as_of=as_of)
    assert first.looks == []
    waiters.wake("b")
    waiters.park(second, ["a", "b"], 10, as_of=as_of)
    assert second.looks == [["b"]]
    scheduler.run()
    assert first.looks == []


def test_who_has_missed_many_changes_is_asked_about_all_it_waits_for() -> None:
    _, waiters = rig()
    waiter = Recorder()
    as_of = waiters.changes
    for number in range(RECENT + 1):
        waiters.wake(str(number))
    waiters.park(waiter, ["a", "b"], 10, as_of=as_of)
    assert waiter.looks == [["a", "b"]]


def test_a_wait_during_which_nothing_has_changed_ends_without_a_look() -> None:
    scheduler, waiters = rig()
    waiter = Recorder()
    waiters.park(waiter, ["a"], 10, as_of=waiters.changes)
    scheduler.advance(10)
    assert (waiter.looks, waiter.expired) == ([], 1)


def test_only_those_are_asked_whom_a_change_concerns() -> None:
    scheduler, waiters = rig()
    follower, producer, anybody = Recorder("follower"), Recorder("Produce"), Recorder("any")
    for waiter, waits_for in ((follower, FOR_APPENDED), (producer, FOR_COMMITTED), (anybody, ANYTHING)):
        assert waiters.park(waiter, ["a"], 10.0, as_of=waiters.changes, waits_for=waits_for) is not None

    def asked() -> tuple[int, int, int]:
        scheduler.run()
        counts = len(follower.looks), len(producer.looks), len(anybody.looks)
        for each in (follower, producer, anybody):
            each.looks.clear()
        return counts

    waiters.wake("a", APPENDED)
    assert asked() == (1, 0, 1)
    waiters.wake("a", COMMITTED)
    assert asked() == (0, 1, 1)
    waiters.wake("a", APPENDED)
    waiters.wake("a", COMMITTED)
    assert asked() == (1, 1, 1), "both, and each once"
    waiters.wake("a", OTHERWISE)
    assert asked() == (1, 1, 1)
    waiters.wake("a")
    assert asked() == (1, 1, 1)
