"""Answers and effects that wait until the log of their shard is committed up to where it ended when they were decided.

They wait in the order of their offsets, so one look at the oldest is enough; the shard takes one place among the
broker's waiters, however much it owes. An answer waits for a limited time, because somebody waits for it. An effect
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
class _Owed:
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
        self._owed: deque[_Owed] = deque()
        self._parked: Parked[Partition] | None = None

    def give(self, answers: Sequence[Answer], effects: Sequence[Any] = ()) -> None:
        """Give the answers and carry out the effects now if all that was written is committed, else when it is."""
        end = self._partition.log.end_offset
        owed = _Owed(end, self._time() + self._timeout_s, answers, effects)
        if not self._owed and self._partition.log.high_watermark >= end:
            self._release(owed)
        elif answers or effects:
            self._owed.append(owed)
            if self._parked is None:
                self._park()

    def _release(self, owed: _Owed) -> None:
        """Effects first: an answer that breaks takes none of them with it."""
        if self._carry_out is not None:
            for effect in owed.effects:
                self._carry_out(effect)
        for to, response in owed.answers:
            to.complete(response)

    def _park(self) -> None:
        """Until the first answer is late; effects alone are looked at again after the same time."""
        now = self._time()
        until = next((owed.until for owed in self._owed if owed.answers), now + self._timeout_s)
        self._parked = self._waiters.park(self, [self._partition], until - now, waits_for=FOR_COMMITTED)

    def close(self, error: KafkaError) -> None:
        """Nothing of it will be known here any more: answers are refused, effects dropped."""
        self._waiters.forget(self._parked)
        self._parked = None
        owed = list(self._owed)
        self._owed.clear()
        self._refuse(owed, error)

    def _refuse(self, late: Iterable[_Owed], error: KafkaError) -> None:
        for owed in late:
            answers, owed.answers = owed.answers, ()
            for to, _ in answers:
                to.refuse(error)

    # --- the waiters' calls -----------------------------------------------------------------------------------

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        committed = self._partition.log.high_watermark
        while self._owed and self._owed[0].end <= committed:
            self._release(self._owed.popleft())
        if self._owed and self._partition.stranded:
            place = self._partition.topic_partition
            self._refuse(self._owed, RequestTimedOutError(f"{place}: this broker is cut off from the other replicas"))
            self._owed = deque(owed for owed in self._owed if owed.effects)
        if self._owed:
            return False
        self._parked = None
        return True

    def expire(self) -> None:
        """The oldest answer has waited for too long, or did when this timer was set."""
        self._parked = None
        now = self._time()
        late = [owed for owed in self._owed if owed.until <= now]
        place = self._partition.topic_partition
        self._refuse(late, RequestTimedOutError(f"{place}: not all in-sync replicas had the records in time"))
        self._owed = deque(owed for owed in self._owed if owed.answers or owed.effects)
        if self._owed:
            self._park()

    def fail(self, error: Exception) -> None:
        """One of the answers broke; those behind it are not to wait for ever."""
        self._parked = None
        if self._owed:
            self._park()
