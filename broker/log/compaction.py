"""Compaction: when a log is worth cleaning and which part of it, and what is kept of a batch. Pure.

A log is clean up to where the cleaner stopped last, dirty from there on. Never touched are the active segment,
everything from the last stable offset on (so also from the high watermark on), and segments that hold a record younger
than min.compaction.lag.ms.

Kept are the newest record of each key, everything newer than the offset map covers, and tombstones and end
markers until delete.retention.ms after the cleaner first saw that nothing older depends on them; that
moment is written into the batch as its delete horizon. Data of aborted transactions goes at once, the
marker after the last of its data.

A batch keeps its base offset, last offset and sequences however few records are left. It stays even without
records if a producer that is still known may send it again (its sequences must survive a rebuild of the
producer state) or if it is the last one of its new segment (which then still reaches to where the next
begins).
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from rookery.broker.log.producer_state import ProducerState
from rookery.broker.log.transaction_index import AbortedTxn
from rookery.core.wire.batch import BatchHeader, Buffer
from rookery.core.wire.markers import EndMarker, read_marker
from rookery.core.wire.primitives import WireError, read_uvarint
from rookery.core.wire.records import read_records, records_section, rewrite_batch

KeyAt = tuple[int, bytes | None, bool]
"""A record's offset, its key, and whether it is a tombstone."""


def record_keys(buf: Buffer, pos: int, header: BatchHeader) -> list[KeyAt]:
    """One entry for each record of the batch at `pos`, in order."""
    data = bytes(records_section(buf, pos, header))
    try:
        found, end = _scan(data, header.record_count, header.base_offset)
    except IndexError:
        raise WireError(f"the last of {header.record_count} records is cut short") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {header.record_count} records")
    return found


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """The zig-zag coded number at `at` and the position behind it."""
    value, at = read_uvarint(data, at)
    return value >> 1 ^ -(value & 1), at


def _scan(data: bytes, count: int, base_offset: int) -> tuple[list[KeyAt], int]:
    """Numbers of one and two bytes, by far the most, are read in line."""
    found: list[KeyAt] = []
    at = 0
    for _ in range(count):
        if (byte := data[at]) < 0x80:
            at += 1
            end = at + (byte >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2
            end = at + (byte & 0x7F | more << 7) // 2
        else:
            size, at = _signed(data, at)
            end = at + size
        at += 1  # the attributes
        while data[at] >= 0x80:  # the timestamp
            at += 1
        at += 1
        if (byte := data[at]) < 0x80:
            at += 1
            offset = base_offset + (byte >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2
            offset = base_offset + (byte & 0x7F | more << 7) // 2
        else:
            delta, at = _signed(data, at)
            offset = base_offset + delta
        if (byte := data[at]) < 0x80:
            size, at = byte >> 1 ^ -(byte & 1), at + 1
        else:
            size, at = _signed(data, at)
        if size >= 0:
            found.append(
                (offset, data[at : at + size], data[at + size] == 1)
            )  # a length of -1, zig-zag coded
            at += size
        else:
            found.append((offset, None, data[at] == 1))
        if at >= end:
            raise WireError(f"the key of the record at offset {offset} reaches beyond its record")
        at = end
    return found, at


_DIGEST = 16
ENTRY_BYTES = 176
"""What one key costs: a dict slot at its usual fill, a digest and a number."""

ABSENT = -1


class OffsetMap:
    """Keys of less than 16 bytes stand for themselves, longer ones for a digest of that size.

    The bound holds up to one batch: a batch is taken whole or not at all, so that the map always covers all
    records up to `latest_offset` and even the smallest map makes progress.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._keys_max = max(1, memory_bytes // ENTRY_BYTES)
        self.latest_offset = ABSENT

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest()] = offset

    def get(self, key: bytes) -> int:
        """The newest offset of the key in the mapped range, or -1."""
        return self._offsets.get(
            key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest(), ABSENT
        )


OFFSET_RANGE_MAX = 2**31 - 1
"""Offsets in a segment and its indexes are kept relative to its base, in 32 bits."""


class CleanableSegment(NamedTuple):
    """What the plan needs of a segment; timestamps are -1 where a segment has none."""

    base_offset: int
    end_offset: int
    size: int
    index_size: int
    first_timestamp: int
    max_timestamp: int


class CompactionPolicy(NamedTuple):
    """The options of a topic that decide."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class CleaningPlan(NamedTuple):
    """Clean [first_dirty, end), where `end` is the base offset of the first segment to leave alone."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """How long max.compaction.lag.ms has been exceeded; 0 if it has not."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def plan(
    segments: Sequence[CleanableSegment],
    policy: CompactionPolicy,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CleaningPlan:
    """The dirty part of `segments` (oldest first, the last one active) that may be cleaned now."""
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    if not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset  # records were deleted or the log was cut since: begin anew
    *sealed, active = segments
    limit = min(last_stable_offset, active.base_offset, _too_young(sealed, first_dirty, policy, now_ms))
    end = max((segment.base_offset for segment in segments if segment.base_offset <= limit), default=limit)
    dirty = [segment for segment in sealed if segment.end_offset > first_dirty and segment.base_offset < end]
    clean = [segment for segment in sealed if segment.end_offset <= first_dirty]
    return CleaningPlan(
        first_dirty,
        max(end, first_dirty),
        sum(segment.size for segment in clean),
        sum(segment.size for segment in dirty),
        _overdue(dirty, policy, now_ms),
    )


def _too_young(
    sealed: Sequence[CleanableSegment], first_dirty: int, policy: CompactionPolicy, now_ms: int
) -> int:
    """Where the first dirty segment with a record inside min.compaction.lag.ms begins."""
    if policy.min_compaction_lag_ms <= 0:
        return OFFSET_MAX
    horizon = now_ms - policy.min_compaction_lag_ms
    dirty = (segment for segment in sealed if segment.end_offset > first_dirty)
    return next((segment.base_offset for segment in dirty if segment.max_timestamp > horizon), OFFSET_MAX)


OFFSET_MAX = 2**63 - 1


def _overdue(dirty: Sequence[CleanableSegment], policy: CompactionPolicy, now_ms: int) -> int:
    oldest = min((s.first_timestamp for s in dirty if s.first_timestamp > 0), default=now_ms)
    return max(0, now_ms - policy.max_compaction_lag_ms - oldest)


def is_due(plan: CleaningPlan, policy: CompactionPolicy) -> bool:
    """Whether the dirty part is large enough, or old enough, to be worth reading the whole log."""
    if not plan.dirty_bytes:
        return False
    return plan.overdue_ms > 0 or plan.dirty_ratio > policy.min_cleanable_dirty_ratio


def grouped(
    segments: Sequence[CleanableSegment], *, segment_bytes: int, segment_index_bytes: int
) -> list[list[CleanableSegment]]:
    """Neighbours that fit into one segment again; each group becomes one, so that segments do not dwindle."""
    groups: list[list[CleanableSegment]] = []
    size = index_size = 0
    for segment in segments:
        fits = (
            groups
            and size + segment.size <= segment_bytes
            and index_size + segment.index_size <= segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= OFFSET_RANGE_MAX
        )
        if fits:
            groups[-1].append(segment)
            size, index_size = size + segment.size, index_size + segment.index_size
        else:
            groups.append([segment])
            size, index_size = segment.size, segment.index_size
    return groups


class LastOfProducer(NamedTuple):
    """What must stay of a producer: the batches with these last offsets, by which its retries are known, and
    end markers of these epochs, where its epoch is all that is known."""

    offsets: frozenset[int]
    epochs: frozenset[int]


def last_of_producers(now: ProducerState, then: ProducerState | None) -> dict[int, LastOfProducer]:
    """For producers known now. `then` is the state where the cleaned range ends, to which a truncation may
    lead back: batches that later ones have pushed out of memory are the last ones again."""
    found = {}
    for producer_id, entry in now.entries.items():
        before = None if then is None else then.entries.get(producer_id)
        entries = [entry] if before is None else [entry, before]
        found[producer_id] = LastOfProducer(
            frozenset(batch.last_offset for each in entries for batch in each.batches),
            frozenset(each.epoch for each in entries if not each.batches),
        )
    return found


class SweptTransactions:
    """Follows transactions while batches pass in log order, to find aborted data and unneeded markers."""

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTxn]] = []  # a heap by first offset
        self._aborted: dict[int, AbortedTxn] = {}  # by producer, from its first batch to its marker
        self._with_data: set[int] = set()  # producers of whose current transaction a batch has passed
        self._retained: list[AbortedTxn] = []

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        """Learn the aborted transactions of the batches that come next."""
        for entry in aborted:
            heapq.heappush(self._coming, (entry.first_offset, entry))

    def data(self, header: BatchHeader) -> bool:
        """Take a data batch; whether it belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.transactional:
            return False
        self._with_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def marker(self, header: BatchHeader, marker: EndMarker | None) -> bool:
        """Take a control batch; whether nothing of its transaction is left."""
        self._begin_up_to(header.last_offset)
        if marker is None:
            return True
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        ended = self._aborted.pop(header.producer_id, None)
        if ended is not None and had_data:
            self._retained.append(ended)
        return not had_data

    def take_retained(self) -> list[AbortedTxn]:
        """Aborted transactions with data that ended since the last call: a cleaned segment's index."""
        retained, self._retained = self._retained, []
        return retained

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            entry = heapq.heappop(self._coming)[1]
            self._aborted.setdefault(entry.producer_id, entry)


class _Verdict(NamedTuple):
    """What becomes of a batch before its records are looked at."""

    drop_records: bool
    keep_empty: bool
    settled_marker: bool
    """An end marker of whose transaction nothing is left."""


@dataclass(slots=True)
class BatchSweep:
    """One pass over a log in offset order: `sweep` says what is left of each batch."""

    offsets: OffsetMap
    producers: Mapping[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int
    transactions: SweptTransactions = field(default_factory=SweptTransactions)

    def sweep(self, buf: Buffer, pos: int, header: BatchHeader, *, last: bool = False) -> Buffer | None:
        """The batch at `pos` as it should stay: the same bytes, rewritten ones, or None if it should go.

        `last` says that it is the last one of its new segment.
        """
        verdict = self._judge(buf, pos, header, last)
        kept = [] if verdict.drop_records else self._kept(buf, pos, header)
        if not kept and not verdict.keep_empty:
            return None
        horizon = self._new_horizon(header, kept, verdict)
        if horizon is None and len(kept) == header.record_count:
            return memoryview(buf)[pos : pos + header.size]
        offsets = {offset for offset, _, _ in kept}
        records = [record for record in read_records(buf, pos) if record.offset in offsets] if kept else []
        return rewrite_batch(header, records, horizon)

    def _judge(self, buf: Buffer, pos: int, header: BatchHeader, last: bool) -> _Verdict:
        last_of_producer = self._is_last_of_producer(header)
        keep_empty = last_of_producer or last
        if not header.control:
            return _Verdict(self.transactions.data(header), keep_empty, False)
        settled = self.transactions.marker(header, read_marker(buf, pos))
        past_horizon = header.delete_horizon is not None and header.delete_horizon <= self.now_ms
        # The last marker of a known producer carries the epoch that fences its older instances.
        return _Verdict(settled and past_horizon and not last_of_producer, keep_empty, settled)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.producers.get(header.producer_id)
        if last is None:
            return False
        return header.last_offset in last.offsets or (header.control and header.producer_epoch in last.epochs)

    def _kept(self, buf: Buffer, pos: int, header: BatchHeader) -> list[KeyAt]:
        found = record_keys(buf, pos, header)
        if header.control:
            return found
        horizon, newest, latest = header.delete_horizon, self.offsets.get, self.offsets.latest_offset
        past_horizon = horizon is not None and horizon <= self.now_ms
        return [
            (offset, key, tombstone)
            for offset, key, tombstone in found
            if offset > latest
            or (key is not None and offset >= newest(key) and not (tombstone and past_horizon))
        ]

    def _new_horizon(self, header: BatchHeader, kept: list[KeyAt], verdict: _Verdict) -> int | None:
        """Set once, when the cleaner first passes over a tombstone or a settled marker that stays."""
        if header.delete_horizon is not None or not kept:
            return None
        swept = self.offsets.latest_offset  # newer tombstones have not yet done their work
        tombstones = not header.control and any(
            tombstone and offset <= swept for offset, _, tombstone in kept
        )
        return self.now_ms + self.delete_retention_ms if tombstones or verdict.settled_marker else None


def map_batch(offsets: OffsetMap, buf: Buffer, pos: int, header: BatchHeader, first_dirty: int) -> None:
    """Enter the keys of a data batch that is not aborted into the map."""
    for offset, key, _ in record_keys(buf, pos, header):
        if key is not None and offset >= first_dirty:
            offsets.put(key, offset)
