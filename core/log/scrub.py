"""Checking every byte of a closed segment, a slice at a time."""

import errno
from collections.abc import Callable, Iterator

from rookery.core.disk import Disk, File
from rookery.core.log.errors import LogCorrupt
from rookery.core.log.scan import Invalid, dense, verified
from rookery.core.log.segment import Segment
from rookery.core.wire.batch import BatchHeader

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
