"""Whether a compacted log is worth cleaning now, which part of it, and in which groups of segments. Pure.

A log is clean up to where the cleaner stopped last, dirty from there on. Never touched are the active
segment, everything from the last stable offset on (so also from the high watermark on), and segments that
hold a record younger than min.compaction.lag.ms.
"""

from collections.abc import Sequence
from typing import NamedTuple

OFFSET_RANGE_MAX = 2**31 - 1
"""Offsets in a segment and its indexes are kept relative to its base, in 32 bits."""


class CleanableSegment(NamedTuple):
    """What the plan needs of a segment; timestamps are -1 where a segment has none."""

    base_offset: int
    end_offset: int
    size: int
    index_size: int
    first_timestamp: int
    max_timestamp: int


class CompactionPolicy(NamedTuple):
    """The options of a topic that decide."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class CleaningPlan(NamedTuple):
    """Clean [first_dirty, end), where `end` is the base offset of the first segment to leave alone."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """How long max.compaction.lag.ms has been exceeded; 0 if it has not."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def plan(
    segments: Sequence[CleanableSegment],
    policy: CompactionPolicy,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> CleaningPlan:
    """The dirty part of `segments` (oldest first, the last one active) that may be cleaned now."""
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    if not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset  # records were deleted or the log was cut since: begin anew
    *sealed, active = segments
    limit = min(last_stable_offset, active.base_offset, _too_young(sealed, first_dirty, policy, now_ms))
    end = max((segment.base_offset for segment in segments if segment.base_offset <= limit), default=limit)
    dirty = [segment for segment in sealed if segment.end_offset > first_dirty and segment.base_offset < end]
    clean = [segment for segment in sealed if segment.end_offset <= first_dirty]
    return CleaningPlan(
        first_dirty,
        max(end, first_dirty),
        sum(segment.size for segment in clean),
        sum(segment.size for segment in dirty),
        _overdue(dirty, policy, now_ms),
    )


def _too_young(
    sealed: Sequence[CleanableSegment], first_dirty: int, policy: CompactionPolicy, now_ms: int
) -> int:
    """Where the first dirty segment with a record inside min.compaction.lag.ms begins."""
    if policy.min_compaction_lag_ms <= 0:
        return OFFSET_MAX
    horizon = now_ms - policy.min_compaction_lag_ms
    dirty = (segment for segment in sealed if segment.end_offset > first_dirty)
    return next((segment.base_offset for segment in dirty if segment.max_timestamp > horizon), OFFSET_MAX)


OFFSET_MAX = 2**63 - 1


def _overdue(dirty: Sequence[CleanableSegment], policy: CompactionPolicy, now_ms: int) -> int:
    oldest = min((s.first_timestamp for s in dirty if s.first_timestamp > 0), default=now_ms)
    return max(0, now_ms - policy.max_compaction_lag_ms - oldest)


def is_due(plan: CleaningPlan, policy: CompactionPolicy) -> bool:
    """Whether the dirty part is large enough, or old enough, to be worth reading the whole log."""
    if not plan.dirty_bytes:
        return False
    return plan.overdue_ms > 0 or plan.dirty_ratio > policy.min_cleanable_dirty_ratio


def grouped(
    segments: Sequence[CleanableSegment], *, segment_bytes: int, segment_index_bytes: int
) -> list[list[CleanableSegment]]:
    """Neighbours that fit into one segment again; each group becomes one, so that segments do not dwindle."""
    groups: list[list[CleanableSegment]] = []
    size = index_size = 0
    for segment in segments:
        fits = (
            groups
            and size + segment.size <= segment_bytes
            and index_size + segment.index_size <= segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= OFFSET_RANGE_MAX
        )
        if fits:
            groups[-1].append(segment)
            size, index_size = size + segment.size, index_size + segment.index_size
        else:
            groups.append([segment])
            size, index_size = segment.size, segment.index_size
    return groups
