"""Answers that wait until the log of their shard is committed up to where it ended when they were decided.

They wait in the order of their offsets, so one look at the oldest is enough; the shard takes one place among the
broker's waiters, however many answers it owes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rookery.broker.coordination.step import Answer
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import Parked, Waiters
from rookery.core.errors import KafkaError, RequestTimedOutError


class _Owed(NamedTuple):
    end: int
    until: float
    answers: Sequence[Answer]


class CommitQueue:
    """One per shard. `time` is the clock of the waiters' timers."""

    kind = "Coordinator"

    def __init__(
        self, waiters: Waiters[Partition], partition: Partition, timeout_s: float, time: Callable[[], float]
    ) -> None:
        self._waiters = waiters
        self._partition = partition
        self._timeout_s = timeout_s
        self._time = time
        self._owed: deque[_Owed] = deque()
        self._parked: Parked[Partition] | None = None

    def give(self, answers: Sequence[Answer]) -> None:
        """Give the answers now if all that was written is committed, else when it is."""
        end = self._partition.log.end_offset
        if not self._owed and self._partition.log.high_watermark >= end:
            _give(answers)
        elif answers:
            self._owed.append(_Owed(end, self._time() + self._timeout_s, answers))
            if self._parked is None:
                self._park()

    def _park(self) -> None:
        self._parked = self._waiters.park(self, [self._partition], self._owed[0].until - self._time())

    def close(self, error: KafkaError) -> None:
        """Nothing of it will be known here any more."""
        self._waiters.forget(self._parked)
        self._parked = None
        self._refuse(len(self._owed), error)

    def _refuse(self, count: int, error: KafkaError) -> None:
        for _ in range(count):
            for to, _ in self._owed.popleft().answers:
                to.refuse(error)

    # --- the waiters' calls -----------------------------------------------------------------------------------

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        committed = self._partition.log.high_watermark
        while self._owed and self._owed[0].end <= committed:
            _give(self._owed.popleft().answers)
        if self._owed:
            return False
        self._parked = None
        return True

    def expire(self) -> None:
        """The oldest answer has waited for too long, or did when this timer was set."""
        self._parked = None
        now = self._time()
        late = sum(owed.until <= now for owed in self._owed)
        place = self._partition.topic_partition
        self._refuse(late, RequestTimedOutError(f"{place}: not all in-sync replicas had the records in time"))
        if self._owed:
            self._park()

    def fail(self, error: Exception) -> None:
        """One of the answers broke; those behind it are not to wait for ever."""
        self._parked = None
        if self._owed:
            self._park()


def _give(answers: Sequence[Answer]) -> None:
    for to, response in answers:
        to.complete(response)
