"""From a time to an offset, as ListOffsets asks."""

from collections.abc import Sequence
from typing import NamedTuple

from rookery.core.log.segment import Segment
from rookery.core.wire import records
from rookery.core.wire.batch import BatchHeader

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


def first_not_older(
    segments: Sequence[Segment], timestamp: int, start: int, budget: int
) -> TimestampOffset | None:
    """The first record at or behind `start` whose timestamp is `timestamp` or later."""
    for number, segment in enumerate(segments):
        after = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if (after is None or after > start) and segment.max_timestamp >= timestamp:
            found = _in_segment(segment, timestamp, start, budget)
            if found is not None:
                return found
    return None


def greatest(segments: Sequence[Segment], start: int, budget: int) -> TimestampOffset | None:
    """The record with the greatest timestamp at or behind `start`; the first one of several."""
    for segment in sorted(segments, key=lambda s: -s.max_timestamp):
        if segment.max_timestamp == NO_TIMESTAMP:
            return None
        found = _in_segment(segment, segment.max_timestamp, start, budget)
        if found is not None:
            return found
        if segment.next_offset > start:
            break  # its greatest record is hidden by the log start, so its index does not help
    return _greatest_by_scan(segments, start, budget)


def _in_segment(segment: Segment, timestamp: int, start: int, budget: int) -> TimestampOffset | None:
    for position, header in segment.headers(segment.before_timestamp(timestamp)):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            found = _in_batch(segment, position, header, timestamp, start, budget)
            if found is not None:
                return found
    return None


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start: int, budget: int
) -> TimestampOffset | None:
    data = segment.batch(position, header)
    if header.base_offset >= start:
        found = records.offset_for_timestamp(data, 0, timestamp, budget)
        return None if found is None else TimestampOffset(found[1], found[0])
    for record in records.read_records(data, 0, budget):
        if record.offset >= start and record.timestamp >= timestamp:
            return TimestampOffset(record.timestamp, record.offset)
    return None


def _greatest_by_scan(segments: Sequence[Segment], start: int, budget: int) -> TimestampOffset | None:
    best: TimestampOffset | None = None
    for segment in segments:
        for position, header in segment.headers(0):
            wanted = NO_TIMESTAMP if best is None else best.timestamp
            if header.last_offset < start or header.max_timestamp <= wanted:
                continue
            for record in records.read_records(segment.batch(position, header), 0, budget):
                if record.offset >= start and (best is None or record.timestamp > best.timestamp):
                    best = TimestampOffset(record.timestamp, record.offset)
    return best
