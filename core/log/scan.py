"""Walking the batches of a segment file: by headers alone, or checking every byte."""

import struct
from collections.abc import Iterator

from rookery.core.disk import Buffer, File
from rookery.core.errors import CorruptMessageError
from rookery.core.log.errors import LogCorrupt
from rookery.core.wire.batch import (
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


class Invalid(Exception):
    """What stands at `position` is not a whole and undamaged batch that may stand there."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(f"{why} at byte {position}")
        self.position = position
        self.why = why


def headers(file: File, position: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
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
        header = BatchHeader._make(_HEADER.unpack_from(window, at))
        following = position + LENGTH_END + header.batch_length
        if header.magic != MAGIC or header.batch_length < MIN_LENGTH or following > size:
            raise Invalid(position, f"no batch has magic {header.magic} and length {header.batch_length} here")
        yield position, header
        position = following


def verified(
    file: File, base_offset: int, size: int, limit: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Every batch of a segment, its checksum and its place in the order checked, in one pass over the bytes.

    Raises `Invalid` at the end of the longest valid prefix, if that is not the whole file. Offsets end below
    `limit`, where the next segment starts. Checksums do not cover offsets, so a batch that leaves a gap (as
    compaction does) is believed only when the batch after it stands behind it.
    """
    position, next_offset = 0, base_offset
    held: list[tuple[int, BatchHeader]] = []
    while position < size:
        chunk = file.pread(min(max(CHUNK, _batch_size(file, position, size)), size - position), position)
        start = position
        try:
            for at, header in batches(chunk, partial_end=True):
                position = start + at
                _check_place(header, base_offset, next_offset, limit)
                verify(chunk, at, header)
                yield from held
                held.clear()
                if header.base_offset == next_offset:
                    yield position, header
                else:
                    held.append((position, header))
                position += LENGTH_END + header.batch_length
                next_offset = header.base_offset + header.last_offset_delta + 1
        except _Misplaced as error:
            raise Invalid(held[0][0] if held else position, str(error)) from None
        except (WireError, CorruptMessageError) as error:
            yield from held
            raise Invalid(position, str(error)) from None
    yield from held


class _Misplaced(Exception):
    """A batch whose offsets do not fit its neighbours."""


def _batch_size(file: File, position: int, size: int) -> int:
    """The size that the batch at `position` claims, if it could be true."""
    head = file.pread(LENGTH_END, position)
    if size - position < HEADER_SIZE or len(head) < LENGTH_END:
        raise Invalid(position, "a batch header is cut short")
    length: int = _LENGTH.unpack(head)[0]
    if not MIN_LENGTH <= length <= size - position - LENGTH_END:
        raise Invalid(position, f"a batch that says it has {length} bytes is cut short or damaged")
    return length + LENGTH_END


def _check_place(header: BatchHeader, base_offset: int, next_offset: int, limit: int | None) -> None:
    last = header.base_offset + header.last_offset_delta
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise _Misplaced(f"offset {header.base_offset} stands where {next_offset} is next")
    if last - base_offset > MAX_RELATIVE_OFFSET or (limit is not None and last >= limit):
        raise _Misplaced(f"offset {last} cannot be in a segment from {base_offset} to {limit}")


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
