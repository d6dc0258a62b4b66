"""Which of a log's oldest segments may go, by age, size or log start offset. Pure.

Segments go from the oldest on and never past the high watermark: what is not committed is not deleted, and
the log start offset is always one that a consumer could have read up to. The active segment may go too,
after a roll, when all of it is too old.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

UNLIMITED = -1


class Reason(Enum):
    """Why segments are deleted; the value is what the log line says."""

    LOG_START = "before the log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentFacts(NamedTuple):
    """What the decision needs of a segment; `end_offset` is where the next one begins."""

    base_offset: int
    end_offset: int
    size: int
    newest_ms: Callable[[], int]
    """Largest record timestamp, or when the file was last written if its records have none. Asked for only
    where it decides, since it may have to be read."""


class Retention(NamedTuple):
    """The options of a topic that decide. `delete` is whether cleanup.policy contains it."""

    delete: bool
    retention_ms: int
    retention_bytes: int


class Deletion(NamedTuple):
    """So many segments, from the oldest on, may go, and the log then starts at `log_start_offset`."""

    segments: int
    log_start_offset: int
    reasons: tuple[Reason, ...]


def deletable(
    segments: Sequence[SegmentFacts],
    retention: Retention,
    *,
    log_start_offset: int,
    high_watermark: int,
    now_ms: int,
) -> Deletion:
    """What of `segments` (oldest first, the last one active) may be deleted now."""
    rules = [(Reason.LOG_START, _before(log_start_offset))]
    if retention.delete and retention.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments) - retention.retention_bytes
        rules.append((Reason.SIZE, _within(excess)))
    if retention.delete and retention.retention_ms >= 0:
        rules.append((Reason.TIME, _older_than(now_ms - retention.retention_ms)))
    counts = {reason: _leading(segments, rule, high_watermark) for reason, rule in rules}
    count = max(counts.values())
    start = max(log_start_offset, segments[count - 1].end_offset) if count else log_start_offset
    return Deletion(count, start, tuple(reason for reason, n in counts.items() if n))


_Rule = Callable[[SegmentFacts], bool]


def _before(log_start_offset: int) -> _Rule:
    return lambda segment: segment.end_offset <= log_start_offset


def _older_than(horizon_ms: int) -> _Rule:
    return lambda segment: segment.newest_ms() < horizon_ms


def _within(excess: int) -> _Rule:
    """True as long as the log stays at or above its limit without the segments asked about so far."""
    left = excess

    def fits(segment: SegmentFacts) -> bool:
        nonlocal left
        left -= segment.size
        return left >= 0

    return fits


def _leading(segments: Sequence[SegmentFacts], rule: _Rule, high_watermark: int) -> int:
    """How many segments from the oldest on the rule covers; an empty active segment stays."""
    count = 0
    for segment in segments:
        empty = segment.base_offset == segment.end_offset
        if empty or segment.end_offset > high_watermark or not rule(segment):
            break
        count += 1
    return count
