"""Cleaning one log: `cleaning_plan` and `begin_cleaning` on the owner's side, a job for a thread that reads closed
segments and writes their compacted form beside them, and `put_in_place`.

The job works on a description taken when it was begun and on files of its own; it never touches the log's
objects. The owner of the log puts each finished group in place, and only if the segments it was made of are still
what they were.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rookery.broker.log import transaction_index
from rookery.broker.log.background import Throttle
from rookery.broker.log.compaction import (
    BatchSweep,
    CleanableSegment,
    CleaningPlan,
    LastOfProducer,
    OffsetMap,
    SweptTransactions,
    grouped,
    is_due,
    last_of_producers,
    map_batch,
    plan,
)
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.transaction_index import AbortedTxn
from rookery.core.config.options import LONG_MAX
from rookery.core.disk import Buffer, Disk, File, write_whole
from rookery.core.errors import CorruptMessageError
from rookery.core.log import LogCorrupt, LogDirFailed, Segment, names
from rookery.core.wire.batch import HEADER_SIZE, LENGTH_END, BatchHeader
from rookery.core.wire.markers import read_marker
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import batches, read_header, verify

CHUNK = 1 << 20


class DirtySegment(NamedTuple):
    """A closed segment as it was when the job began, and the aborted transactions with records in it."""

    facts: CleanableSegment
    path: str
    aborted: Sequence[AbortedTxn]


@dataclass(slots=True)
class CleanedGroup:
    """One new segment, its files written as `*.cleaned` and synced, and what it is made of."""

    segment: Segment
    old: list[CleanableSegment]
    aborted: list[AbortedTxn]
    truncations: int
    """How often the log had been cut when its segments were read."""


@dataclass(slots=True)
class CleaningStats:
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(slots=True)
class CleaningJob:
    """`prepare`, then `next_group` until it gives None, both in a thread. `end` is where the next one
    begins."""

    disk: Disk
    folder: str
    config: TopicLogConfig
    plan: CleaningPlan
    segments: Sequence[DirtySegment]
    producers: Mapping[int, LastOfProducer]
    memory_bytes: int
    throttle: Throttle
    now_ms: int
    truncations: int
    stats: CleaningStats = field(default_factory=CleaningStats)
    revoked: threading.Event = field(default_factory=threading.Event)
    """Set when others need the files: the step under way ends with `CancelledWork`."""
    end: int = 0
    _sweep: BatchSweep | None = None
    _groups: list[list[DirtySegment]] = field(default_factory=list)

    def prepare(self) -> None:
        """Read the dirty part and learn the newest offset of each key. Blocks."""
        try:
            self._remove_unfinished()
            offsets = self._mapped()
        except OSError as error:
            raise LogDirFailed("reading", self.folder, error) from error
        self.end = max(offsets.latest_offset + 1, self.plan.first_dirty)
        self._sweep = BatchSweep(offsets, self.producers, self.now_ms, self.config.delete_retention_ms)
        self._groups = self._grouped()

    def _mapped(self) -> OffsetMap:
        offsets = OffsetMap(self.memory_bytes)
        transactions = SweptTransactions()
        dirty = [segment for segment in self.segments if segment.facts.end_offset > self.plan.first_dirty]
        for segment in dirty:
            transactions.expect(txn for txn in segment.aborted if txn.last_offset >= self.plan.first_dirty)
            if not self._map(segment, offsets, transactions):
                break
            offsets.latest_offset = max(offsets.latest_offset, segment.facts.end_offset - 1)
        return offsets

    def _grouped(self) -> list[list[DirtySegment]]:
        by_base = {segment.facts.base_offset: segment for segment in self.segments}
        groups = grouped(
            [segment.facts for segment in self.segments if segment.facts.base_offset < self.end],
            segment_bytes=self.config.log.segment_bytes,
            segment_index_bytes=self.config.log.segment_index_bytes,
        )
        return [[by_base[facts.base_offset] for facts in group] for group in groups]

    def _map(self, segment: DirtySegment, offsets: OffsetMap, transactions: SweptTransactions) -> bool:
        """Enter one segment; False if the map is full before its end."""
        for buf, pos, header in self._batches(segment):
            if header.last_offset < self.plan.first_dirty:
                continue
            if offsets.full:
                return False
            if header.control:
                transactions.marker(header, read_marker(buf, pos))
            elif not transactions.data(header):
                map_batch(offsets, buf, pos, header, self.plan.first_dirty)
            offsets.latest_offset = header.last_offset
        return True

    @property
    def next_base(self) -> int | None:
        """Where the next group begins; None when all are done."""
        return self._groups[0][0].facts.base_offset if self._groups else None

    def next_group(self) -> CleanedGroup | None:
        """Write the next group of segments, compacted, as `*.cleaned`; None when all are done. Blocks."""
        if not self._groups or self._sweep is None:
            return None
        group = self._groups.pop(0)
        base = group[0].facts.base_offset
        path = names.segment_file(self.folder, base, names.LOG) + names.CLEANED
        try:
            segment = self._write_group(group, path, self._sweep)
            aborted = self._sweep.transactions.take_retained()
            self._write_companions(segment, aborted)
            self.disk.sync_dir(self.folder)
        except OSError as error:
            raise LogDirFailed("cleaning", path, error) from error
        except BaseException:
            self._remove_unfinished()
            raise
        return CleanedGroup(segment, [old.facts for old in group], aborted, self.truncations)

    def _write_group(self, group: list[DirtySegment], path: str, sweep: BatchSweep) -> Segment:
        """The batches that stay, and the indexes over them in memory."""
        base = group[0].facts.base_offset
        segment = Segment(self.disk, self.folder, base, 0, self.config.log.index_interval_bytes)
        segment.start_indexes()
        file = self._fresh(path)
        try:
            out = _Output(file, segment, self.throttle, self.revoked)
            for old in group:
                sweep.transactions.expect(old.aborted)
                size = old.facts.size if old is group[-1] else -1
                for buf, pos, header in self._batches(old):
                    size -= header.size
                    kept = sweep.sweep(buf, pos, header, last=size == 0)
                    if kept is not None:
                        out.add(kept)
            out.flush()
            file.sync()
            self.stats.bytes_written += segment.size
        finally:
            file.close()
        return segment

    def _write_companions(self, segment: Segment, aborted: list[AbortedTxn]) -> None:
        """Indexes, transaction index and the snapshot at the segment's start move along with it."""
        segment.seal()
        contents = {write.path: write.data for write in segment.index_writes()}
        if aborted:
            contents[segment.path(names.TXN_INDEX)] = transaction_index.encode(aborted)
        snapshot = segment.path(names.SNAPSHOT)
        if self.disk.exists(snapshot):
            contents[snapshot] = self.disk.read(snapshot)
        for path, content in contents.items():
            file = self._fresh(path + names.CLEANED)
            try:
                write_whole(file, content, 0)
                file.sync()
            finally:
                file.close()
        segment.indexes_saved()
        segment.release()

    def discard(self, cleaned: CleanedGroup) -> None:
        """Remove the files of a group that cannot be put in place."""
        cleaned.segment.remove_files(names.CLEANED)

    def _remove_unfinished(self) -> None:
        """A `.cleaned` file shows recovery that a replacement was not begun; none may be left over during
        another one."""
        for name in self.disk.list(self.folder):
            if name.endswith(names.CLEANED):
                self.disk.remove(f"{self.folder}/{name}")

    def _fresh(self, path: str) -> File:
        file = self.disk.open(path, create=True)
        if file.size():
            file.truncate(0)
        return file

    def _batches(self, segment: DirtySegment) -> Iterator[tuple[Buffer, int, BatchHeader]]:
        """Every batch of a segment with a buffer and its place there, the checksum checked."""
        position = 0
        try:
            file = self.disk.open(segment.path)
        except FileNotFoundError as error:  # of this partition alone: the disk works
            raise LogCorrupt(segment.path, 0, "the file is gone") from error
        try:
            while position < segment.facts.size:
                chunk = _chunk(file, position, segment)
                self.throttle.took(len(chunk), self.revoked)
                self.stats.bytes_read += len(chunk)
                for pos, header in batches(chunk, partial_end=True):
                    verify(chunk, pos, header)
                    yield chunk, pos, header
                    self.throttle.breathe()
                    position += header.size
        except (CorruptMessageError, WireError) as error:
            raise LogCorrupt(segment.path, position, str(error)) from None
        finally:
            file.close()


def _chunk(file: File, position: int, segment: DirtySegment) -> bytes:
    """At least one whole batch, most often as many as a chunk holds."""
    left = segment.facts.size - position
    head = file.pread(min(HEADER_SIZE, left), position)
    length = int.from_bytes(head[8:LENGTH_END], signed=True) + LENGTH_END
    if not HEADER_SIZE <= length <= left:
        raise LogCorrupt(segment.path, position, f"a batch of {length} bytes cannot stand here")
    chunk = file.pread(min(max(CHUNK, length), left), position)
    if len(chunk) < length:
        raise LogCorrupt(segment.path, position, "the file is shorter than it was")
    return chunk


class _Output:
    """Collects batches and writes them in chunks, indexing them on the way."""

    def __init__(self, file: File, segment: Segment, throttle: Throttle, revoked: threading.Event) -> None:
        self._file = file
        self._segment = segment
        self._throttle = throttle
        self._revoked = revoked
        self._waiting = bytearray()

    def add(self, batch: Buffer) -> None:
        self._segment.note(self._segment.size + len(self._waiting), read_header(batch))
        self._waiting += batch
        if len(self._waiting) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            write_whole(self._file, self._waiting, self._segment.size)
            self._segment.size += len(self._waiting)
            self._throttle.took(len(self._waiting), self._revoked)
            self._waiting = bytearray()


def cleaning_plan(partition: PartitionLog, now_ms: int) -> CleaningPlan | None:
    """What of a compacted log should be cleaned now; None if it is not worth it yet."""
    config, log = partition.config, partition.segment_log
    if not config.compact or log.failed:
        return None
    found = plan(
        _facts(partition),
        config.compaction,
        checkpoint=partition.clean_offset,
        log_start_offset=log.start_offset,
        log_end_offset=log.end_offset,
        last_stable_offset=partition.last_stable_offset,
        now_ms=now_ms,
    )
    return found if is_due(found, config.compaction) else None


def begin_cleaning(
    partition: PartitionLog, found: CleaningPlan, *, memory_bytes: int, throttle: Throttle, now_ms: int
) -> CleaningJob:
    """A job for a thread that cleans the log up to the plan's end."""
    log = partition.segment_log
    segments = [
        DirtySegment(
            facts,
            names.segment_file(log.path, facts.base_offset, names.LOG),
            partition.store.aborted(facts.base_offset, facts.base_offset, facts.end_offset),
        )
        for facts in _facts(partition)
        if facts.base_offset < found.end
    ]
    return CleaningJob(
        log.disk,
        log.path,
        partition.config,
        found,
        segments,
        last_of_producers(partition.store.state, partition.store.state_at(found.end, now_ms)),
        memory_bytes,
        throttle,
        now_ms,
        partition.truncations,
    )


def is_current(partition: PartitionLog, job: CleaningJob) -> bool:
    """Whether the rest of a job still matches the segments of the log: a truncation or retention ends it."""
    base = job.next_base
    untouched = base is None or partition.segment_log.segments[0].base_offset <= base
    return untouched and partition.truncations == job.truncations


def put_in_place(partition: PartitionLog, cleaned: CleanedGroup, now_ms: int) -> list[Segment] | None:
    """Replace segments by the cleaned one that was made of them, if they have not changed.

    Returns the replaced segments, whose `*.deleted` files may be removed once the folder was synced; None
    if the log was cut, or lost some of them to retention, in the meantime.
    """
    log = partition.segment_log
    by_base = {segment.base_offset: segment for segment in log.segments[:-1]}
    old = [by_base.get(facts.base_offset) for facts in cleaned.old]
    still = [segment for segment in old if segment is not None]
    if cleaned.truncations != partition.truncations or len(still) != len(cleaned.old):
        return None
    log.replace_segments(cleaned.segment, still)
    partition.store.segments_replaced(
        [facts.base_offset for facts in cleaned.old], cleaned.old[-1].end_offset, cleaned.aborted, now_ms
    )
    return still


def _facts(partition: PartitionLog) -> list[CleanableSegment]:
    """The segments with what the plan needs; timestamps are read only where a lag is configured."""
    segments, policy = partition.segment_log.segments, partition.config.compaction
    ends = [*(segment.base_offset for segment in segments[1:]), partition.segment_log.end_offset]
    facts = []
    for segment, end in zip(segments, ends, strict=True):
        if policy.min_compaction_lag_ms > 0 and segment.size:
            segment.load()
        first = segment.first_timestamp if policy.max_compaction_lag_ms < LONG_MAX else -1
        index = segment.path(names.INDEX)
        index_size = partition.segment_log.disk.size(index) if partition.segment_log.disk.exists(index) else 0
        facts.append(
            CleanableSegment(segment.base_offset, end, segment.size, index_size, first, segment.max_timestamp)
        )
    return facts
