"""Bytes in, frames out: the four-byte size in front of every message, without a socket."""

import mmap
from collections.abc import Iterator
from struct import Struct as Layout

from rookery.core.wire.primitives import WireError

_SIZE = Layout(">i")

READ_SIZE = 64 * 1024
READ_SIZE_MAX = 1 << 20
"""Room handed out at once: more would not be faster, and received bytes are counted sooner."""
_GROWTH = 4
_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class FrameReader:
    """Cuts a stream into frames inside one reusable buffer.

    The shell asks for room with `get_buffer`, reports what arrived with `received`, then goes through
    `frames()`. Each frame is a view into the buffer and is valid until the next `get_buffer`: whoever needs
    it longer copies. A size below zero or above `limit` is refused as soon as its four bytes are there.

    Memory follows what has arrived, not what was announced: a grown buffer is address space, of which the
    system gives each page when the first byte comes to lie in it. So it may grow in large steps, which spares
    copying, and no byte of it is zeroed beforehand.
    """

    def __init__(self, limit: int, read_size: int = READ_SIZE, keep_size: int | None = None) -> None:
        """The buffer begins with `read_size`; one that grew stays, up to `keep_size`, for the next frames."""
        self.limit = limit
        self._read_size = read_size
        self._keep_size = 16 * read_size if keep_size is None else keep_size
        self._least_room = max(1, read_size // 2)
        self._buffer: bytearray | mmap.mmap = bytearray(read_size)
        self._view = memoryview(self._buffer)
        self._start = 0  # first byte not yet given out
        self._filled = 0  # end of what has arrived

    @property
    def buffered(self) -> int:
        """Bytes that arrived and are not part of a frame given out."""
        return self._filled - self._start

    @property
    def awaited(self) -> int:
        """Size of the frame whose first bytes are here and whose rest is not, with its size field; 0 if
        none."""
        here = self._filled - self._start
        if here < 4:
            return 0
        size: int = _SIZE.unpack_from(self._buffer, self._start)[0] + 4
        return size if here < size else 0

    def shrink(self) -> None:
        """Give a grown buffer back between two frames: no data is expected soon."""
        if self._start == self._filled and len(self._buffer) > self._read_size:
            self._replace(self._read_size)

    def drop(self) -> None:
        """Nothing more will come: give all memory back."""
        self._buffer = bytearray(0)
        self._view = memoryview(self._buffer)
        self._start = self._filled = 0

    def get_buffer(self) -> memoryview:
        """Room for at least one more byte; ends the life of the frames given out before."""
        if self._start == self._filled:
            self._start = self._filled = 0
            if len(self._buffer) > self._keep_size:
                self._replace(self._read_size)
        elif len(self._buffer) - self._filled < self._least_room:
            self._make_room()
        return self._view[self._filled : self._filled + READ_SIZE_MAX]

    def received(self, count: int) -> None:
        """`count` bytes were written into the buffer handed out last."""
        if not 0 <= count <= len(self._buffer) - self._filled:
            raise ValueError(f"{count} bytes received into room for {len(self._buffer) - self._filled}")
        self._filled += count

    def frames(self) -> Iterator[memoryview]:
        """The complete frames, in order, without their sizes."""
        while self._filled - self._start >= 4:
            (size,) = _SIZE.unpack_from(self._buffer, self._start)
            if not 0 <= size <= self.limit:
                raise WireError(f"frame of {size} bytes refused: sizes go from 0 to {self.limit}{_guess(size)}")
            begin = self._start + 4
            if self._filled - begin < size:
                return
            self._start = begin + size
            yield self._view[begin : self._start]

    def _make_room(self) -> None:
        """Bring the unfinished frame to the front, in a larger buffer if it fills half of this one."""
        waiting = self._filled - self._start
        if waiting * 2 > len(self._buffer):
            self._replace(self._grown())
        else:
            self._view[:waiting] = self._view[self._start : self._filled]
            self._start, self._filled = 0, waiting

    def _grown(self) -> int:
        """Enough for the whole frame if that is a reasonable multiple of what is here, or if this buffer is
        too large to be kept anyway."""
        size = len(self._buffer)
        needed = max(2 * size, 1 << (self.awaited + self._least_room).bit_length())
        return needed if size >= self._keep_size else min(needed, _GROWTH * size)

    def _replace(self, size: int) -> None:
        """Views of the old buffer may still be held somewhere, so it is left behind rather than resized."""
        waiting = self._view[self._start : self._filled]
        self._buffer = bytearray(size) if size <= self._read_size else mmap.mmap(-1, size, _ANONYMOUS)
        self._view = memoryview(self._buffer)
        self._view[: len(waiting)] = waiting
        self._start, self._filled = 0, len(waiting)


def _guess(size: int) -> str:
    """What the four bytes of a size that cannot be are likely to begin, for who has to find out."""
    first = size.to_bytes(4, "big", signed=True)
    if first.startswith(b"\x16\x03"):
        return "; this is how TLS begins: the client has SSL or SASL_SSL, the listener has not"
    if first in (b"GET ", b"POST", b"HEAD", b"PUT ", b"PRI "):
        return "; this is how HTTP begins"
    return ""
