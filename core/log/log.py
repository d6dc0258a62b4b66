"""The log: an ordered list of segments that is appended to at its end and read anywhere.

One owner changes a log, on one thread. Nothing here waits for the device except `flush`, `close`,
`truncate_to`, `truncate_fully_and_start_at` and opening; run those off the event loop where that matters, or
use `begin_flush`, whose job may run in a thread beside appends and reads.
"""

import errno
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from rookery.core.disk import Buffer, Disk
from rookery.core.errors import CorruptMessageError, OffsetOutOfRangeError, RecordListTooLargeError
from rookery.core.log import names
from rookery.core.log.appending import Appended, Placed, base_for, has_gap, joined, runs
from rookery.core.log.epochs import LeaderEpochs, encode_epochs, note_epoch, read_epochs
from rookery.core.log.errors import LogClosed, LogCorrupt, LogDirFailed
from rookery.core.log.flush import FlushJob
from rookery.core.log.recovery import Found, first_segment, mark_sparse, open_segments
from rookery.core.log.scan import MAX_RELATIVE_OFFSET, check_stored, checked_batches
from rookery.core.log.segment import LogConfig, Segment
from rookery.core.log.swap import swap_in
from rookery.core.log.timestamps import LATEST, LookUp, TimestampOffset, find, look_up
from rookery.core.wire.batch import BatchHeader, MutableBuffer, stamp
from rookery.core.wire.validation import validate_replica_batches

CHECKED_READS = 256  # one read in this many has its checksums checked
KEPT_OPEN = 4  # sealed segments of one log whose files and indexes stay at hand
_base_offset = attrgetter("base_offset")
_max_timestamp = attrgetter("max_timestamp")
_make = BatchHeader._make


class LogRead(NamedTuple):
    """Whole batches; the first may begin below the offset asked for. `next_offset` is where to go on."""

    data: Buffer
    offset: int
    next_offset: int
    segment_base: int
    position: int


class Log:
    """Use `Log.open`. Offsets in [`start_offset`, `end_offset`) can be read; all below `recovery_point` are
    durable. `failed` is set by the first error that leaves the files in doubt, and refuses every change. Once
    `closed`, no file of it is opened again.

    `sparse` says that compaction may have taken records; the file `partition.sparse` keeps that. In any other log a
    gap between two batches is damage. `damage` is the first damage known of: what it hit is not served.
    """

    __slots__ = (
        "_damage", "_epochs", "_names_changed", "_on_open", "_reads", "_recent", "_rng", "_truncations",
        "closed", "config", "disk", "end_offset", "failed", "path", "recovery_point", "segments",
        "sparse", "start_offset",
    )  # fmt: skip

    def __init__(self, disk: Disk, path: str, config: LogConfig, found: Found, rng: random.Random | None) -> None:
        self.disk = disk
        self.path = path
        self.config = config
        self.segments = found.segments
        self.start_offset = found.start_offset
        self.end_offset = found.end_offset
        self.recovery_point = found.recovery_point
        self.failed = False
        self.closed = False
        self.sparse = found.sparse
        self._damage: LogCorrupt | None = None
        self._epochs = found.epochs
        self._names_changed = found.names_changed
        self._recent: list[Segment] = []
        self._rng = rng
        self._truncations = 0
        self._reads = 0
        self._on_open = self._opens
        for segment in self.segments:
            segment.on_open = self._on_open
        self._set_jitter()

    @staticmethod
    def open(
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        clean: bool = False,
        recovery_point: int | None = None,
        log_start_offset: int = 0,
        now_ms: int = 0,
        sparse: bool = False,
        rng: random.Random | None = None,
        suspect: bool = False,
        listing: list[str] | None = None,
    ) -> "Log":
        """Open the log in a folder, which is made if it is not there. Blocks: use a thread.

        `clean` says that the log was closed in order (the folder's marker was found).
        Otherwise all from `recovery_point` on is checked byte for byte and cut to the longest valid prefix.
        `LogCorrupt` is raised for damage below it, and then nothing was changed. None means that the recovery
        point is unknown: then only the last segment may be cut. Closed segments below it are looked at briefly; all
        of a `suspect` log, which was found damaged before, is read. What does not fit in them is their `damage`.
        `sparse` says that the log is known to have been compacted, if its files do not say so. `rng` draws
        `segment.jitter.ms`. `listing` is what is in the folder, if it is known.
        """
        found = open_segments(
            disk, path, config, clean, recovery_point, log_start_offset, now_ms, suspect, sparse, listing
        )
        return Log(disk, path, config, found, rng)

    @staticmethod
    def begin(disk: Disk, path: str, config: LogConfig, now_ms: int) -> "Log":
        """The log in a folder in which `lay_first_segment` was called and nothing was done since. Opens no file."""
        return Log(disk, path, config, first_segment(disk, path, config, now_ms), None)

    # what it holds

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs, read and compared with the batches when first asked for."""
        if self._epochs is None:
            self._epochs = read_epochs(self.disk, self.path, self.segments, self.start_offset, self.end_offset)
        return self._epochs

    @property
    def damage(self) -> LogCorrupt | None:
        return next((segment.damage for segment in self.segments if segment.damage is not None), self._damage)

    def set_damaged(self, error: LogCorrupt) -> bool:
        """Record damage: of a closed segment only what stands before it is served from now on. False if it is known
        already."""
        closed = next((segment for segment in self.segments[:-1] if segment.log_path == error.path), None)
        if closed is None:
            known, self._damage = self._damage, self._damage or error
            return known is None
        if closed.damage is not None and error.position >= closed.size:
            return False
        closed.set_damaged(error)
        return True

    def segment_of(self, offset: int) -> Segment:
        """The segment whose range holds `offset`."""
        return self.segments[max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)]

    def _from(self, offset: int) -> Iterator[Segment]:
        """The segment whose range holds `offset`, and those after it."""
        return islice(self.segments, max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0), None)

    def size_from(self, offset: int) -> int:
        """Bytes from the batch that holds `offset` to the end."""
        holding, *later = self._from(offset)
        if later:
            self._use(holding)
        return holding.size - holding.seek(offset) + sum(segment.size for segment in later)

    # appending

    def append_as_leader(
        self, buf: MutableBuffer, leader_epoch: int, now_ms: int, batches: Placed | None = None
    ) -> Appended:
        """Give the batches in `buf` the next offsets and this epoch, in place, and write them with one call.

        `batches` are the positions and headers if the caller has checked them (checksums included); else they
        are checked here. All of the batches are appended, or none.
        """
        if batches is None:
            batches = checked_batches(buf)
        if len(buf) > self.config.segment_bytes:
            raise self._too_large(len(buf))
        offset = self.end_offset
        placed = []
        for pos, header in batches:
            stamp(buf, pos, offset, leader_epoch)
            placed.append((pos, _make((offset, header[1], leader_epoch, *header[3:]))))
            offset += header.last_offset_delta + 1
        return self._append(buf, placed, now_ms)

    def append_one_as_leader(
        self, buf: MutableBuffer, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> int:
        """The same for one batch that was checked, as every produce request brings it; its base offset."""
        base_offset, size, config = self.end_offset, len(buf), self.config
        if size > config.segment_bytes:
            raise self._too_large(size)
        if self.failed:
            raise self._in_doubt()
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        stamp(buf, 0, base_offset, leader_epoch)
        try:
            if self.segments[-1].must_close(config, size, last_offset, max_timestamp, now_ms):
                self.roll(now_ms, base_offset)
            self.segments[-1].append_one(buf, last_offset, max_timestamp)
        except LogDirFailed as error:
            self.failed = not error.disk_full
            raise
        epochs = self._epochs or self.epochs
        if leader_epoch > epochs.latest_epoch:
            epochs.assign(leader_epoch, base_offset)
        self.end_offset = last_offset + 1
        return base_offset

    def append_as_follower(self, buf: Buffer, now_ms: int) -> Appended:
        """Append batches with the offsets and epochs they have; they must lie behind the end of the log.

        More than a segment takes is written in several runs, so a failure may leave whole batches appended;
        `end_offset` shows how many. A gap is what compaction left of the leader's log.
        """
        batches = validate_replica_batches(buf, self.end_offset)
        if not self.sparse and has_gap(batches, self.end_offset):
            self._set_sparse()
        active, limit = self.segments[-1], self.config.segment_bytes
        fits = active.size + len(buf) <= limit
        if fits and batches and batches[-1][1].last_offset - active.base_offset <= MAX_RELATIVE_OFFSET:
            return self._append(buf, batches, now_ms)  # as nearly always
        done: list[Appended] = []
        stretches = runs(batches, len(buf), active.base_offset, self.end_offset, limit - active.size, limit)
        for start, stop in stretches:
            run = [(pos - start, header) for pos, header in batches if start <= pos < stop]
            whole = stop - start == len(buf)
            done.append(self._append(buf if whole else memoryview(buf)[start:stop], run, now_ms))
        return done[0] if len(done) == 1 else joined(done, batches)

    def _append(self, data: Buffer, placed: Placed, now_ms: int) -> Appended:
        if self.failed:
            raise self._in_doubt()
        if not placed:
            raise CorruptMessageError(f"{self.path}: there is no batch to append")
        first, last = placed[0][1], placed[-1][1]
        greatest_of = first if first is last else max((header for _, header in placed), key=_max_timestamp)
        max_timestamp = greatest_of.max_timestamp
        last_offset = last.base_offset + last.last_offset_delta
        rolled = None
        try:
            if self.active.must_close(self.config, len(data), last_offset, max_timestamp, now_ms):
                rolled = self.roll(now_ms, base_for(first, last_offset, self.end_offset))
            self.segments[-1].append(data, placed)
        except LogDirFailed as error:
            self.failed = not error.disk_full
            raise
        epochs = self.epochs
        if last.partition_leader_epoch > epochs.latest_epoch:
            for _, header in placed:
                note_epoch(epochs, header)
        self.end_offset = last_offset + 1
        of_max = greatest_of.base_offset + greatest_of.last_offset_delta
        return Appended(first.base_offset, last_offset, max_timestamp, of_max, placed, len(data), rolled)

    def _too_large(self, size: int) -> RecordListTooLargeError:
        return RecordListTooLargeError(
            f"{size} bytes of batches do not fit into a segment of {self.config.segment_bytes}"
        )

    def _in_doubt(self) -> LogDirFailed | LogClosed:
        if self.closed:
            return LogClosed(f"{self.path} was closed")
        return LogDirFailed("writing", self.path, OSError(errno.EIO, "an earlier error left it in doubt"))

    # segments

    def roll(self, now_ms: int, base_offset: int | None = None) -> int:
        """Seal the active segment and begin the next one; returns its base offset."""
        base = self.end_offset if base_offset is None else base_offset
        active = self.active
        if active.size == 0 and active.base_offset == base:
            return base
        self.segments.append(self._new_segment(base, now_ms))
        self._names_changed = True
        self._set_jitter()
        if active.size:
            active.seal()
            self._use(active)
        else:
            # nothing is in it, and its name would stand for offsets that the next one holds
            self.segments.remove(active)
            active.release()
            self._remove(active)
        return base

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        interval = self.config.index_interval_bytes
        segment = Segment.create(self.disk, self.path, base_offset, interval, now_ms, sparse=self.sparse)
        segment.on_open = self._on_open
        return segment

    def _set_sparse(self) -> None:
        """Note that offsets are going to be missing, before they are: the name is durable with the next flush."""
        try:
            mark_sparse(self.disk, self.path)
        except OSError as error:
            raise self._failure("creating", f"{self.path}/{names.SPARSE}", error) from error
        self.sparse = self._names_changed = True
        for segment in self.segments:
            segment.sparse = True

    def _set_jitter(self) -> None:
        bound = min(self.config.segment_jitter_ms, self.config.segment_ms)
        self.active.jitter_ms = self._rng.randrange(bound) if self._rng is not None and bound > 0 else 0

    def _opens(self, segment: Segment) -> None:
        """A segment is about to open its file, for whatever reason."""
        if self.closed:
            raise LogClosed(f"{self.path} was closed")
        if segment is not self.segments[-1]:
            self._use(segment)

    def _use(self, segment: Segment) -> None:
        """Keep a sealed segment at hand, as the one used last."""
        if self._recent and self._recent[-1] is segment:
            return
        if segment in self._recent:
            self._recent.remove(segment)
        self._recent.append(segment)
        self._close_idle()

    def _close_idle(self) -> None:
        """Close the sealed segments not used for longest, but for the last few.

        One that is not durable yet stays open: its descriptor is the one that reports a failed write-back.
        """
        for segment in self._recent[:-KEPT_OPEN]:
            if self._end_of(segment) <= self.recovery_point:
                self._recent.remove(segment)
                segment.save_indexes()
                segment.release()

    def _end_of(self, segment: Segment) -> int:
        """Where the next segment begins."""
        after = bisect_right(self.segments, segment.base_offset, key=_base_offset)
        return self.segments[after].base_offset if after < len(self.segments) else self.end_offset

    # reading

    def read(self, offset: int, max_bytes: int, upper: int | None = None, min_one: bool = True) -> LogRead:
        """Whole batches from `offset` on, none that ends at or above `upper`, at most `max_bytes`.

        With `min_one` the first batch is given whatever its size. At `upper` or the end there is nothing.
        Raises `LogCorrupt` where the batch with `offset` is missing or damaged.
        """
        end = self.end_offset
        if not self.start_offset <= offset <= end:
            raise OffsetOutOfRangeError(
                f"{self.path}: offset {offset} is outside of {self.start_offset} to {end}"
            )
        bound = end if upper is None else min(upper, end)
        if offset < bound:
            for segment in self._from(offset):
                if segment is not self.segments[-1]:
                    self._use(segment)
                extent = segment.read(offset, max_bytes, bound, min_one)
                if extent is not None:
                    data, position, next_offset = extent
                    self._reads += 1
                    if self._reads % CHECKED_READS == 0:
                        check_stored(data, segment.log_path, position)
                    return LogRead(data, offset, next_offset, segment.base_offset, position)
                if segment.damage is not None:
                    raise segment.damage
                if not self.sparse and segment is not self.segments[-1]:
                    raise LogCorrupt(segment.log_path, segment.size, f"offset {offset} is missing behind it")
        return LogRead(b"", offset, offset, self.active.base_offset, self.active.size)

    def headers(self, offset: int, upper: int | None = None) -> Iterator[BatchHeader]:
        """The headers of all batches that end at or after `offset` and start below `upper`."""
        bound = self.end_offset if upper is None else upper
        for segment in self._from(offset):
            found = segment.find(offset)
            for _, header in segment.headers(found[0] if found else segment.size):
                if header.base_offset >= bound:
                    return
                yield header
            if segment.damage is not None:
                raise segment.damage

    def offset_for_timestamp(
        self, timestamp: int, latest: int, look_up: LookUp = look_up
    ) -> tuple[TimestampOffset, int] | None:
        """ListOffsets: the first record not older than `timestamp` and its leader epoch, if below `latest`.

        Negative timestamps mean earliest, latest and greatest, as in the protocol. `look_up` reads the records of
        a batch, which takes long if there are many.
        """
        found = find(self.segments, timestamp, self.start_offset, latest, look_up)
        if found is None:
            return None
        epochs = self.epochs
        return found, epochs.latest_epoch if timestamp == LATEST else epochs.epoch_at(found.offset)

    # shortening

    def truncate_to(self, offset: int) -> bool:
        """Drop every batch that holds `offset` or a later one; False if there is none.

        An epoch that begins at the end is forgotten in any case: a replica that led for a moment and wrote nothing has
        an epoch that no other replica knows.

        A checkpoint must not promise more than the log holds: where the recovery point is kept in a file,
        write the smaller one there before calling this.
        """
        if offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return False
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        keep = bisect_right(self.segments, offset - 1, key=_base_offset)
        if (damage := self.segments[keep - 1].damage) is not None:
            raise damage  # where it would end is not known
        self._drop_tail(keep)
        try:
            self.active.truncate_to(offset)
        except LogDirFailed:
            self.failed = True
            raise
        self._ended_at(self.active.next_offset)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Delete everything; the next offset is `offset`. The same rule holds for recovery points."""
        self._drop_tail(0)
        self.segments = [self._new_segment(offset, now_ms)]
        self._damage = None
        self._names_changed = True
        self.start_offset = offset
        self.epochs.clear()
        self._ended_at(offset)

    def _drop_tail(self, keep: int) -> None:
        """Remove segments from the last one back, durably, so that none can come back behind new batches."""
        dropped = self.segments[keep:]
        for segment in dropped:
            segment.release()
        for segment in reversed(dropped):
            self._remove(segment)
        del self.segments[keep:]
        self._recent = [segment for segment in self._recent if segment in self.segments[:-1]]
        if dropped:
            try:
                self.disk.sync_dir(self.path)
            except OSError as error:
                raise self._failure("syncing", self.path, error) from error

    def _ended_at(self, offset: int) -> None:
        self.end_offset = offset
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, offset)
        self.start_offset = min(self.start_offset, offset)
        self.epochs.truncate_from_end(offset)
        self._set_jitter()

    def advance_start(self, offset: int) -> bool:
        """Hide everything below `offset` (DeleteRecords, a leader's log start); False if it is hidden already."""
        if offset > self.end_offset:
            raise OffsetOutOfRangeError(f"{self.path}: log start {offset} is behind the end {self.end_offset}")
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True

    def take_old(
        self, upper: int, old: Callable[[Segment, int], bool], now_ms: int = 0
    ) -> list[Segment]:
        """Take the oldest segments out of the log, as long as `old(segment, its end offset)` says so.

        None that reaches beyond `upper` is taken. Their files are renamed to `*.deleted`; remove those later
        with `segment.remove_files(names.DELETED)`, when no reader can be using them.
        """
        count, _ = 0, self.epochs  # which may have to be read from what goes
        for segment, after in zip(self.segments, [*self.segments[1:], None], strict=True):
            end = after.base_offset if after else self.end_offset
            if end > upper or (after is None and segment.size == 0) or not old(segment, end):
                break
            count += 1
        if count == len(self.segments):
            self.roll(now_ms)
        taken, self.segments = self.segments[:count], self.segments[count:]
        for segment in taken:
            segment.release()
        for segment in taken:
            try:
                segment.rename_files(names.DELETED)
            except OSError as error:
                raise self._failure("renaming", segment.log_path, error) from error
        self._recent = [segment for segment in self._recent if segment not in taken]
        self._names_changed = self._names_changed or bool(taken)
        self.advance_start(max(self.start_offset, self.segments[0].base_offset))
        return taken

    def replace_segments(self, cleaned: Segment, old: list[Segment]) -> None:
        """Put a compacted segment in the place of the sealed ones it was made of.

        Its files are synced and end in `.cleaned`; theirs end in `.deleted` afterwards and are the caller's to
        remove, once the folder has been synced by a flush.
        """
        first = self.segments.index(old[0])
        if self.segments[first : first + len(old)] != old or self.active in old:
            raise ValueError(f"{self.path}: only sealed segments that follow each other can be replaced")
        for segment in old:
            segment.release()
        if not self.sparse:
            self._set_sparse()
        cleaned.sparse = True
        try:
            swap_in(self.disk, self.path, cleaned.base_offset, old)
        except OSError as error:
            raise self._failure("replacing", old[0].log_path, error) from error
        self.segments[first : first + len(old)] = [cleaned]
        cleaned.on_open = self._on_open
        self._recent = [segment for segment in self._recent if segment not in old]
        self._names_changed = True

    def _remove(self, segment: Segment) -> None:
        try:
            segment.remove_files()
        except OSError as error:
            raise self._failure("removing", segment.log_path, error) from error

    def _failure(self, doing: str, path: str, error: OSError) -> LogDirFailed:
        self.failed = True
        return LogDirFailed(doing, path, error)

    # durability

    def begin_flush(self, up_to: int | None = None) -> FlushJob:
        """Decide what must be synced for everything below `up_to` (by default the end of the log).

        Jobs of one log are run one at a time, in the order in which they were begun.
        """
        target = self.end_offset if up_to is None else min(up_to, self.end_offset)
        job = FlushJob(self.disk, self.path, max(target, self.recovery_point), self._truncations)
        for segment, after in zip(self.segments, [*self.segments[1:], None], strict=True):
            end = after.base_offset if after else self.end_offset
            if end > self.recovery_point and segment.base_offset < target:
                job.add(segment)
                if after is not None:
                    job.sealed.append(segment)
                    job.indexes += segment.index_writes()
        epochs = self._epochs
        if epochs is not None and epochs.changed:
            job.epochs = (f"{self.path}/{names.LEADER_EPOCHS}", encode_epochs(epochs.entries))
            epochs.changed = False
        job.names_changed, self._names_changed = self._names_changed, False
        return job

    def flushed(self, job: FlushJob) -> int:
        """`job` succeeded; returns the recovery point."""
        if job.truncations == self._truncations:  # else what was synced may not be what is there now
            for segment in job.sealed:
                segment.indexes_saved()
            self.recovery_point = max(self.recovery_point, job.up_to)
            self._close_idle()
        return self.recovery_point

    def flush_failed(self) -> None:
        """A job failed: what is on disk is uncertain until the log is opened again."""
        self.failed = True

    def flush(self, up_to: int | None = None) -> None:
        """`begin_flush`, run and `flushed` in one blocking step."""
        job = self.begin_flush(up_to)
        try:
            job.run()
        except LogDirFailed:
            self.failed = True
            raise
        self.flushed(job)

    def close(self) -> None:
        """Make everything durable, indexes too, and close the files."""
        if not self.failed:
            self.active.seal()
            self.flush()
            try:
                for write in self.active.index_writes():
                    write.run(self.disk, sync=True)
                self.disk.sync_dir(self.path)
            except OSError as error:
                raise self._failure("closing", self.path, error) from error
            self.active.indexes_saved()
        self.abandon()

    def abandon(self) -> None:
        """Close the files for good, without writing anything."""
        self.closed = self.failed = True
        for segment in self.segments:
            segment.release()
