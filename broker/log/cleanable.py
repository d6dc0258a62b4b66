"""Compaction as the owner of a partition sees it: is it due, begin, and put the result in place."""

from rookery.broker.log.cleaning import CleanedGroup, CleaningJob, DirtySegment
from rookery.broker.log.compaction import last_of_producers
from rookery.broker.log.compaction_plan import CleanableSegment, CleaningPlan, is_due, plan
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.throttle import Throttle
from rookery.core.config.options import LONG_MAX
from rookery.core.log import Segment, names


def cleaning_plan(partition: PartitionLog, now_ms: int) -> CleaningPlan | None:
    """What of a compacted log should be cleaned now; None if it is not worth it yet."""
    config, log = partition.config, partition.segment_log
    if not config.compact or log.failed:
        return None
    found = plan(
        _facts(partition),
        config.compaction,
        checkpoint=partition.clean_offset,
        log_start_offset=log.start_offset,
        log_end_offset=log.end_offset,
        last_stable_offset=partition.last_stable_offset,
        now_ms=now_ms,
    )
    return found if is_due(found, config.compaction) else None


def begin_cleaning(
    partition: PartitionLog, found: CleaningPlan, *, memory_bytes: int, throttle: Throttle, now_ms: int
) -> CleaningJob:
    """A job for a thread that cleans the log up to the plan's end."""
    log = partition.segment_log
    segments = [
        DirtySegment(
            facts,
            names.segment_file(log.path, facts.base_offset, names.LOG),
            partition.store.aborted(facts.base_offset, facts.base_offset, facts.end_offset),
        )
        for facts in _facts(partition)
        if facts.base_offset < found.end
    ]
    return CleaningJob(
        log.disk,
        log.path,
        partition.config,
        found,
        segments,
        last_of_producers(partition.store.state, partition.store.state_at(found.end, now_ms)),
        memory_bytes,
        throttle,
        now_ms,
        partition.truncations,
    )


def is_current(partition: PartitionLog, job: CleaningJob) -> bool:
    """Whether what is left of a job still speaks of the segments that are there: a cut or retention ends it."""
    base = job.next_base
    untouched = base is None or partition.segment_log.segments[0].base_offset <= base
    return untouched and partition.truncations == job.truncations


def put_in_place(partition: PartitionLog, cleaned: CleanedGroup, now_ms: int) -> list[Segment] | None:
    """Let a cleaned segment stand for those it was made of, if they are still what they were.

    Returns the replaced segments, whose `*.deleted` files may be removed once the folder was synced; None
    if the log was cut, or lost some of them to retention, in the meantime.
    """
    log = partition.segment_log
    by_base = {segment.base_offset: segment for segment in log.segments[:-1]}
    old = [by_base.get(facts.base_offset) for facts in cleaned.old]
    still = [segment for segment in old if segment is not None]
    if cleaned.truncations != partition.truncations or len(still) != len(cleaned.old):
        return None
    log.replace_segments(cleaned.segment, still)
    partition.store.segments_replaced(
        [facts.base_offset for facts in cleaned.old], cleaned.old[-1].end_offset, cleaned.aborted, now_ms
    )
    return still


def _facts(partition: PartitionLog) -> list[CleanableSegment]:
    """The segments with what the plan needs; timestamps are read only where a lag is configured."""
    segments, policy = partition.segment_log.segments, partition.config.compaction
    ends = [*(segment.base_offset for segment in segments[1:]), partition.segment_log.end_offset]
    facts = []
    for segment, end in zip(segments, ends, strict=True):
        if policy.min_compaction_lag_ms > 0 and segment.size:
            segment.load()
        first = segment.first_timestamp if policy.max_compaction_lag_ms < LONG_MAX else -1
        index = segment.path(names.INDEX)
        index_size = partition.segment_log.disk.size(index) if partition.segment_log.disk.exists(index) else 0
        facts.append(
            CleanableSegment(segment.base_offset, end, segment.size, index_size, first, segment.max_timestamp)
        )
    return facts
