"""Walking the batches of a segment file: by headers alone, or checking every byte."""

import struct
from collections.abc import Iterable, Iterator
from typing import Protocol

from crc32c import crc32c

from rookery.core.disk import Buffer, File
from rookery.core.errors import CorruptMessageError
from rookery.core.log.errors import LogCorrupt
from rookery.core.wire.batch import (
    CRC_FROM,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MIN_LENGTH,
    BatchHeader,
    batches,
    verify,
)
from rookery.core.wire.primitives import WireError

CHUNK = 1 << 20
WINDOW = 4096
MAX_RELATIVE_OFFSET = 2**31 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">8xi")
_unpack = _HEADER.unpack_from
_make = BatchHeader._make


class Readable(Protocol):
    """Where batches are read from."""

    def pread(self, size: int, position: int) -> bytes: ...


class Invalid(Exception):
    """What stands at `position` is not a whole and undamaged batch that may stand there."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"{why} at byte {position}")
        self.position = position
        self.why = why


def headers(file: Readable, position: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers from `position` to `size`; record bytes are stepped over, not read.

    Raises `Invalid` where a header cannot be one.
    """
    window, start = b"", position
    while position < size:
        at = position - start
        if len(window) - at < HEADER_SIZE:
            window, start, at = file.pread(WINDOW, position), position, 0
        if len(window) - at < HEADER_SIZE:
            raise Invalid(position, "a batch header is cut short")
        header = _make(_unpack(window, at))
        following = position + LENGTH_END + header.batch_length
        if header.magic != MAGIC or header.batch_length < MIN_LENGTH or following > size:
            raise Invalid(position, f"no batch has magic {header.magic} and length {header.batch_length} here")
        yield position, header
        position = following


def dense(
    found: Iterable[tuple[int, BatchHeader]], next_offset: int, below: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a log that was never compacted: each begins where the one before it ends.

    Raises `Invalid` at a batch that does not, unless it begins at or behind `below`.
    """
    for position, header in found:
        if header.base_offset != next_offset and (below is None or next_offset < below):
            raise Invalid(position, f"offset {header.base_offset} stands where {next_offset} is next")
        next_offset = header.next_offset
        yield position, header


def verified(
    file: File, base_offset: int, size: int, limit: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch of a segment, its checksum and its place in the order checked, in one pass over the bytes.

    Raises `Invalid` at the end of the longest valid prefix, if that is not the whole file. Offsets end below
    `limit`, where the next segment starts. Checksums do not cover offsets, so a batch that leaves a gap (as
    compaction does) is believed only when the batch after it stands behind it.
    """
    cap = base_offset + MAX_RELATIVE_OFFSET if limit is None else min(limit - 1, base_offset + MAX_RELATIVE_OFFSET)
    next_offset = base_offset
    held: list[tuple[int, BatchHeader]] = []
    try:
        for position, header in _sound(file, size):
            last = header.base_offset + header.last_offset_delta
            if header.base_offset < next_offset or header.last_offset_delta < 0 or last > cap:
                raise _Misplaced(held[0][0] if held else position, header.base_offset, next_offset)
            if held:
                yield held.pop()
            if header.base_offset == next_offset:
                yield position, header
            else:
                held.append((position, header))
            next_offset = last + 1
    except _Misplaced as error:
        position, found, expected = error.args
        raise Invalid(position, f"offset {found} stands where {expected} is next") from None
    except Invalid:
        yield from held
        raise
    yield from held


class _Misplaced(Exception):
    """A batch whose offsets do not fit its neighbours."""


def _sound(file: File, size: int) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a file, as long as their checksums fit."""
    position = 0
    while position < size:
        chunk = file.pread(min(max(CHUNK, _batch_size(file, position, size)), size - position), position)
        view, at, end = memoryview(chunk), 0, len(chunk)
        while end - at >= HEADER_SIZE:
            header = _make(_unpack(chunk, at))
            stop = at + LENGTH_END + header.batch_length
            if header.magic != MAGIC or header.batch_length < MIN_LENGTH:
                why = f"no batch has magic {header.magic} and length {header.batch_length}"
                raise Invalid(position + at, why)
            if stop > end:
                break
            if crc32c(view[at + CRC_FROM : stop]) != header.crc:
                raise Invalid(position + at, f"the checksum of the batch at offset {header.base_offset} is wrong")
            yield position + at, header
            at = stop
        if at == 0:  # the file has become shorter than it was
            raise Invalid(position, "a batch is cut short")
        position += at


def _batch_size(file: File, position: int, size: int) -> int:
    """The size that the batch at `position` claims, if it could be true."""
    head = file.pread(LENGTH_END, position)
    if size - position < HEADER_SIZE or len(head) < LENGTH_END:
        raise Invalid(position, "a batch header is cut short")
    length: int = _LENGTH.unpack(head)[0]
    if not MIN_LENGTH <= length <= size - position - LENGTH_END:
        raise Invalid(position, f"a batch that says it has {length} bytes is cut short or damaged")
    return length + LENGTH_END


def checked_batches(buf: Buffer) -> list[tuple[int, BatchHeader]]:
    """Positions and headers of a buffer of whole batches, each with its checksum checked."""
    found = []
    try:
        for pos, header in batches(buf):
            verify(buf, pos, header)
            found.append((pos, header))
    except WireError as error:
        raise CorruptMessageError(str(error)) from None
    return found


def check_stored(data: Buffer, path: str, position: int) -> None:
    """Raise `LogCorrupt` unless batches read from `position` of a file are what was once appended."""
    try:
        for at, header in batches(data):
            verify(data, at, header)
    except (WireError, CorruptMessageError) as error:
        raise LogCorrupt(path, position, str(error)) from None
