"""Records as users get them are those of the batch, whether they are alike or not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.consumer.alike import FEWEST, row_after
from rookery.client.consumer.decoding import decode_batch, decode_columns
from rookery.client.producer.batch import Batch
from rookery.client.types import TopicPartition
from rookery.core.wire.batch import batches
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import read_records

PLACE = TopicPartition("t", 0)
SIZES = st.sampled_from([0, 1, 60, 64, 200, 9000])
RUNS = st.lists(
    st.tuples(
        st.integers(1, 90),  # so many records
        st.integers(0, 300),  # so much later
        st.none() | SIZES,
        st.none() | SIZES,
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def encoded(runs: Any) -> bytes:
    batch = Batch(PLACE, 0.0)
    time = 1000
    number = 0
    for count, later, key_size, value_size, with_headers in runs:
        time += later
        headers = (("h", b"1"),) if with_headers else ()
        for _ in range(count):
            number += 1
            key = None if key_size is None else (b"%d" % number).ljust(key_size, b"k")[:key_size]
            value = None if value_size is None else (b"%d" % number).ljust(value_size, b"v")[:value_size]
            batch.append(time, key, value, headers)
    return bytes(batch.encoded())


@given(RUNS)
def test_records_are_those_of_the_batch(runs: Any) -> None:
    data = encoded(runs)
    [(at, header)] = batches(data)
    found = [
        (each.offset, each.timestamp, each.key, each.value, [tuple(pair) for pair in each.headers])
        for each in decode_batch(PLACE, data, at, header)
    ]
    assert found == [
        (each.offset, each.timestamp, each.key, each.value, [(pair.key, pair.value) for pair in each.headers])
        for each in read_records(data, at)
    ]


@given(RUNS, st.integers(0, 600))
def test_columns_hold_the_same_records(runs: Any, position: int) -> None:
    data = encoded(runs)
    [(at, header)] = batches(data)
    records = decode_batch(PLACE, data, at, header)
    columns = decode_columns(PLACE, data, at, header)
    assert columns.records() == records
    columns.drop_before(position)
    assert columns.records() == [record for record in records if record.offset >= position]
    assert list(columns.cut(0, len(columns)).values) == [each.value for each in records if each.offset >= position]


LATER = st.sampled_from([-70, -1, 0, 0, 1, 3, 61, 64, 4000, 8192])


@given(st.lists(st.tuples(st.integers(1, 40), LATER), min_size=1, max_size=30))
def test_records_that_differ_in_time_are_those_of_the_batch(runs: Any) -> None:
    """All of one size: times go on by a byte's worth, by more, and back, before the first one, too."""
    data = encoded([(count, later, 3, 20, False) for count, later in runs])
    [(at, header)] = batches(data)
    found = decode_batch(PLACE, data, at, header)
    plain = [(each.offset, each.timestamp, each.key, each.value) for each in read_records(data, at)]
    assert [(each.offset, each.timestamp, each.key, each.value) for each in found] == plain
    assert decode_columns(PLACE, data, at, header).records() == found


@given(st.integers(0, 20_000), st.integers(0, 255), st.sampled_from([0, 1, 7]))
def test_broken_bytes_are_found_as_by_the_plain_decoder(place: int, byte: int, later: int) -> None:
    """Wherever one byte differs, also within a row of records that are alike."""
    data = bytearray(encoded([(1, later, 3, 90, False)] * 100))
    header_size = 61
    data[header_size + place % (len(data) - header_size)] = byte
    [(at, header)] = batches(bytes(data))
    try:
        plain = [(each.offset, each.timestamp, each.key, each.value) for each in read_records(bytes(data), at)]
    except WireError:
        with pytest.raises(WireError):
            decode_batch(PLACE, bytes(data), at, header)
    else:
        found = decode_batch(PLACE, bytes(data), at, header)
        assert [(each.offset, each.timestamp, each.key, each.value) for each in found] == plain


def test_records_of_different_milliseconds_are_one_row() -> None:
    """A batch that was filled one by one takes no step for each record, nor for each millisecond."""
    data = encoded([(1, 1, None, 100, False)] * 60)[61:]
    row = row_after(data, 0, 100 + 9, 59)
    assert row is not None
    assert row.records == 59
    assert list(row.timestamps(data, 1001)) == list(range(1002, 1061))


def test_a_long_row_is_found_at_once() -> None:
    data = encoded([(200, 0, None, 100, False)])[61:]
    step = 100 + 9  # two numbers of two bytes, five of one
    row = row_after(data, 0, step, 199)
    assert row is not None
    assert row.records == 63, "until the offset is a byte longer"
    assert row_after(data, 0, step, FEWEST - 1) is None


def test_numbers_with_more_bytes_than_they_need_do_not_make_a_row_of_other_records() -> None:
    """The first record's offset takes two bytes. Those after it are as long: theirs take one, and they have a key."""
    first = bytes([24, 0, 0, 0x80, 0, 1, 10]) + b"value" + bytes([0])
    others = [bytes([24, 0, 0, 2 * offset, 2, 1, 10]) + b"value" + bytes([0]) for offset in range(1, 9)]
    assert {len(each) for each in others} == {len(first)} == {13}
    assert row_after(b"".join([first, *others]), 0, 13, 8) is None


def test_a_count_of_headers_with_more_bytes_than_it_needs_does_not_hide_broken_records() -> None:
    first = bytes([24, 0, 0, 0, 1, 8]) + b"valu" + bytes([0x80, 0])
    others = [bytes([24, 0, 0, 2 * offset, 1, 8]) + b"valu" + bytes([2, 0]) for offset in range(1, 9)]
    assert row_after(b"".join([first, *others]), 0, len(first), 8) is None
