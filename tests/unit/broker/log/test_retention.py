"""Which segments may go: by age, size and log start, never past the high watermark."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.broker.log.retention import UNLIMITED, Reason, Retention, SegmentFacts, deletable
from rookery.core.config import node
from rookery.core.config.options import Settings
from rookery.core.config.topic import RETENTION_MS, topic_defaults


def facts(base: int, end: int, size: int, newest_ms: int) -> SegmentFacts:
    return SegmentFacts(base, end, size, lambda: newest_ms)


SEGMENTS = [
    facts(0, 10, 100, 1000),
    facts(10, 20, 100, 2000),
    facts(20, 30, 100, 3000),
    facts(30, 35, 50, 4000),
]
KEEP_ALL = Retention(True, UNLIMITED, UNLIMITED)


@pytest.mark.row(42)
def test_old_segments_go_and_the_log_starts_later() -> None:
    by_time = Retention(True, 1500, UNLIMITED)
    found = deletable(SEGMENTS, by_time, log_start_offset=0, high_watermark=35, now_ms=4000)
    assert found == (2, 20, (Reason.TIME,))
    everything = deletable(SEGMENTS, by_time, log_start_offset=0, high_watermark=35, now_ms=9000)
    assert (everything.segments, everything.log_start_offset) == (4, 35), (
        "the active one too, once it is all old"
    )


@pytest.mark.row(43)
def test_size_retention_keeps_at_least_the_limit() -> None:
    found = deletable(
        SEGMENTS, Retention(True, UNLIMITED, 150), log_start_offset=0, high_watermark=35, now_ms=0
    )
    assert found == (2, 20, (Reason.SIZE,))
    found = deletable(
        SEGMENTS, Retention(True, UNLIMITED, 151), log_start_offset=0, high_watermark=35, now_ms=0
    )
    assert found.segments == 1


def test_a_compacted_topic_loses_only_what_lies_before_its_start() -> None:
    compact = Retention(False, 0, 0)
    found = deletable(SEGMENTS, compact, log_start_offset=20, high_watermark=35, now_ms=10**9)
    assert found == (2, 20, (Reason.LOG_START,))


def test_an_empty_active_segment_stays() -> None:
    empty = [facts(35, 35, 0, 0)]
    assert (
        deletable(empty, Retention(True, 1, 0), log_start_offset=35, high_watermark=35, now_ms=10).segments
        == 0
    )


@pytest.mark.row(42)
@pytest.mark.parametrize(
    ("given_keys", "expected"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.ms": "-1"}, UNLIMITED),
    ],
)
def test_milliseconds_win_over_minutes_over_hours(given_keys: dict[str, str], expected: int) -> None:
    settings_of_node = Settings(node.TABLE, {}).having(given_keys)
    assert topic_defaults(settings_of_node)[RETENTION_MS] == expected


@pytest.mark.invariant("P15")
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_nothing_past_the_high_watermark_and_never_backwards(data: st.DataObject) -> None:
    bounds = data.draw(st.lists(st.integers(0, 60), min_size=2, max_size=8, unique=True).map(sorted))
    segments = [
        facts(a, b, data.draw(st.integers(0, 50)), data.draw(st.integers(0, 100)))
        for a, b in pairwise(bounds)
    ]
    start = data.draw(st.integers(bounds[0], bounds[-1]))
    watermark = data.draw(st.integers(start, bounds[-1]))
    limits = Retention(
        data.draw(st.booleans()), data.draw(st.integers(-1, 100)), data.draw(st.integers(-1, 100))
    )
    found = deletable(segments, limits, log_start_offset=start, high_watermark=watermark, now_ms=100)
    assert start <= found.log_start_offset <= watermark
    assert all(segment.end_offset <= watermark for segment in segments[: found.segments])
    if not limits.delete:
        assert found.log_start_offset == start
    kept = segments[found.segments :]
    if limits.delete and limits.retention_bytes >= 0 and Reason.TIME not in found.reasons and found.segments:
        gone = segments[: found.segments]
        assert (
            found.reasons == (Reason.LOG_START,)
            or sum(s.size for s in kept) >= limits.retention_bytes
            or all(s.end_offset <= start for s in gone)
        )
