"""Effects leave a shard when the records that justify them are committed, and not before."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.shard import REPORT_AGAIN_S, Shard
from rookery.broker.coordination.step import Instant, Step
from rookery.broker.replication.waiters import Waiters
from rookery.core.errors import (
    ErrorCode,
    KafkaError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
)
from rookery.core.testing.clock import ManualClock
from rookery.core.types import TopicPartition
from tests.unit.broker.coordination.by_hand import ByHand
from tests.unit.broker.groups.driver import Caller

TIMEOUT_S = 5.0


class FakePartition:
    """A log that takes batches and is committed by hand."""

    stranded = False

    def __init__(self) -> None:
        config = SimpleNamespace(max_message_bytes=1000)
        self.log = SimpleNamespace(end_offset=0, high_watermark=0, config=config)
        self.topic_partition = TopicPartition("__state", 0)
        self.failure: KafkaError | None = None

    def append_own(self, batch: Any, epoch: int, now_ms: int, **_: object) -> Any:
        if self.failure is not None:
            raise self.failure
        base = self.log.end_offset
        self.log.end_offset += 1
        return SimpleNamespace(base_offset=base)


class Words:
    """A state of words; a loaded one owes whatever it was told of."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def replay(self, record: str, at: int, producer_id: int = -1) -> None:
        self.known.append(record)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        raise AssertionError

    def loaded(self, now: Instant) -> Step[str]:
        return Step(effects=list(self.known))

    def not_written(self, records: Any, error: ErrorCode, now: Instant) -> Step[str]:
        return Step()

    def abandon(self, error: ErrorCode) -> Step[str]:
        return Step()


class Setup:
    def __init__(self) -> None:
        self.partition = FakePartition()
        self.time = ByHand()
        self.waiters: Waiters[Any] = Waiters(self.time)
        self.done: list[str] = []
        partition: Any = self.partition
        self.commits = CommitQueue(self.waiters, partition, TIMEOUT_S, self.time.time, self.done.append)
        self.state = Words()
        self.lost = 0
        self.clock = ManualClock()
        self.shard: Shard[str] = Shard(
            partition, 1, self.state, lambda word: (b"", word.encode()), self.commits, self.clock,
            on_lost=self._lose,
        )  # fmt: skip

    def _lose(self, shard: Shard[Any]) -> None:
        self.lost += 1

    def say(self, *effects: str, record: str | None = "a record") -> Caller:
        caller = Caller()
        step: Step[str] = Step([] if record is None else [record], effects=list(effects))
        step.answer(caller, "done")
        self.shard.run(step)
        return caller

    def commit(self, offset: int) -> None:
        self.partition.log.high_watermark = offset
        self.waiters.wake(self.partition)
        self.time.wait()


@pytest.mark.invariant("T7")
def test_no_effect_leaves_before_its_record_is_committed() -> None:
    setup = Setup()
    first, second = setup.say("first"), setup.say("second", "third")
    setup.time.wait(1)
    assert setup.done == []
    setup.commit(1)
    assert (setup.done, first.response, second.waiting) == (["first"], "done", True)
    setup.commit(2)
    assert setup.done == ["first", "second", "third"]
    assert second.response == "done"
    assert setup.waiters.size("Coordinator") == 0


def test_an_effect_without_a_record_waits_for_all_before_it() -> None:
    setup = Setup()
    setup.say("at once", record=None)
    assert setup.done == ["at once"]
    setup.say()
    setup.say("behind", record=None)
    assert setup.done == ["at once"]
    setup.commit(1)
    assert setup.done == ["at once", "behind"]


@pytest.mark.invariant("T7")
def test_what_was_found_in_the_log_waits_for_the_end_of_the_log() -> None:
    """A new leader replays more than is committed: the end it found has to be committed first."""
    setup = Setup()
    setup.partition.log.end_offset = 7
    setup.partition.log.high_watermark = 4
    setup.state.known = ["found"]
    setup.shard.run(setup.shard.state.loaded(Instant(0, 0)))
    setup.commit(6)
    assert setup.done == []
    setup.commit(7)
    assert setup.done == ["found"]


def test_an_answer_that_is_late_takes_no_effect_with_it() -> None:
    """The record is in the log: when it is committed at last, its effect is due."""
    setup = Setup()
    caller = setup.say("late")
    setup.time.wait(TIMEOUT_S)
    assert caller.response is ErrorCode.REQUEST_TIMED_OUT
    setup.time.wait(10 * TIMEOUT_S)
    assert setup.done == []
    setup.commit(1)
    assert (setup.done, caller.answers) == (["late"], 1)
    assert setup.waiters.size("Coordinator") == 0


@pytest.mark.invariant("T7")
def test_a_lost_shard_drops_its_effects() -> None:
    setup = Setup()
    caller = setup.say("dropped")
    setup.shard.close()
    setup.commit(1)
    assert setup.done == []
    assert caller.response is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("failure", "lost"), [(NotEnoughReplicasError("too few"), 0), (NotLeaderOrFollowerError("led elsewhere"), 1)]
)
def test_what_is_not_written_has_no_effect(failure: KafkaError, lost: int) -> None:
    setup = Setup()
    setup.partition.failure = failure
    caller = setup.say("never")
    setup.commit(1)
    assert (setup.done, setup.lost) == ([], lost)
    assert caller.response is failure.code


def test_failing_writes_are_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()

    def logged(write: int) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            for _ in range(write):
                setup.say()
        return [record.getMessage().split()[0] for record in caplog.records]

    failed, resumed = "coordinator.write.failed", "coordinator.write.resumed"
    setup.partition.failure = NotEnoughReplicasError("too few")
    assert logged(write=100) == [failed]
    setup.clock.advance(REPORT_AGAIN_S)
    assert logged(write=100) == [failed]
    setup.partition.failure = MessageTooLargeError("too long")
    assert logged(write=2) == [failed], "another reason is reported too"
    setup.partition.failure = None
    assert logged(write=2) == [resumed]
    setup.partition.failure = NotEnoughReplicasError("too few")
    assert logged(write=2) == [failed]


class Broken(Caller):
    """Fails when it is answered."""

    def complete(self, response: Any) -> None:
        raise RuntimeError("the answer cannot be sent")


@pytest.mark.invariant("T7")
def test_an_answer_that_breaks_takes_no_effect_with_it() -> None:
    setup = Setup()
    step: Step[str] = Step(["a record"], effects=["sent"])
    step.answer(Broken(), "done")
    setup.shard.run(step)
    next_one = setup.say("next")
    setup.commit(2)
    assert setup.done == ["sent", "next"]
    assert next_one.response == "done"
