"""What compaction keeps of a batch. Pure: bytes in, bytes (or nothing) out.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rookery.broker.log.offset_map import OffsetMap
from rookery.broker.log.producer_state import ProducerState
from rookery.broker.log.record_keys import KeyAt, record_keys
from rookery.broker.log.transaction_index import AbortedTxn
from rookery.core.wire.batch import BatchHeader, Buffer
from rookery.core.wire.markers import EndMarker, read_marker
from rookery.core.wire.records import read_records, rewrite_batch


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
    """Follows transactions while batches pass in log order, to tell aborted data and unneeded markers."""

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
