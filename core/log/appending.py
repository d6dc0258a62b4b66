"""What an append is given and gives back, and how a long one is divided among segments."""

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from rookery.core.log.scan import MAX_RELATIVE_OFFSET
from rookery.core.wire.batch import BatchHeader

Placed = list[tuple[int, BatchHeader]]
"""Positions in a buffer, and the headers of the batches there."""


class Appended(NamedTuple):
    """What an append did. `batches` are positions in the buffer and the headers as they were stored."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    batches: Placed
    size: int
    rolled: int | None  # base offset of the new segment, if the append began one


def joined(parts: list[Appended], batches: Placed) -> Appended:
    """One result for an append that took several runs."""
    greatest = max(parts, key=attrgetter("max_timestamp"))
    rolled = [part.rolled for part in parts if part.rolled is not None]
    return Appended(
        parts[0].base_offset, parts[-1].last_offset, greatest.max_timestamp, greatest.offset_of_max_timestamp,
        batches, sum(part.size for part in parts), rolled[-1] if rolled else None,
    )  # fmt: skip


def has_gap(batches: Placed, end_offset: int) -> bool:
    """Whether offsets are missing between the end of the log and the batches, or among them."""
    for _, header in batches:
        if header.base_offset != end_offset:
            return True
        end_offset = header.next_offset
    return False


def runs(
    batches: Placed, end: int, base_offset: int, end_offset: int, room: int, segment_bytes: int
) -> Iterator[tuple[int, int]]:
    """Stretches of a buffer of `end` bytes that go into one segment each.

    The first may go into the active segment, which begins at `base_offset` and has `room` left.
    """
    start = 0
    for pos, header in batches:
        if pos + header.size - start > room or header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
            if pos > start:
                yield start, pos
            start, room = pos, segment_bytes
            base_offset = base_for(header, header.last_offset, end_offset)
        end_offset = header.next_offset
    yield start, end


def base_for(first: BatchHeader, last_offset: int, end_offset: int) -> int:
    """The base offset of a segment begun for batches that may leave a gap behind the end of the log.

    It is the end of the log, so that a segment which starts behind the end of the one before it shows that
    something was lost; only a gap too wide for relative offsets makes it the offset of the first batch.
    """
    return end_offset if last_offset - end_offset <= MAX_RELATIVE_OFFSET else first.base_offset
