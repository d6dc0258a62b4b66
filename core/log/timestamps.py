"""From a time to an offset, as ListOffsets asks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rookery.core.errors import CorruptMessageError
from rookery.core.log.scan import check_stored
from rookery.core.log.segment import Segment
from rookery.core.wire import records
from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.primitives import WireError

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


LookUp = Callable[[bytes, int | None, int], tuple[int, int] | None]
"""Looks into a batch: offset and timestamp of its first record, from an offset on, that is not older than a timestamp;
the newest one, where that is None."""


def look_up(batch: bytes, timestamp: int | None, start: int) -> tuple[int, int] | None:
    """At once, however long that takes."""
    return records.to_the_end(records.find_in_steps(batch, 0, timestamp, start=start))


def first_not_older(
    segments: Sequence[Segment], timestamp: int, start: int, look_up: LookUp
) -> TimestampOffset | None:
    """The first record at or behind `start` whose timestamp is `timestamp` or later."""
    for number, segment in enumerate(segments):
        after = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if (after is None or after > start) and segment.max_timestamp >= timestamp:
            found = _in_segment(segment, timestamp, start, look_up)
            if found is not None:
                return found
    return None


def greatest(segments: Sequence[Segment], start: int, look_up: LookUp) -> TimestampOffset | None:
    """The record with the greatest timestamp at or behind `start`; the first one of several."""
    for segment in sorted(segments, key=lambda s: -s.max_timestamp):
        if segment.max_timestamp == NO_TIMESTAMP:
            return None
        found = _in_segment(segment, segment.max_timestamp, start, look_up)
        if found is not None:
            return found
        if segment.next_offset > start:
            break  # its greatest record is hidden by the log start, so its index does not help
    return _greatest_by_scan(segments, start, look_up)


def _in_segment(segment: Segment, timestamp: int, start: int, look_up: LookUp) -> TimestampOffset | None:
    for position, header in segment.headers(segment.before_timestamp(timestamp)):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            found = _in_batch(segment, position, header, timestamp, start, look_up)
            if found is not None:
                return found
    if segment.damage is not None:
        raise segment.damage  # it may stand in what cannot be read
    return None


@contextmanager
def _readable(segment: Segment, position: int, data: bytes) -> Iterator[None]:
    """Batches are stored as producers sent them, their records unread. If these cannot be read, the checksum shows
    the cause: `LogCorrupt` if the bytes have changed since, else CORRUPT_MESSAGE."""
    try:
        yield
    except WireError as error:
        check_stored(data, segment.log_path, position)
        why = f"{segment.log_path}: the batch at byte {position} cannot be read: {error}"
        raise CorruptMessageError(why) from error


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int | None, start: int, look_up: LookUp
) -> TimestampOffset | None:
    data = segment.batch(position, header)
    with _readable(segment, position, data):
        found = look_up(data, timestamp, start)
    return None if found is None else TimestampOffset(found[1], found[0])


def _greatest_by_scan(segments: Sequence[Segment], start: int, look_up: LookUp) -> TimestampOffset | None:
    """By headers; only the batch that the log start cuts in two, and the newest of all, are looked into."""
    best: TimestampOffset | None = None
    newest: tuple[Segment, int, BatchHeader] | None = None
    for segment in segments:
        for position, header in segment.headers(0):
            wanted = newest[2].max_timestamp if newest else best.timestamp if best else NO_TIMESTAMP
            if header.last_offset < start or header.max_timestamp <= wanted:
                continue
            if header.base_offset < start:
                best = _in_batch(segment, position, header, None, start, look_up)
            else:
                newest = segment, position, header
    return _in_batch(*newest, None, start, look_up) if newest else best


def find(
    segments: Sequence[Segment], timestamp: int, start_offset: int, latest: int, look_up: LookUp
) -> TimestampOffset | None:
    """What ListOffsets asks of a log that begins at `start_offset`, below `latest`: a time, or one of the negative
    numbers above."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(NO_TIMESTAMP, start_offset)
    if timestamp == LATEST:
        return TimestampOffset(NO_TIMESTAMP, latest)
    found: TimestampOffset | None = None
    if timestamp == MAX_TIMESTAMP:
        found = greatest(segments, start_offset, look_up)
    elif timestamp >= 0:
        found = first_not_older(segments, timestamp, start_offset, look_up)
    return None if found is None or found.offset >= latest else found
