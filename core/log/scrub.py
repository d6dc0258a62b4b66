"""Checks of closed segments: a quick one at start-up, and one of every byte, a slice at a time.

`check_closed` takes a handful of small reads, whatever the segment's size. The last entry of the offset index pins a
batch to a byte: nothing can have been removed from the file, or added to it, before that byte. From there a short walk
leads to the end, which must be the end of the file and where the next segment starts. Only where something does not
fit are all batch headers of the segment read. That distinguishes a damaged index, which is rebuilt when it is used,
from damaged batches. Checksums are left to `SegmentScrub`.
"""

import errno
from collections.abc import Callable, Iterator

from rookery.core.disk import Disk, File
from rookery.core.log.errors import LogCorrupt
from rookery.core.log.scan import Invalid, dense, headers, verified
from rookery.core.log.segment import Segment
from rookery.core.wire.batch import BatchHeader


def check_closed(segment: Segment, next_base: int) -> None:
    """Set the segment's damage, if there is any to be seen. Blocks."""
    try:
        if not _ends_as_indexed(segment, next_base):
            _walk(segment, 0, segment.base_offset, next_base)
    except Invalid as damage:
        segment.set_damaged(LogCorrupt(segment.log_path, damage.position, damage.why))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        segment.set_damaged(LogCorrupt(segment.log_path, 0, "the device cannot read it"))
    finally:
        segment.release()


def _ends_as_indexed(segment: Segment, next_base: int) -> bool:
    """Whether the first batch, the last entry of the index and all behind it fit each other and the next segment."""
    last = segment.last_indexed()
    try:
        if last is None:
            return False
        _, first = next(headers(segment.file, 0, segment.size))
        _, indexed = next(headers(segment.file, last.position, segment.size))
        if indexed.last_offset != last.last_offset or (first.base_offset != segment.base_offset and not segment.sparse):
            return False
        _walk(segment, last.position, indexed.base_offset, next_base)
    except (Invalid, StopIteration):
        return False
    return True


def _walk(segment: Segment, position: int, next_offset: int, next_base: int) -> None:
    """From a batch that begins with `next_offset` to the end of the file. Raises `Invalid` where it does not fit."""
    found = headers(segment.file, position, segment.size)
    for at, header in found if segment.sparse else dense(found, next_offset):
        if header.base_offset < next_offset or header.next_offset > next_base:
            raise Invalid(at, f"offset {header.base_offset} stands where {next_offset} is next")
        next_offset = header.next_offset
    if next_offset != next_base and not segment.sparse:
        raise Invalid(segment.size, f"offsets {next_offset} to {next_base}, where the next segment starts, are missing")


_GONE = (errno.ENOENT, errno.EIO, errno.ESTALE)
"""The file is not there, or its device cannot read it: to readers that is damage, whatever the cause."""


class SegmentScrub:
    """Reads a closed segment that ends where the next begins, at `next_base`, with a descriptor of its own.

    `step` is for a thread; `position` is how far it came.
    """

    def __init__(self, disk: Disk, segment: Segment, next_base: int) -> None:
        self._disk = disk
        self._path = segment.log_path
        self._base = segment.base_offset
        self._size = segment.size
        self._sparse = segment.sparse
        self._next_base = next_base
        self._next_offset = segment.base_offset
        self._file: File | None = None
        self._batches: Iterator[tuple[int, BatchHeader]] | None = None
        self.position = 0

    def step(self, size: int, breathe: Callable[[], None] = lambda: None) -> bool:
        """Check about `size` more bytes; False when all are. Raises `LogCorrupt`; calls `breathe` between batches."""
        try:
            if self._batches is None:
                self._batches = self._open()
            until = self.position + size
            for position, header in self._batches:
                self.position = position + header.size
                self._next_offset = header.next_offset
                if self.position >= until:
                    return True
                breathe()
            self._check_end()
        except Invalid as damage:
            raise LogCorrupt(self._path, damage.position, damage.why) from None
        except OSError as error:
            if error.errno not in _GONE:
                raise
            raise LogCorrupt(self._path, self.position, str(error.strerror)) from error
        return False

    def _open(self) -> Iterator[tuple[int, BatchHeader]]:
        self._file = self._disk.open(self._path)
        found = verified(self._file, self._base, self._size, self._next_base)
        return found if self._sparse else dense(found, self._base)

    def _check_end(self) -> None:
        size = self._file.size() if self._file is not None else 0
        if size != self._size:
            raise Invalid(min(size, self._size), f"the file has {size} bytes instead of {self._size}")
        if self._next_offset != self._next_base and not self._sparse:
            missing = f"offsets {self._next_offset} to {self._next_base}, where the next segment starts, are missing"
            raise Invalid(self._size, missing)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
