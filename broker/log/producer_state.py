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

The first batch of a transaction is accepted only from who holds the producer's *guard* (KIP-890): it is handed out
before the coordinator is asked whether the transaction is open, and a marker that is written meanwhile takes it away,
so that an outdated answer opens no transaction that would never end. Guards are not part of the log: they live while
this replica leads.
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
LAST_EPOCH = 2**15 - 1
"""The last epoch of a producer id: a marker that carries it has the same epoch as the one before."""


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
    """What is kept of a stored batch: enough to recognise its retry and to answer where it was stored."""

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
        """Batches from `offset` on were aborted: a retry of one must not be answered as stored."""
        self.batches[:] = [
            batch._replace(aborted=True) if batch.first_offset >= offset else batch for batch in self.batches
        ]


class Guard:
    """The right to begin a transaction of one producer here; each is the only one equal to itself."""

    __slots__ = ("bumps", "epoch", "first_sequence", "producer_id", "seen_ms")

    def __init__(self, producer_id: int, epoch: int, first_sequence: int, *, bumps: bool, seen_ms: int = 0) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.first_sequence = first_sequence
        """The earliest sequence that somebody asked for: a later batch has to wait for it."""
        self.bumps = bumps
        """Whether the epoch rises with each transaction of this producer (`transaction.version` 2)."""
        self.seen_ms = seen_ms

    def asked_again(self, epoch: int, sequence: int, *, bumps: bool, now_ms: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.first_sequence = epoch, sequence
        elif epoch == self.epoch and is_later(self.first_sequence, sequence):
            self.first_sequence = sequence
        self.bumps |= bumps
        self.seen_ms = now_ms


NOT_VERIFIED = Guard(NONE, NONE, NONE, bumps=False)
"""For appends that need no guard, because `transaction.partition.verification.enable` is off."""


def is_later(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other`, also where they wrap."""
    return 0 < (sequence - other) & MAX_SEQUENCE < 1 << 30


class ProducerState:
    """All producers of one partition, as of `end_offset`."""

    __slots__ = (
        "_ended_firsts", "_guards", "_open", "_producers_max", "_replicated", "end_offset", "ended", "entries",
    )  # fmt: skip

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
        # A heap. It is emptied with the high watermark, not by readers: most followers have none.
        self._ended_firsts = sorted(first for _, first in self.ended)
        # first offsets that left `ended` but still lie in the heap; None as long as there was none
        self._replicated: set[int] | None = None
        self._guards: dict[int, Guard] | None = None  # by producer id; None as long as there was none

    # -- decisions

    def is_next(self, batch: BatchHeader) -> bool:
        """Whether `batch` is simply the next one of a producer that is known, as nearly always: then it
        repeats none and may be appended, and nothing else has to be asked. The first one of a transaction is not."""
        _, _, _, _, _, attributes, _, _, _, producer_id, epoch, sequence, _ = batch
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.epoch == epoch
            and bool(entry.batches)
            and (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE == sequence
            and (entry.txn_first_offset != NONE if attributes & TRANSACTIONAL else entry.txn_first_offset == NONE)
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

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this very epoch is open."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset != NONE and entry.epoch == epoch

    def guard_for(
        self, producer_id: int, epoch: int, sequence: int = NONE, *, bumps: bool = False, now_ms: int = 0
    ) -> Guard | None:
        """What the first batch of a transaction must be appended with, once the coordinator has been asked; None where
        the transaction of this very epoch is open already and nothing has to be asked. Raises for an old epoch."""
        entry = self.entries.get(producer_id)
        if entry is not None:
            _check_epoch(entry, epoch)
        if self.is_open(producer_id, epoch):
            return None
        if self._guards is None:
            self._guards = {}
        guard = self._guards.pop(producer_id, None)
        if guard is None:
            guard = Guard(producer_id, epoch, sequence, bumps=bumps, seen_ms=now_ms)
            if len(self._guards) >= self._producers_max:
                del self._guards[next(iter(self._guards))]
        else:
            guard.asked_again(epoch, sequence, bumps=bumps, now_ms=now_ms)
        self._guards[producer_id] = guard
        return guard

    def check(self, batch: BatchHeader, origin: Origin = Origin.CLIENT, guard: Guard | None = None) -> None:
        """Raise unless the leader may append this data batch; duplicates are asked for first."""
        entry = self.entries.get(batch.producer_id)
        if entry is not None:
            _check_epoch(entry, batch.producer_epoch)
        held = None if self._guards is None else self._guards.get(batch.producer_id)
        if batch.transactional and guard is not NOT_VERIFIED:
            verified = held is not None and held is guard
            if not verified and not self.is_open(batch.producer_id, batch.producer_epoch):
                raise InvalidTxnStateError(
                    f"producer {batch.producer_id} has no open transaction here with epoch {batch.producer_epoch}, "
                    "or it ended while the coordinator was asked for it"
                )
        if origin is Origin.CLIENT:
            if held is not None:
                _check_guarded(held, batch, known=entry is not None)
            if entry is not None:
                _check_sequence(entry, batch)
        if entry is None:
            return
        if entry.txn_first_offset != NONE and not batch.transactional:
            raise InvalidTxnStateError(
                f"producer {batch.producer_id} has an open transaction since offset {entry.txn_first_offset} "
                "and may write nothing outside of it"
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker, *, transaction_version: int = 0
    ) -> None:
        """Raise unless the leader may append this end marker.

        From transaction version 2 on the coordinator raises the epoch with every marker, so one that does not is late.
        Two do not and are taken: the repetition of the marker that ended the last transaction (KAFKA-19999), and one
        with the last epoch there is, which cannot be raised.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        late = producer_epoch < entry.epoch
        if transaction_version >= 2 and producer_epoch == entry.epoch < LAST_EPOCH:
            late = entry.txn_first_offset != NONE
        if late:
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
            if self._guards is not None:
                self._guards.pop(producer_id, None)  # it is used up

    def _apply_marker(
        self, entry: ProducerEntry, batch: BatchHeader, marker: EndMarker
    ) -> CompletedTxn | None:
        if self._guards is not None:
            self._guards.pop(entry.producer_id, None)
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

    # -- guards

    def guard_over(self, producer_id: int, producer_epoch: int, transaction_version: int) -> Guard | None:
        """The guard that outlives the marker of this epoch, which is about to be written: with an epoch for each
        transaction the marker ends the one before, and the next has begun to ask (KAFKA-18575)."""
        if not self._guards or transaction_version < 2:
            return None
        guard = self._guards.get(producer_id)
        return guard if guard is not None and guard.epoch == producer_epoch else None

    def keep(self, guard: Guard) -> None:
        """Go on with a guard after the marker that it outlives."""
        if self._guards is not None:
            self._guards[guard.producer_id] = guard

    def drop_guards(self) -> None:
        """Leadership begins anew: what was asked before is not known to be true any more."""
        self._guards = None

    # -- transactions

    @property
    def oldest_open_seen_ms(self) -> int | None:
        """When the producer of the oldest open transaction last wrote."""
        first = next(iter(self._open.values()), None)
        return None if first is None else self.entries[first].seen_ms

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction began."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction began that is open, or whose end is not yet below the high
        watermark."""
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
            done = self._replicated
            while done and self._ended_firsts[0] in done:
                done.discard(heapq.heappop(self._ended_firsts))

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
        guards = list(self._guards.values()) if self._guards else ()
        for guard in guards:
            if now_ms - guard.seen_ms >= expiration_ms and self._guards is not None:
                del self._guards[guard.producer_id]
        return expired


def _check_epoch(entry: ProducerEntry, epoch: int) -> None:
    if epoch < entry.epoch:
        raise InvalidProducerEpochError(
            f"producer {entry.producer_id} writes with epoch {epoch}, "
            f"but epoch {entry.epoch} is already known: a newer instance took over"
        )


def _check_guarded(guard: Guard, batch: BatchHeader, *, known: bool) -> None:
    """A transaction begins with the earliest batch that was sent for it: were a later one stored first, the earlier one
    could never be."""
    if is_later(batch.base_sequence, guard.first_sequence):
        raise OutOfOrderSequenceNumberError(
            f"producer {batch.producer_id} sends sequence {batch.base_sequence}, but sequence "
            f"{guard.first_sequence} was sent before it and is not stored yet"
        )
    if not known and guard.bumps and batch.base_sequence != 0:
        raise OutOfOrderSequenceNumberError(
            f"producer {batch.producer_id} begins with sequence {batch.base_sequence} in epoch "
            f"{batch.producer_epoch}; each transaction begins with 0"
        )


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
