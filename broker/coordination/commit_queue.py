"""Answers and effects that wait until the log of their shard is committed up to where it ended when they were decided.

They wait in the order of their offsets, so one look at the oldest is enough; the shard takes one place among the
broker's waiters, however much waits in it. An answer waits for a limited time, because somebody waits for it. An effect
waits as long as it takes: its record is in the log, and only the loss of the shard takes it back.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.broker.coordination.step import Answer
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import FOR_COMMITTED, Parked, Waiters
from rookery.core.errors import KafkaError, RequestTimedOutError


@dataclass(slots=True)
class _Waiting:
    end: int
    until: float
    """For the answers."""
    answers: Sequence[Answer]
    effects: Sequence[Any]


class CommitQueue:
    """One per shard. `time` is the clock of the waiters' timers. `carry_out` takes an effect over; it must not fail."""

    kind = "Coordinator"

    def __init__(
        self,
        waiters: Waiters[Partition],
        partition: Partition,
        timeout_s: float,
        time: Callable[[], float],
        carry_out: Callable[[Any], None] | None = None,
    ) -> None:
        self._waiters = waiters
        self._partition = partition
        self._timeout_s = timeout_s
        self._time = time
        self._carry_out = carry_out
        self._waiting: deque[_Waiting] = deque()
        self._parked: Parked[Partition] | None = None

    def add(self, answers: Sequence[Answer], effects: Sequence[Any] = ()) -> None:
        """Give the answers and carry out the effects now if all that was written is committed, else when it is."""
        end = self._partition.log.end_offset
        waiting = _Waiting(end, self._time() + self._timeout_s, answers, effects)
        if not self._waiting and self._partition.log.high_watermark >= end:
            self._release(waiting)
        elif answers or effects:
            self._waiting.append(waiting)
            if self._parked is None:
                self._park()

    def _release(self, waiting: _Waiting) -> None:
        """Effects first, so that an answer that fails prevents none of them."""
        if self._carry_out is not None:
            for effect in waiting.effects:
                self._carry_out(effect)
        for to, response in waiting.answers:
            to.complete(response)

    def _park(self) -> None:
        """Until the first answer is late; effects alone are looked at again after the same time."""
        now = self._time()
        until = next((waiting.until for waiting in self._waiting if waiting.answers), now + self._timeout_s)
        self._parked = self._waiters.park(self, [self._partition], until - now, waits_for=FOR_COMMITTED)

    def close(self, error: KafkaError) -> None:
        """The shard is lost: answers are refused, effects dropped."""
        self._waiters.forget(self._parked)
        self._parked = None
        waiting = list(self._waiting)
        self._waiting.clear()
        self._refuse(waiting, error)

    def _refuse(self, late: Iterable[_Waiting], error: KafkaError) -> None:
        for waiting in late:
            answers, waiting.answers = waiting.answers, ()
            for to, _ in answers:
                to.refuse(error)

    # --- the waiters' calls -----------------------------------------------------------------------------------

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        committed = self._partition.log.high_watermark
        while self._waiting and self._waiting[0].end <= committed:
            self._release(self._waiting.popleft())
        if self._waiting and self._partition.stranded:
            place = self._partition.topic_partition
            cut_off = RequestTimedOutError(f"{place}: this broker is cut off from the other replicas")
            self._refuse(self._waiting, cut_off)
            self._waiting = deque(waiting for waiting in self._waiting if waiting.effects)
        if self._waiting:
            return False
        self._parked = None
        return True

    def expire(self) -> None:
        """The oldest answer has waited for too long, or did when this timer was set."""
        self._parked = None
        now = self._time()
        late = [waiting for waiting in self._waiting if waiting.until <= now]
        place = self._partition.topic_partition
        self._refuse(late, RequestTimedOutError(f"{place}: not all in-sync replicas had the records in time"))
        self._waiting = deque(waiting for waiting in self._waiting if waiting.answers or waiting.effects)
        if self._waiting:
            self._park()

    def fail(self, error: Exception) -> None:
        """One of the answers failed; the others must not wait for ever."""
        self._parked = None
        if self._waiting:
            self._park()
