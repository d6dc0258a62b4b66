"""The batches of one partition: in order, numbered for idempotence, retried without a gap and without a double.

A broker stores a batch only if its sequence follows the last one it stored for the producer. `expected` is what the
leader expects next as far as its answers say. Three things break the row of numbers, and each ends in the same way:
wait until nothing is in flight, then number the batches that remain again.

- A batch is refused for good: its numbers are free, and the batches behind it take them (`hole`).
- The leader lost the producer's state: the partition continues with a raised epoch, at 0 (`lost`).
- A batch expired while nobody knows whether it is stored (`unknown`): batches behind it keep their numbers, and their
  answers show what became of it. If there are none, the epoch is raised.

Without idempotence there are no numbers, and a retried batch can be stored behind a later one.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable

from rookery.client.producer.batch import Batch, Stamp
from rookery.client.types import TopicPartition
from rookery.core.wire.batch import MAX_SEQUENCE

IN_FLIGHT_MAX = 5
"""Batches of one producer and partition that a broker recognises when they are repeated."""
EPOCH_MAX = 2**15 - 1


class PartitionQueue:
    """What is to be sent to one partition. `open` is the batch that is being filled, the last one of `waiting`."""

    __slots__ = (
        "epoch", "expected", "hole", "in_flight", "lost", "next_sequence", "open", "place", "producer_id", "unknown",
        "waiting", "waiting_bytes",
    )  # fmt: skip

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.waiting_bytes = 0
        self.in_flight: list[Batch] = []
        self.producer_id = -1
        self.epoch = -1
        self.next_sequence = 0
        self.expected = 0
        self.hole = False
        self.lost = False
        self.unknown = False

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.in_flight

    def add(self, batch: Batch) -> None:
        """A new batch that is to be filled."""
        self.waiting.append(batch)
        self.waiting_bytes += batch.size
        self.open = batch

    def head(self) -> Batch | None:
        return self.waiting[0] if self.waiting else None

    # --- numbers --------------------------------------------------------------------------------------------

    def number_as(self, producer_id: int, epoch: int) -> None:
        """Another identity: numbers start at 0, also those of batches that were sent and are not stored. For when
        none is in flight."""
        self.producer_id, self.epoch = producer_id, epoch
        self.next_sequence = self.expected = 0
        self.hole = self.lost = self.unknown = False
        for batch in self.waiting:
            if batch.stamped:
                self._stamp(batch)

    def may_send(self, idempotent: bool) -> bool:
        """Whether the order allows to send the next batch now."""
        if not self.waiting:
            return False
        if not idempotent:
            return True
        head, flying = self.waiting[0], self.in_flight
        if flying:
            if self.hole or self.lost or len(flying) >= IN_FLIGHT_MAX:
                return False
            if head.attempts or flying[0].attempts > 1:
                return False  # one after the other until the row is whole again
            return not self.unknown or head.stamped
        return True

    def settle_numbers(self) -> bool:
        """Before a batch is sent while none is in flight: number again what must be. False if the epoch cannot be
        raised any more, and a new producer id is needed."""
        sent = [batch for batch in self.waiting if batch.stamped]
        if self.unknown and (not sent or (self.hole and not any(batch.uncertain for batch in sent))):
            self.lost = True
        if self.lost:
            if self.epoch >= EPOCH_MAX:
                return False
            self.epoch += 1
            self.expected = 0
        if self.lost or (self.hole and not self.unknown):
            self.next_sequence = self.expected
            for batch in sent:
                self._stamp(batch)
            self.hole = self.lost = self.unknown = False
        return True

    def take(self, idempotent: bool, now: float) -> Batch:
        """The next batch, which is sent now."""
        batch = self.waiting.popleft()
        self.waiting_bytes -= batch.size
        if batch is self.open:
            self.open = None
        if idempotent and not batch.stamped:
            self._stamp(batch)
        batch.attempts += 1
        batch.sent_at = now
        self.in_flight.append(batch)
        return batch

    def _stamp(self, batch: Batch) -> None:
        batch.stamp = Stamp(self.producer_id, self.epoch, self.next_sequence)
        self.next_sequence = (self.next_sequence + batch.count) & MAX_SEQUENCE

    # --- answers --------------------------------------------------------------------------------------------

    def stored(self, batch: Batch) -> None:
        """The leader has the batch, and so all before it."""
        self._landed(batch)
        end = (batch.stamp.sequence + batch.count) & MAX_SEQUENCE
        if self._current(batch) and (end - self.expected) & MAX_SEQUENCE <= MAX_SEQUENCE // 2:
            self.expected = end
            self.unknown = False

    def back(self, batch: Batch, *, uncertain: bool) -> None:
        """To be sent again, before those with higher numbers."""
        self._landed(batch)
        batch.uncertain |= uncertain
        self._insert(batch)

    def out_of_order(self, batch: Batch) -> None:
        """The leader expects another sequence. That is plain while an earlier batch is outstanding; if none is, the
        leader lost the state, or an expired batch was not stored."""
        self._landed(batch)
        batch.uncertain = False
        if self._current(batch) and not self.hole and (batch.stamp.sequence == self.expected or self.unknown):
            self.lost = True
        self._insert(batch)

    def refused(self, batch: Batch) -> None:
        """The leader did not store the batch and never will; it is gone from here."""
        self._landed(batch)
        if self._current(batch) and not self.lost:
            self.hole = True

    def expired(self, batch: Batch) -> None:
        """A batch that waits is given up."""
        self.waiting.remove(batch)
        self.waiting_bytes -= batch.size
        if batch is self.open:
            self.open = None
        if not self._current(batch):
            return
        if batch.uncertain:
            self.unknown = True
        elif not self.lost:
            self.hole = True

    def replace(self, batch: Batch, parts: list[Batch]) -> None:
        """A batch in flight was too large: its parts take its numbers."""
        self._landed(batch)
        sequence = batch.stamp.sequence
        for part in parts:
            if batch.stamped:
                part.stamp = batch.stamp._replace(sequence=sequence)
                sequence = (sequence + part.count) & MAX_SEQUENCE
            part.attempts = 1
            self._insert(part)

    def _insert(self, batch: Batch) -> None:
        """Before unsent batches; among the sent ones by number, or by age without numbers."""
        sent = [each for each in self.waiting if each.attempts]
        rest = [each for each in self.waiting if not each.attempts]
        insort(sent, batch, key=self._order)
        self.waiting = deque([*sent, *rest])
        self.waiting_bytes += batch.size

    def _order(self, batch: Batch) -> tuple[int, float]:
        if not batch.stamped:
            return 0, batch.sent_at
        return (batch.stamp.sequence - self.expected) & MAX_SEQUENCE, batch.sent_at

    def _current(self, batch: Batch) -> bool:
        stamp = batch.stamp
        return stamp.sequence >= 0 and stamp.producer_id == self.producer_id and stamp.epoch == self.epoch

    def _landed(self, batch: Batch) -> None:
        self.in_flight.remove(batch)

    def drop_waiting(self, keep: Callable[[Batch], bool] = lambda batch: False) -> list[Batch]:
        """Take out the batches that are not in flight, but those to keep."""
        dropped = [batch for batch in self.waiting if not keep(batch)]
        self.waiting = deque(batch for batch in self.waiting if keep(batch))
        self.waiting_bytes = sum(batch.size for batch in self.waiting)
        self.open = self.waiting[-1] if self.open is not None and self.open in self.waiting else None
        return dropped
