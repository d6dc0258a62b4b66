"""One partition on this broker: its log, its producers and its transactions, changed together.

The owner changes a partition on one thread (the event loop). Opening, truncating and closing wait for the
device: run them in a thread while nothing else uses the partition. `begin_flush` gives a job for a thread;
its result is passed to `flushed`.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_files import PartitionFiles
from rookery.broker.log.producer_state import NONE, AppendedBatch, Guard, Origin
from rookery.broker.log.producer_store import ProducerStore
from rookery.broker.log.retention import Reason, SegmentFacts, deletable
from rookery.broker.log.transaction_index import AbortedTxn
from rookery.core.disk import Buffer, Disk
from rookery.core.errors import InvalidRecordError, KafkaStorageError, OffsetOutOfRangeError
from rookery.core.log import Appended, Log, LogCorrupt, LogDirFailed, LogRead, Segment
from rookery.core.log.appending import Placed
from rookery.core.log.epochs import LeaderEpochs
from rookery.core.log.timestamps import LookUp, look_up
from rookery.core.types import NO_EPOCH, TopicPartition
from rookery.core.wire.batch import BatchHeader, MutableBuffer
from rookery.core.wire.markers import read_marker
from rookery.core.wire.records import (
    check_timestamp,
    read_header,
    stamp_append_time,
    validate_produce_batch,
    verify,
)

if TYPE_CHECKING:
    from rookery.broker.log.log_dir import LogDir

HIGH_WATERMARK = -1
"""The offset by which DeleteRecords asks for everything that is committed."""


class Isolation(Enum):
    """How far a reader may see: a follower all, a consumer what is committed, or what is decided too."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE = "last stable offset"


class LeaderAppend(NamedTuple):
    """Where a leader's batch lies; `duplicate` if it did so already, and nothing was appended."""

    base_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    duplicate: bool


class PartitionRead(NamedTuple):
    """Batches with the bounds at the time of the read. `aborted` is None unless read_committed was asked
    for."""

    data: Buffer
    offset: int
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTxn] | None


class FoundOffset(NamedTuple):
    """The answer of ListOffsets; -1 where there is no timestamp or epoch to report."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = NO_EPOCH


def _ignore() -> None:
    """Most logs have no partition to notify."""


class PartitionLog:
    """Use `PartitionLog.open`."""

    def __init__(
        self, partition: TopicPartition, log: Log, config: TopicLogConfig, store: ProducerStore
    ) -> None:
        self.partition = partition
        self.segment_log = log
        self.store = store
        self.files = PartitionFiles()
        self._config = config
        self.high_watermark = log.start_offset
        self.clean_offset: int | None = None
        """Up to where the log is compacted; None if it never was."""
        self.log_dir: LogDir
        """Where it lies; known once `LogDirs` has taken it in."""
        self.uncleanable: str | None = None
        """Why the cleaner leaves it alone."""
        self.scrubbed_offset: int | None = None
        """Up to where this pass of the scrubber has checked the log; None if it has yet to begin."""
        self.truncations = 0
        """How often the log was cut: what was read before such a moment may not be what is there now."""
        self.on_failure: Callable[[LogDirFailed], None] = lambda _error: None
        """Called with an error of the device before it is raised."""
        self.on_damage: Callable[[LogCorrupt], None] = lambda _error: None
        """Called with damage that was found on the way."""
        self.on_start_moved: Callable[[], None] = _ignore
        """Called when records at the beginning were deleted."""

    @staticmethod
    def open(
        disk: Disk,
        folder: str,
        partition: TopicPartition,
        config: TopicLogConfig,
        *,
        clean: bool = False,
        recovery_point: int | None = None,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        now_ms: int = 0,
        suspect: bool = False,
        sparse: bool = False,
        listing: list[str] | None = None,
    ) -> "PartitionLog":
        """Open or make the partition in `folder`. Blocks. Arguments as for `Log.open`, and the high watermark
        as checkpointed, which is brought into the range of what the log still holds."""
        log = Log.open(
            disk,
            folder,
            config.log,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
            suspect=suspect,
            sparse=sparse or config.compact,
            listing=listing,
        )
        opened = PartitionLog(partition, log, config, ProducerStore(disk, log))
        opened.high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        opened.store.restore(opened.high_watermark, now_ms, clean=clean, listing=listing)
        return opened

    @staticmethod
    def begin(
        disk: Disk, folder: str, partition: TopicPartition, config: TopicLogConfig, *, now_ms: int
    ) -> "PartitionLog":
        """A partition in a folder as `Log.begin` finds it. Opens no file."""
        log = Log.begin(disk, folder, config.log, now_ms)
        return PartitionLog(partition, log, config, ProducerStore(disk, log))

    # -- bounds

    @property
    def damage(self) -> LogCorrupt | None:
        """What was found wrong with its files."""
        return self.segment_log.damage

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs; asked for the first time they are read, and may prove to be damaged."""
        try:
            return self.segment_log.epochs
        except (LogDirFailed, LogCorrupt) as error:
            self._report(error)
            raise

    def _report(self, error: LogDirFailed | LogCorrupt) -> None:
        if isinstance(error, LogDirFailed):
            self.on_failure(error)
        else:
            self.on_damage(error)

    @property
    def config(self) -> TopicLogConfig:
        return self._config

    @config.setter
    def config(self, config: TopicLogConfig) -> None:
        self._config = config
        self.segment_log.config = config.log

    @property
    def start_offset(self) -> int:
        return self.segment_log.start_offset

    @property
    def end_offset(self) -> int:
        return self.segment_log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """All below is committed and belongs to no transaction that could still be aborted."""
        unstable = self.store.state.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(self.high_watermark, max(unstable, self.segment_log.start_offset))

    def has_late_transaction(self, now_ms: int, idle_ms_max: int) -> bool:
        """Whether the oldest open transaction has been idle for longer: its coordinator should have ended it."""
        seen_ms = self.store.state.oldest_open_seen_ms
        return seen_ms is not None and now_ms - seen_ms > idle_ms_max

    def advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark forward to `offset`, at most to the log's end; False if it stays."""
        end = self.segment_log.end_offset
        if offset > end:
            offset = end
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.store.state.ended:
            self.store.state.high_watermark_moved(offset)
        return True

    def bound(self, isolation: Isolation) -> int:
        if isolation is Isolation.LOG_END:
            return self.segment_log.end_offset
        return self.high_watermark if isolation is Isolation.HIGH_WATERMARK else self.last_stable_offset

    def bytes_above(self, isolation: Isolation) -> int:
        """Bytes that are appended, but hidden from such a reader; 0 where the log cannot be read: the next read
        raises that error."""
        bound = self.bound(isolation)
        if bound >= self.segment_log.end_offset:
            return 0
        try:
            return self.segment_log.size_from(bound)
        except KafkaStorageError:
            return 0

    # -- appending

    def append_as_leader(
        self, records: MutableBuffer | None, leader_epoch: int, now_ms: int, guard: Guard | None = None
    ) -> LeaderAppend:
        """Check and append the one batch a producer sent, in place; a retry is answered where it lies. The first batch
        of a transaction needs the producer's `guard`.

        Only the header and the checksum are looked at. Raises the `KafkaError` to answer with.
        """
        config = self._config
        header = validate_produce_batch(records, config.max_message_bytes)
        if records is None:
            raise InvalidRecordError("there is no batch to append")
        append_time = NONE
        if config.log_append_time:
            append_time = now_ms
            stamp_append_time(records, 0, now_ms)
            header = read_header(records)
        else:
            check_timestamp(header, now_ms, config.timestamp_before_max_ms, config.timestamp_after_max_ms)
        if header.producer_id != NONE:
            state = self.store.state
            if not state.is_next(header):
                stored = state.duplicate_of(header)
                if stored is not None:
                    return self._known(stored)
                state.check(header, guard=guard)
        return self._append_one(records, header, leader_epoch, now_ms, append_time)

    def append_own(
        self,
        batch: MutableBuffer,
        leader_epoch: int,
        now_ms: int,
        *,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> LeaderAppend:
        """Append a batch that this broker built: a coordinator's records, or an end marker."""
        header = read_header(batch)
        verify(batch, 0, header)
        kept = None
        if header.producer_id != NONE and header.control:
            marker = read_marker(batch)
            if marker is None:
                raise InvalidRecordError("a control batch of a producer must hold an end marker")
            self.store.state.check_marker(
                header.producer_id, header.producer_epoch, marker, transaction_version=transaction_version
            )
            kept = self.store.state.guard_over(header.producer_id, header.producer_epoch, transaction_version)
        elif header.producer_id != NONE:
            self.store.state.check(header, Origin.COORDINATOR, guard)
        appended = self._append_one(batch, header, leader_epoch, now_ms, NONE)
        if kept is not None:
            self.store.state.keep(kept)
        return appended

    def append_as_follower(self, records: Buffer, now_ms: int) -> Appended:
        """Append what was fetched from the leader, with its offsets and epochs; checksums are checked
        again."""
        active = self.segment_log.active
        try:
            appended = self.segment_log.append_as_follower(records, now_ms)
            self._applied(records, appended.batches, active, now_ms)
        except LogDirFailed as error:
            self.on_failure(error)
            raise
        return appended

    def _append_one(
        self, batch: MutableBuffer, header: BatchHeader, leader_epoch: int, now_ms: int, append_time: int
    ) -> LeaderAppend:
        log = self.segment_log
        active = log.segments[-1]
        try:
            base_offset = log.append_one_as_leader(batch, header, leader_epoch, now_ms)
            if header.producer_id == NONE and log.segments[-1] is active:
                self.store.state.end_offset = log.end_offset  # no producer has to be remembered
            else:
                stored = BatchHeader._make((base_offset, header[1], leader_epoch, *header[3:]))
                self._applied(batch, [(0, stored)], active, now_ms)
        except LogDirFailed as error:
            self.on_failure(error)
            raise
        return LeaderAppend(base_offset, log.end_offset - 1, append_time, log.start_offset, False)

    def _applied(self, buf: Buffer, batches: Placed, active: Segment, now_ms: int) -> None:
        """Batches were appended, to `active` unless the log was rolled."""
        if self.segment_log.segments[-1] is active:
            self.store.applied(buf, batches, now_ms)
        else:
            self.store.rolled(buf, batches, now_ms, active.base_offset)

    def _known(self, stored: AppendedBatch) -> LeaderAppend:
        time = stored.timestamp if self._config.log_append_time else NONE
        return LeaderAppend(stored.first_offset, stored.last_offset, time, self.segment_log.start_offset, True)

    # -- reading

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one: bool = True
    ) -> PartitionRead:
        """Whole batches from `offset` up to the bound of `isolation`; none between it and the log's end.

        Raises OffsetOutOfRangeError before the log start offset or after the log's end.
        """
        stable = self.last_stable_offset
        try:
            found = self.segment_log.read(offset, max_bytes, self.bound(isolation), min_one)
        except (LogDirFailed, LogCorrupt) as error:
            self._report(error)
            raise
        aborted = None
        if isolation is Isolation.LAST_STABLE:
            aborted = self._aborted(found)
        return PartitionRead(
            found.data,
            offset,
            found.next_offset,
            self.high_watermark,
            stable,
            self.segment_log.start_offset,
            aborted,
        )

    def _aborted(self, found: LogRead) -> list[AbortedTxn]:
        if not found.data:
            return []
        return self.store.aborted(found.segment_base, found.offset, found.next_offset)

    def offset_for_timestamp(
        self, timestamp: int, isolation: Isolation, look_up: LookUp = look_up
    ) -> FoundOffset | None:
        """ListOffsets: the first record not older than `timestamp` within the bound; -1 to -6 as in the
        protocol.

        May read and decompress a batch, with `look_up`.
        """
        try:
            found = self.segment_log.offset_for_timestamp(timestamp, self.bound(isolation), look_up)
        except (LogDirFailed, LogCorrupt) as error:
            self._report(error)
            raise
        if found is None:
            return None
        return FoundOffset(found[0].offset, found[0].timestamp, found[1])

    # -- shortening

    def delete_records(self, offset: int) -> int:
        """DeleteRecords: let the log start at `offset`; -1 stands for the high watermark. The new log
        start."""
        target = self.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.partition}: records up to {offset} cannot be deleted, "
                f"only those below the high watermark {self.high_watermark}"
            )
        self._advance_start(target)
        return self.segment_log.start_offset

    def follow_log_start(self, leader_start: int) -> None:
        """A follower deletes what its leader has deleted, as far as it knows that to be committed."""
        self._advance_start(min(leader_start, self.high_watermark))

    def _advance_start(self, offset: int) -> None:
        if self.segment_log.advance_start(offset):
            self.store.state.drop_transactions_below(offset)
            self.on_start_moved()

    def expect_cut(self, offset: int) -> None:
        """`offset` and what follows will be dropped: promise no more than what is sure to stay, which is where the
        segment begins, since a batch may have to go as a whole."""
        log = self.segment_log
        if offset >= log.end_offset:
            return
        log.recovery_point = min(log.recovery_point, offset, log.segment_of(offset).base_offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.scrubbed_offset = None
        if self.clean_offset is not None:
            self.clean_offset = min(self.clean_offset, offset)

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Drop `offset` and everything after it, of the log and of what is known of producers. Blocks."""
        self.truncations += 1
        if not self.segment_log.truncate_to(offset):
            return False
        self.store.truncated(now_ms)
        self.high_watermark = min(self.high_watermark, self.segment_log.end_offset)
        self.store.state.high_watermark_moved(self.high_watermark)
        if self.clean_offset is not None:
            self.clean_offset = min(self.clean_offset, self.segment_log.end_offset)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Throw everything away and go on at `offset`. Blocks."""
        self.truncations += 1
        self.segment_log.truncate_fully_and_start_at(offset, now_ms)
        self.store.restarted()
        self.high_watermark = offset
        self.clean_offset = None

    # -- upkeep

    def roll(self, now_ms: int) -> int:
        """Close the active segment, if anything is in it; the base offset of the one that is active then."""
        active = self.segment_log.active
        base = self.segment_log.roll(now_ms)
        if self.segment_log.active is not active:
            self.store.began_segment()
        return base

    def delete_old_segments(self, now_ms: int) -> tuple[list[Segment], tuple[Reason, ...]]:
        """Take out the segments that retention allows. Their files are `*.deleted` from now on and are
        removed after file.delete.delay.ms, when no reader can be using them."""
        found = deletable(
            self._segment_facts(),
            self._config.retention,
            log_start_offset=self.segment_log.start_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        if not found.segments:
            return [], ()
        doomed = {segment.base_offset for segment in self.segment_log.segments[: found.segments]}
        active = self.segment_log.active
        taken = self.segment_log.take_old(
            self.high_watermark, lambda segment, _: segment.base_offset in doomed, now_ms
        )
        if self.segment_log.active is not active:
            self.store.began_segment()
        self.store.segments_gone()
        self.on_start_moved()
        return taken, found.reasons

    def _segment_facts(self) -> list[SegmentFacts]:
        segments = self.segment_log.segments
        ends = [*(segment.base_offset for segment in segments[1:]), self.segment_log.end_offset]
        return [
            SegmentFacts(segment.base_offset, end, segment.size, partial(self._newest_ms, segment, after))
            for segment, end, after in zip(segments, ends, [*segments[1:], segments[-1]], strict=True)
        ]

    def _newest_ms(self, segment: Segment, after: Segment) -> int:
        """Damage neither keeps records for ever nor lets them go early: the newest record may be one that cannot be
        read, but none was written later than the segment behind."""
        try:
            if segment.size:
                segment.load()
            newest = segment.max_timestamp
        except LogCorrupt as error:
            self.on_damage(error)
            newest = NONE
        if segment.damage is not None:
            return max(newest, self.segment_log.disk.modified_ms(after.log_path))
        return newest if newest >= 0 else self.segment_log.disk.modified_ms(segment.log_path)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> list[int]:
        return self.store.state.expire(now_ms, expiration_ms)

    def close(self) -> None:
        """Make everything durable and leave a snapshot, so that the next opening reads no batch. Blocks."""
        if not self.segment_log.failed:
            self.store.snapshot_end()
            self.store.save()
        self.segment_log.close()
