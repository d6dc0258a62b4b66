"""What a partition remembers of its idempotent and transactional producers. Pure.

The state is a fold over the log: `apply` takes every stored batch once, live and in recovery alike, and is
the only change. `duplicate_of` and `check` decide, before a leader appends, whether a batch may become part
of the log; they change nothing.

Rules of acceptance, per producer id:
  * no state: any sequence is accepted (the state expired, or its records were deleted);
  * same epoch: the first sequence follows the last one, with 0 after 2^31-1;
  * newer epoch: the first sequence is 0;
  * older epoch: INVALID_PRODUCER_EPOCH; everything else: OUT_OF_ORDER_SEQUENCE_NUMBER.
A retry that equals one of the last five batches is answered with that batch's place and not stored again,
unless the batch belongs to an aborted transaction: then its sequence counts as used but the retry is not
"already there".
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rookery.core.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from rookery.core.wire.batch import MAX_SEQUENCE, TRANSACTIONAL, BatchHeader
from rookery.core.wire.markers import EndMarker

NONE = -1
"""Stands for "no epoch", "no sequence", "no offset" and "no timestamp", as it does on the wire and on
disk."""

RETAINED_BATCHES = 5
PRODUCERS_MAX = 100_000
"""Bound on the producers remembered by one partition; the one idle for longest is forgotten first."""


class Origin(Enum):
    """Who asks the leader to append: a coordinator's batches carry no sequences to check."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class CompletedTxn(NamedTuple):
    """A transaction with data on this partition that a marker has just ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int


def sequence_after(sequence: int, steps: int = 1) -> int:
    """The sequence `steps` records later (or earlier when negative); 0 follows 2^31-1."""
    return (sequence + steps) & MAX_SEQUENCE


class AppendedBatch(NamedTuple):
    """What is kept of a stored batch: enough to know its retry and to say where it went."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    aborted: bool = False

    @property
    def first_sequence(self) -> int:
        return NONE if self.last_sequence == NONE else sequence_after(self.last_sequence, -self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class ProducerEntry:
    """One producer id: its newest epoch, its last batches and its open transaction."""

    producer_id: int
    epoch: int = NONE
    coordinator_epoch: int = NONE
    last_timestamp: int = NONE
    txn_first_offset: int = NONE
    batches: list[AppendedBatch] = field(default_factory=list)
    seen_ms: int = field(default=0, compare=False)
    """When the broker last had to do with this producer; expiry counts from here, not from record timestamps,
    which clients may set to any time. Not part of the log, so not of equality."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NONE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NONE

    def enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def add(self, batch: AppendedBatch) -> None:
        if len(self.batches) == RETAINED_BATCHES:
            del self.batches[0]
        self.batches.append(batch)

    def forget_duplicates_from(self, offset: int) -> None:
        """Batches from `offset` on were aborted: a retry of one must not be told that it is stored."""
        self.batches[:] = [
            batch._replace(aborted=True) if batch.first_offset >= offset else batch for batch in self.batches
        ]


class ProducerState:
    """All producers of one partition, as of `end_offset`."""

    __slots__ = ("_ended_firsts", "_open", "_producers_max", "_replicated", "end_offset", "ended", "entries")

    def __init__(
        self,
        end_offset: int = 0,
        entries: Iterable[ProducerEntry] = (),
        ended: Iterable[tuple[int, int]] = (),
        *,
        producers_max: int = PRODUCERS_MAX,
    ) -> None:
        self.end_offset = end_offset
        # Ordered by last use, so that the longest idle comes first.
        self.entries: dict[int, ProducerEntry] = {entry.producer_id: entry for entry in entries}
        self._producers_max = producers_max
        opened = (entry for entry in self.entries.values() if entry.txn_first_offset != NONE)
        # first offset -> producer id, ascending because transactions open in log order
        self._open = {
            e.txn_first_offset: e.producer_id for e in sorted(opened, key=lambda e: e.txn_first_offset)
        }
        self.ended = list(ended)
        """Transactions whose end is not yet below the high watermark, in log order: (marker's offset, first
        offset)."""
        self._ended_firsts = sorted(first for _, first in self.ended)  # a heap, emptied lazily
        # first offsets that left `ended` but still lie in the heap; None as long as there was none
        self._replicated: set[int] | None = None

    # -- decisions

    def is_next(self, batch: BatchHeader) -> bool:
        """Whether `batch` is simply the next one of a producer that is known, as nearly always: then it
        repeats none and may be appended, and nothing else has to be asked."""
        _, _, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, _ = batch
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.epoch == epoch
            and bool(entry.batches)
            and (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE == sequence
            and (entry.txn_first_offset == NONE or bool(attributes & TRANSACTIONAL))
        )

    def duplicate_of(self, batch: BatchHeader) -> AppendedBatch | None:
        """The stored batch that `batch` repeats, if it is among the last five of its producer and epoch."""
        entry = self.entries.get(batch.producer_id)
        if entry is None or entry.epoch != batch.producer_epoch or batch.base_sequence == NONE:
            return None
        if entry.batches and sequence_after(entry.batches[-1].last_sequence) == batch.base_sequence:
            return None  # the next one, as nearly always
        last, delta = batch.last_sequence, batch.last_offset_delta
        for stored in entry.batches:
            if stored.last_sequence == last and stored.offset_delta == delta:
                return None if stored.aborted else stored
        return None

    def check(self, batch: BatchHeader, origin: Origin = Origin.CLIENT) -> None:
        """Raise unless the leader may append this data batch; duplicates are asked for first."""
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            return
        if batch.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"producer {batch.producer_id} writes with epoch {batch.producer_epoch}, "
                f"but epoch {entry.epoch} is already known: a newer instance took over"
            )
        if origin is Origin.CLIENT:
            _check_sequence(entry, batch)
        if entry.txn_first_offset != NONE and not batch.transactional:
            raise InvalidTxnStateError(
                f"producer {batch.producer_id} has an open transaction since offset {entry.txn_first_offset} "
                "and may write nothing outside of it"
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker, *, transaction_version: int = 0
    ) -> None:
        """Raise unless the leader may append this end marker.

        From transaction version 2 on the coordinator raises the epoch with every marker, so one that does
        not is late, except for the repetition of the marker that ended the last transaction.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        repeated = producer_epoch == entry.epoch and entry.txn_first_offset == NONE
        late = producer_epoch <= entry.epoch if transaction_version >= 2 else producer_epoch < entry.epoch
        if late and not (repeated and transaction_version >= 2):
            raise InvalidProducerEpochError(
                f"the end marker for producer {producer_id} carries epoch {producer_epoch}, "
                f"which is too old: epoch {entry.epoch} is already known"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"the end marker for producer {producer_id} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, but epoch {entry.coordinator_epoch} has written since"
            )

    # -- the fold

    def apply(
        self, batch: BatchHeader, marker: EndMarker | None = None, *, now_ms: int = 0
    ) -> CompletedTxn | None:
        """Take one stored batch. `marker` is the content of a control batch (None when it was compacted
        away)."""
        self.end_offset = batch.next_offset
        if batch.producer_id == NONE or (batch.control and marker is None):
            return None
        entry = self._touch(batch.producer_id, now_ms)
        if marker is not None:
            return self._apply_marker(entry, batch, marker)
        self._apply_data(entry, batch)
        return None

    def _apply_data(self, entry: ProducerEntry, batch: BatchHeader) -> None:
        base, _, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = batch
        last_sequence = (sequence + delta) & MAX_SEQUENCE if sequence >= 0 else sequence
        entry.enter_epoch(epoch)
        entry.add(AppendedBatch(last_sequence, base + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        if attributes & TRANSACTIONAL and entry.txn_first_offset == NONE:
            entry.txn_first_offset = base
            self._open[base] = producer_id

    def _apply_marker(
        self, entry: ProducerEntry, batch: BatchHeader, marker: EndMarker
    ) -> CompletedTxn | None:
        first = entry.txn_first_offset
        if first != NONE and not marker.commit:
            entry.forget_duplicates_from(first)
        entry.enter_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = batch.max_timestamp
        entry.txn_first_offset = NONE
        if first == NONE:
            return None  # a marker without data moves nothing
        self._open.pop(first, None)
        last = batch.base_offset
        self.ended.append((last, first))
        heapq.heappush(self._ended_firsts, first)
        stable = next(iter(self._open), last + 1)
        return CompletedTxn(entry.producer_id, first, last, not marker.commit, stable)

    def _touch(self, producer_id: int, now_ms: int) -> ProducerEntry:
        entry = self.entries.pop(producer_id, None)
        if entry is None:
            entry = ProducerEntry(producer_id)
            if len(self.entries) >= self._producers_max:
                self._forget_idle()
        self.entries[producer_id] = entry
        entry.seen_ms = now_ms
        return entry

    def _forget_idle(self) -> None:
        idle = (entry for entry in self.entries.values() if entry.txn_first_offset == NONE)
        victim = next(idle, None)
        if victim is not None:  # open transactions are never forgotten: the last stable offset needs them
            del self.entries[victim.producer_id]

    # -- transactions

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction began."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction began that is open, or whose end is not yet below the high
        watermark."""
        done = self._replicated
        while done and self._ended_firsts[0] in done:
            done.discard(heapq.heappop(self._ended_firsts))
        undecided = self.first_undecided_offset
        if not self._ended_firsts:
            return undecided
        return self._ended_firsts[0] if undecided is None else min(undecided, self._ended_firsts[0])

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions whose marker lies below the high watermark no longer hold back the last stable
        offset."""
        if self.ended and self.ended[0][0] < high_watermark:
            replicated = bisect_left(self.ended, (high_watermark,))
            if self._replicated is None:
                self._replicated = set()
            self._replicated.update(first for _, first in self.ended[:replicated])
            del self.ended[:replicated]

    def drop_transactions_below(self, log_start_offset: int) -> None:
        """A deleted prefix takes its ended transactions along."""
        self.high_watermark_moved(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def ended_transactions(self) -> list[tuple[int, int]]:
        """(marker's offset, first offset) of those that still wait for the high watermark."""
        return list(self.ended)

    # -- upkeep

    def expire(self, now_ms: int, expiration_ms: int) -> list[int]:
        """Forget producers idle for `producer.id.expiration.ms`; an open transaction keeps its producer."""
        expired = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.txn_first_offset == NONE and now_ms - entry.seen_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.entries[producer_id]
        return expired


def _check_sequence(entry: ProducerEntry, batch: BatchHeader) -> None:
    if batch.producer_epoch != entry.epoch:
        if batch.base_sequence != 0:
            raise OutOfOrderSequenceNumberError(
                f"producer {batch.producer_id} starts epoch {batch.producer_epoch} with sequence "
                f"{batch.base_sequence}; a new epoch starts with 0"
            )
        return
    last = entry.last_sequence
    expected = 0 if last == NONE else sequence_after(last)
    if batch.base_sequence != expected:
        raise OutOfOrderSequenceNumberError(
            f"producer {batch.producer_id} sends sequence {batch.base_sequence} in epoch {entry.epoch}, "
            f"expected {expected} after {last}: a batch in between is missing or was sent twice"
        )
