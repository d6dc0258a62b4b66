"""Lag in records and seconds, from what leaders said over time."""

from hypothesis import given
from hypothesis import strategies as st

from rookery.broker.groups.lag import SAMPLES_MAX, OffsetTimes


def times(*samples: tuple[int, int]) -> OffsetTimes:
    known = OffsetTimes()
    for end, now_ms in samples:
        known.add(end, now_ms)
    return known


def test_lag_in_records() -> None:
    known = times((100, 1000))
    assert (known.lag(40), known.lag(100), known.lag(110)) == (60, 0, 0)


def test_between_two_answers_time_is_interpolated() -> None:
    known = times((0, 0), (100, 10_000), (300, 20_000))
    assert known.lag_seconds(50, 0, 20_000) == 15.0
    assert known.lag_seconds(200, 0, 20_000) == 5.0
    assert known.lag_seconds(300, 0, 25_000) == 0.0


def test_an_idle_partition_does_not_make_its_last_records_look_old() -> None:
    """The record after a long silence was written at its end, not somewhere in it."""
    known = times((100, 0), (100, 10_000), (100, 500_000), (101, 510_000))
    assert known.lag_seconds(100, 0, 511_000) == 11.0


def test_before_the_first_answer_the_commit_vouches() -> None:
    known = times((100, 50_000), (120, 60_000))
    assert known.lag_seconds(30, 20_000, 60_000) == 40.0
    assert known.lag_seconds(30, 55_000, 60_000) == 10.0


def test_a_partition_that_begins_anew_has_no_past() -> None:
    known = times((100, 0), (100, 1), (5, 10_000))
    assert known.end == 5
    assert known.lag(3) == 2


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5_000)), min_size=1, max_size=200), st.integers(0, 10_000))
def test_samples_are_bounded_and_times_never_go_back(steps: list[tuple[int, int]], offset: int) -> None:
    known = OffsetTimes()
    end = now_ms = 0
    for grown, passed in steps:
        end, now_ms = end + grown, now_ms + passed
        known.add(end, now_ms)
    assert len(known._samples) <= SAMPLES_MAX
    assert known.written_at(offset, 0) <= known.written_at(offset + 1, 0) <= now_ms
