"""One segment: a file of batches, its two indexes, and the other files that belong to it."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rookery.core.disk import Buffer, Disk, File, write_whole
from rookery.core.log import names
from rookery.core.log.errors import LogCorrupt, LogDirFailed
from rookery.core.log.indexes import (
    NO_TIMESTAMP,
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndex,
    Place,
    TimeIndex,
    TimePoint,
)
from rookery.core.log.scan import MAX_RELATIVE_OFFSET, WINDOW, Invalid, headers
from rookery.core.wire.batch import HEADER_SIZE, LENGTH_END, MIN_LENGTH, BatchHeader


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic options that shape the files; the names are the keys with `.` as `_`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096


_STEP = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
_step = _STEP.unpack_from
_STEP_SIZE = _STEP.size
_base = struct.Struct(">q").unpack_from
_NOWHERE = -1


class Extent(NamedTuple):
    """Whole batches found by a read: the bytes, where they lie, and the offset to go on from."""

    data: Buffer
    position: int
    next_offset: int


class Segment:
    """Batches from `base_offset` on.

    Of an unused segment only this object is kept: the file is opened and the indexes are loaded by the first read or
    append, and `release` lets go of them again.

    `sparse` says that offsets may be missing between its batches, because compaction took their records; in any
    other segment a gap is damage. `damage` says why what stands behind `size` is not served, though it is in the
    file.
    """

    __slots__ = (
        "_disk", "_file", "_first_timestamp", "_folder", "_index", "_interval", "_max_timestamp", "_next_offset",
        "_offset_of_max", "_read_offset", "_read_position", "_resume_offset", "_resume_position", "_times",
        "_unindexed", "base_offset", "created_ms", "damage", "index_bytes", "jitter_ms", "on_open", "size", "sparse",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, size: int, interval: int, *, sparse: bool = False
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._interval = interval
        self._file: File | None = None
        self._index: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._next_offset = base_offset if size == 0 else _NOWHERE
        self._first_timestamp: int | None = None
        self._unindexed = 0
        self._read_offset = self._read_position = _NOWHERE  # where the last read began
        self._resume_offset = self._resume_position = _NOWHERE  # and ended
        self.base_offset = base_offset
        self.size = size
        self.on_open: Callable[[Segment], None] = _ignore
        """Asked before the file is opened: whoever owns the segment bounds how many are open at a time."""
        self.sparse = sparse
        self.damage: LogCorrupt | None = None
        self.created_ms = 0
        self.jitter_ms = 0
        self.index_bytes = 0  # what the larger index would need for the next batch; the time index keeps one free
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max = base_offset

    @staticmethod
    def create(
        disk: Disk, folder: str, base_offset: int, interval: int, now_ms: int, *, sparse: bool = False
    ) -> "Segment":
        """A new, empty segment; its name is durable after the next flush."""
        segment = Segment(disk, folder, base_offset, 0, interval, sparse=sparse)
        segment.created_ms = now_ms
        segment._index, segment._times = OffsetIndex(base_offset), TimeIndex(base_offset)
        try:
            segment._file = disk.open(segment.log_path, create=True)
            if segment._file.size():
                segment._file.truncate(0)
        except OSError as error:
            segment.release()
            raise LogDirFailed("creating", segment.log_path, error) from error
        return segment

    # what it is

    def path(self, suffix: str) -> str:
        return names.segment_file(self._folder, self.base_offset, suffix)

    @property
    def log_path(self) -> str:
        return self.path(names.LOG)

    @property
    def file(self) -> File:
        if self._file is None:
            self.on_open(self)
            try:
                self._file = self._disk.open(self.log_path)
            except FileNotFoundError as error:  # of this partition alone: the disk works
                raise LogCorrupt(self.log_path, 0, "the file is gone") from error
            except OSError as error:
                raise LogDirFailed("opening", self.log_path, error) from error
        return self._file

    @property
    def next_offset(self) -> int:
        """One more than the last offset in the segment."""
        self._learn()
        return self._next_offset

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in the segment; -1 if there is none."""
        self._learn()
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the first batch that has the greatest timestamp."""
        self._learn()
        return self._offset_of_max

    def _learn(self) -> None:
        """Look into a segment that was not used yet, without keeping its file and indexes."""
        if self._next_offset == _NOWHERE:
            self.load()
            self.release()

    @property
    def first_timestamp(self) -> int:
        """The greatest timestamp of the first batch, from which `segment.ms` counts; -1 if there is none."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = next(self.headers(0))[1].max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def must_close(
        self, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether batches of `size` bytes that end at `last_offset` belong into another segment."""
        used = self.size
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if used == 0:
            return False
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        waited = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return (
            used + size > config.segment_bytes
            or waited > config.segment_ms - self.jitter_ms
            or self.index_bytes > config.segment_index_bytes
        )

    # indexes

    def load(self) -> tuple[OffsetIndex, TimeIndex]:
        """The indexes: from memory, from their files, or from the batches where the files are not sound.

        Batches behind the last entry are walked in any case; that gives the end of the segment and adds the
        entries that a shortened index lacks.
        """
        if self._index is not None and self._times is not None:
            return self._index, self._times
        index = OffsetIndex(self.base_offset, self._index_content(names.INDEX))
        times = TimeIndex(self.base_offset, self._index_content(names.TIME_INDEX))
        last_time = times.last()
        if not index.is_sound(self.size) or (last_time is None and self.size):
            return self.rebuild()
        self._index, self._times = index, times
        try:
            sound = self._catch_up(index.last(), last_time) and times.is_sound(self._next_offset)
            if not sound or (last_time is not None and not self._closes(last_time)):
                return self.rebuild()
        except LogCorrupt:
            return self.rebuild()
        return self.load()

    def last_indexed(self) -> Place | None:
        """The last entry of the offset index as it stands in the file; None if there is none that could be one."""
        path = self.path(names.INDEX)
        try:
            if not self._disk.exists(path):
                return None
            file = self._disk.open(path)
            try:
                size = file.size()
                entry = file.pread(OFFSET_ENTRY, size - OFFSET_ENTRY) if size >= OFFSET_ENTRY else b""
            finally:
                file.close()
        except OSError as error:
            raise LogDirFailed("reading", path, error) from error
        last = OffsetIndex(self.base_offset, entry).last() if size % OFFSET_ENTRY == 0 else None
        return last if last is not None and 0 <= last.position < self.size else None

    def _index_content(self, suffix: str) -> bytes | None:
        path = self.path(suffix)
        try:
            return self._disk.read(path) if self._disk.exists(path) else None
        except OSError as error:
            raise LogDirFailed("reading", path, error) from error

    def _catch_up(self, last: Place | None, last_time: TimePoint | None) -> bool:
        """Walk the batches from the last index entry on; False if that entry does not fit its batch."""
        self._max_timestamp, self._offset_of_max = last_time or (NO_TIMESTAMP, self.base_offset)
        self._unindexed, self._next_offset, self.index_bytes = 0, self.base_offset, 0
        for position, header in self.headers(last.position if last else 0):
            if last is not None and position == last.position and header.last_offset != last.last_offset:
                return False
            self.note(position, header)
        return True

    def _closes(self, last_time: TimePoint) -> bool:
        """Whether an entry is what its batch says, and the greatest timestamp of the segment.

        A segment is closed with its greatest timestamp as the last entry, so a batch beyond it shows a time
        index that was cut short.
        """
        found = self.find(last_time.last_offset)
        if found is None or self._max_timestamp > last_time.timestamp:
            return False
        return (found[1].max_timestamp, found[1].last_offset) == last_time

    def rebuild(self) -> tuple[OffsetIndex, TimeIndex]:
        """Both indexes anew from the batch headers. Raises `LogCorrupt` where a batch is missing."""
        self.start_indexes()
        expected = self.base_offset
        for position, header in self.headers(0):
            if header.base_offset != expected and not self.sparse:
                self._index = self._times = None
                raise self._gap(position, header.base_offset, expected)
            self.note(position, header)
            expected = header.next_offset
        return self.load()

    def start_indexes(self) -> None:
        """Empty indexes, to be filled by `note` from the segment's first batch on."""
        self._index, self._times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._unindexed, self._next_offset, self.index_bytes = 0, self.base_offset, 0
        self._max_timestamp, self._offset_of_max = NO_TIMESTAMP, self.base_offset
        self._read_offset = self._resume_offset = _NOWHERE

    def note(self, position: int, header: BatchHeader) -> None:
        """Take one more batch into account."""
        self._note(position, header.last_offset, header.max_timestamp, header.size)

    def _note(self, position: int, last_offset: int, max_timestamp: int, size: int) -> None:
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max = max_timestamp, last_offset
        if self._unindexed > self._interval and self._index is not None and self._times is not None:
            self._index.append(last_offset, position)
            self._times.append(self._max_timestamp, self._offset_of_max)
            self._unindexed = 0
            self.index_bytes = max((len(self._index) + 1) * OFFSET_ENTRY, (len(self._times) + 2) * TIME_ENTRY)
        self._unindexed += size
        self._next_offset = last_offset + 1

    # damage

    def set_damaged(self, error: LogCorrupt) -> None:
        """Serve only what stands before the damage. The file stays as it is."""
        self.release()
        self.damage = error
        self.size = min(self.size, error.position)
        self._next_offset = self.base_offset if self.size == 0 else _NOWHERE

    def _gap(self, position: int, found: int, expected: int) -> LogCorrupt:
        return LogCorrupt(self.log_path, position, f"offset {found} stands where {expected} is next")

    # reading

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        try:
            yield from headers(self, position, self.size)
        except Invalid as error:
            raise LogCorrupt(self.log_path, error.position, error.why) from None
        except OSError as error:
            raise LogDirFailed("reading", self.log_path, error) from error

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or after `offset`."""
        return next(self.headers(self.seek(offset)), None)

    def seek(self, offset: int) -> int:
        """Where the first batch starts that ends at or after `offset`: one lookup and a short walk."""
        place = self.load()[0].before(offset)
        position = place.position if place else 0
        while position < self.size:
            window = self._pread(min(WINDOW, self.size - position), position)
            if place is not None and len(window) >= _STEP_SIZE:
                base, _, delta = _step(window)
                if base + delta != place.last_offset:  # the index is wrong
                    self.rebuild()
                    return self.seek(offset)
                place = None
            at = self._walk(window, position, offset)
            if at >= 0:
                return position + at
            position -= at
        return self.size

    def _walk(self, window: bytes, position: int, offset: int) -> int:
        """Where in the window the batch with `offset` starts; or minus the distance to go on from."""
        at, end = 0, len(window) - _STEP_SIZE
        while at <= end:
            base, length, delta = _step(window, at)
            if base + delta >= offset:
                return at
            if length < MIN_LENGTH:
                raise LogCorrupt(self.log_path, position + at, f"a batch cannot have length {length}")
            at += LENGTH_END + length
        if at == 0:
            raise LogCorrupt(self.log_path, position, "a batch header is cut short")
        return -at

    def before_timestamp(self, timestamp: int) -> int:
        """A position with no record of that time or a later one before it."""
        point = self.load()[1].before(timestamp)
        if point is None:
            return 0
        found = self.find(point.last_offset)
        if found is None or (found[1].max_timestamp, found[1].last_offset) != point:
            self.rebuild()
            return self.before_timestamp(timestamp)
        return found[0]

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of one batch."""
        return self._pread(header.size, position)

    def read(self, offset: int, max_bytes: int, upper: int, min_one: bool) -> Extent | None:
        """Whole batches from the one that holds `offset`, all ending below `upper`; None if there is none.

        Raises `LogCorrupt` where that batch is missing. A gap further on is met by the next read; the index, which
        is checked against the batches, shows that nothing was taken out in between.
        """
        if offset == self._resume_offset:
            position = self._resume_position
        elif offset == self._read_offset:  # another follower, a moment later
            position = self._read_position
        else:
            position = self.seek(offset)
        if position >= self.size:
            return None
        chunk = self._pread(max(min(max_bytes, self.size - position), HEADER_SIZE), position)
        if not self.sparse and (base := _base(chunk)[0]) > offset:
            raise self._gap(position, base, offset)
        length, next_offset = self._whole(chunk, position, max_bytes, upper, offset)
        if length == 0 and min_one:
            base, size, delta = _step(chunk, 0)
            if base + delta < upper:
                chunk = self._pread(size + LENGTH_END, position)
                length, next_offset = len(chunk), base + delta + 1
        self._read_offset, self._read_position = offset, position
        self._resume_offset, self._resume_position = next_offset, position + length
        return Extent(chunk if length == len(chunk) else memoryview(chunk)[:length], position, next_offset)

    def _whole(self, chunk: bytes, position: int, limit: int, upper: int, offset: int) -> tuple[int, int]:
        """How many bytes of `chunk` are whole batches within the limits, and the offset that follows them."""
        end, last_step = min(limit, len(chunk)), len(chunk) - _STEP_SIZE
        at, next_offset, expected = self._known_boundary(chunk, position, end, upper), offset, _NOWHERE
        while at <= last_step:
            base, length, delta = _step(chunk, at)
            if length < MIN_LENGTH:
                raise LogCorrupt(self.log_path, position + at, f"a batch cannot have length {length}")
            if base != expected >= 0 and not self.sparse:
                break  # the next read finds it missing
            following = at + LENGTH_END + length
            if following > end or base + delta >= upper:
                next_offset = max(base, offset)
                break
            at = following
            expected = next_offset = base + delta + 1
        return at, next_offset

    def _known_boundary(self, chunk: bytes, position: int, end: int, upper: int) -> int:
        """A batch boundary inside the chunk that the index knows, so that few batches are left to walk."""
        if self._index is None or end <= self._interval:
            return 0
        place = self._index.boundary(position + end - _STEP_SIZE, upper - 1)
        if place is None or place.position <= position:
            return 0
        at = place.position - position
        base, _, delta = _step(chunk, at)
        return at if base + delta == place.last_offset else 0

    def pread(self, size: int, position: int) -> bytes:
        """As of a file, which is opened again if it was closed in the meantime."""
        return self.file.pread(size, position)

    def _pread(self, size: int, position: int) -> bytes:
        try:
            found = self.file.pread(size, position)
        except OSError as error:
            raise LogDirFailed("reading", self.log_path, error) from error
        if len(found) != size:
            raise LogCorrupt(self.log_path, position, f"{size - len(found)} bytes are missing at the end")
        return found

    # writing

    def append(self, data: Buffer, placed: list[tuple[int, BatchHeader]]) -> None:
        """Write a run of batches with one system call. After a failure the file is as it was."""
        self._write(data, placed[0][1].max_timestamp)
        for pos, header in placed:
            self.note(self.size + pos, header)
        self.size += len(data)

    def append_one(self, batch: Buffer, last_offset: int, max_timestamp: int) -> None:
        """The same for one batch."""
        self._write(batch, max_timestamp)
        size = len(batch)
        self._note(self.size, last_offset, max_timestamp, size)
        self.size += size

    def _write(self, data: Buffer, first_timestamp: int) -> None:
        if self._index is None:
            self.load()
        try:
            write_whole(self._file or self.file, data, self.size)
        except OSError as error:
            raise LogDirFailed("writing", self.log_path, error) from error
        if self.size == 0:
            self._first_timestamp = first_timestamp

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds `offset` and all after it."""
        index, times = self.load()
        found = self.find(offset)
        if found is None:
            return
        self.cut(found[0])
        index.truncate(found[0])
        times.truncate(found[1].base_offset)
        self._catch_up(index.last(), times.last())

    def cut(self, position: int) -> None:
        """Make the file end at `position`."""
        try:
            self.file.truncate(position)
        except OSError as error:
            raise LogDirFailed("truncating", self.log_path, error) from error
        self.size = position
        self._read_offset = self._resume_offset = _NOWHERE
        if position == 0:
            self._first_timestamp = None

    # the end of its life

    def seal(self) -> None:
        """No batch will be added: the greatest timestamp becomes the last entry of the time index."""
        _, times = self.load()
        if self._max_timestamp > NO_TIMESTAMP:
            times.append(self._max_timestamp, self._offset_of_max)

    def index_writes(self) -> list["IndexWrite"]:
        """What the index files lack of what is in memory."""
        writes = []
        indexes = ((names.INDEX, OFFSET_ENTRY, self._index), (names.TIME_INDEX, TIME_ENTRY, self._times))
        for suffix, width, index in indexes:
            if index is not None and index.saved != len(index):
                since = max(index.saved, 0)
                writes.append(IndexWrite(self.path(suffix), since * width, index.encode(since)))
        return writes

    def indexes_saved(self) -> None:
        for index in (self._index, self._times):
            if index is not None:
                index.saved = len(index)

    def save_indexes(self) -> None:
        """Bring the index files up to what is known."""
        for write in self.index_writes():
            try:
                write.run(self._disk, sync=False)
            except OSError as error:
                raise LogDirFailed("writing", write.path, error) from error
        self.indexes_saved()

    def release(self) -> None:
        """Close the file and forget the indexes; the next use brings them back."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._index = self._times = None
        self._read_offset = self._resume_offset = _NOWHERE

    def rename_files(self, suffix: str) -> None:
        """Give every file of the segment a further ending."""
        for path in self._paths():
            self._disk.rename(path, path + suffix)

    def remove_files(self, suffix: str = "") -> None:
        """Delete every file of the segment, the batches last."""
        for path in reversed(self._paths(suffix)):
            self._disk.remove(path)

    def _paths(self, suffix: str = "") -> list[str]:
        paths = [self.path(kind) + suffix for kind in names.OF_A_SEGMENT]
        return [path for path in paths if self._disk.exists(path)]


def _ignore(_: Segment) -> None:
    return


class IndexWrite(NamedTuple):
    """Bytes for an index file, to stand behind its first `keep` bytes."""

    path: str
    keep: int
    data: bytes

    def run(self, disk: Disk, *, sync: bool) -> None:
        file = disk.open(self.path, create=True)
        try:
            if file.size() != self.keep:
                file.truncate(self.keep)
            if self.data:
                write_whole(file, self.data, self.keep)
            if sync:
                file.sync()
        finally:
            file.close()
