"""Offsets as Spark keeps them, ranges and how they are split, and how much one micro-batch takes."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.client.spark import offsets as kept
from rookery.client.spark.kafka_options import OptionError
from rookery.client.spark.offsets import (
    Range,
    count,
    from_json,
    is_initial,
    limited,
    limited_bytes,
    ranges_between,
    split,
)
from rookery.client.spark.places import Offsets

partitions = st.tuples(st.sampled_from(["t", "u", "_v"]), st.integers(0, 12))
sizes = st.dictionaries(partitions, st.integers(0, 10_000), max_size=8)


def text(offsets: Offsets, start: Offsets | None = None) -> str:
    return json.dumps(kept.to_json(offsets, start))


def test_the_text_has_one_order() -> None:
    offsets = {("t", 10): 3, ("t", 2): 1, ("a", 0): 7}
    assert text(offsets) == '{"a": {"0": 7}, "t": {"2": 1, "10": 3}}'
    assert text(dict(reversed(offsets.items()))) == text(offsets)


@settings(deadline=None)
@given(sizes, sizes)
def test_there_and_back(offsets: Offsets, start: Offsets) -> None:
    value = json.loads(text(offsets, start))
    assert from_json(value) == offsets
    assert kept.start_in(value) == start
    assert kept.start_in(json.loads(text(offsets))) is None


def test_the_first_offset_knows_that_it_is_the_first() -> None:
    first = kept.to_json({("t", 0): 100}, {("t", 0): 100})
    assert is_initial(first)
    assert not is_initial(kept.to_json({("t", 0): 110}, {("t", 0): 100}))
    assert not is_initial(kept.to_json({("t", 0): 100}))


@settings(deadline=None)
@given(sizes, st.integers(1, 50_000))
def test_a_limit_takes_from_every_partition_and_never_too_much(end: Offsets, most: int) -> None:
    start = dict.fromkeys(end, 0)
    took = limited(start, end, most)
    assert all(start[key] <= took[key] <= end[key] for key in end)
    assert all(took[key] > 0 for key in end if end[key])
    assert count(start, took) <= most + len(end)
    if sum(end.values()) <= most:
        assert took == end


def test_shares_are_in_proportion() -> None:
    start = {("t", 0): 10, ("t", 1): 0, ("t", 2): 5}
    took = limited(start, {("t", 0): 910, ("t", 1): 100, ("t", 2): 6}, 100)
    assert took == {("t", 0): 99, ("t", 1): 9, ("t", 2): 6}


def test_ranges_leave_out_what_is_empty_and_refuse_what_is_upside_down() -> None:
    assert ranges_between({("t", 0): 5, ("t", 1): 3}, {("t", 0): 5, ("t", 1): 9}) == [Range("t", 1, 3, 9)]
    with pytest.raises(OptionError, match="t-0: the range ends at 4, before its start at 5"):
        ranges_between({("t", 0): 5}, {("t", 0): 4})


range_lists = st.lists(st.integers(1, 10_000), min_size=1, max_size=6).map(
    lambda found: [Range("t", place, 7, 7 + size) for place, size in enumerate(found)]
)


@settings(deadline=None)
@given(range_lists, st.none() | st.integers(1, 40), st.none() | st.integers(1, 5_000))
def test_a_split_loses_and_repeats_nothing(ranges: list[Range], least: int | None, most: int | None) -> None:
    parts = split(ranges, least, most)
    for whole in ranges:
        own = [part for part in parts if part.partition == whole.partition]
        assert own[0].start == whole.start
        assert own[-1].end == whole.end
        assert all(a.end == b.start for a, b in pairwise(own))
        assert all(part.size > 0 for part in own)
        assert most is None or all(part.size <= most for part in own)


def test_long_ranges_are_split_until_there_are_enough_tasks() -> None:
    assert len(split([Range("t", 0, 0, 1000)], 4, None)) == 4
    parts = split([Range("t", 0, 0, 10_000), Range("t", 1, 0, 10)], 5, None)
    assert len([part for part in parts if part.partition == 0]) == 4
    assert [part.size for part in split([Range("t", 0, 0, 10)], None, 4)] == [3, 3, 4]
    equal = [Range("t", place, 0, 1000) for place in range(2)]
    assert len(split(equal, 5, None)) == 6, "halves are rounded upwards: never fewer tasks than are wanted"
    assert len(split([Range("t", 0, 0, 10)], 10**12, None)) == 10, "never more tasks than offsets"
    assert split([Range("t", 0, 0, 9), Range("t", 1, 0, 9)], 2, None) == [Range("t", 0, 0, 9), Range("t", 1, 0, 9)]


def test_bytes_limit_every_partition_by_the_same_part() -> None:
    start, end = {("t", 0): 10}, {("t", 0): 110, ("t", 1): 1000, ("t", 2): 5, ("t", 3): 7}
    weights = {("t", 0): 100.0, ("t", 1): 10.0, ("t", 2): 1.0}
    assert limited_bytes(start, end, weights, 1 << 30) == end
    took = limited_bytes(start, end, weights, 2000)
    assert took == {("t", 0): 19, ("t", 1): 99, ("t", 2): 1, ("t", 3): 7}, "one offset at least; 3 has no known size"
    used = sum((took[key] - start.get(key, 0)) * weight for key, weight in weights.items())
    assert used <= 2000 + 1
