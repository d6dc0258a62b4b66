"""Varints, tags nobody knows, and UUIDs."""

import tracemalloc
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.wire.primitives import (
    TAGS_MAX,
    UVARINTS,
    WireError,
    bytes_at,
    compact_bytes,
    read_uvarint,
    skip_tags,
    uuid_of,
    uvarint_bytes,
)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=4))
def test_a_varint_comes_back_with_the_position_after_it(value: int, rest: bytes) -> None:
    raw = uvarint_bytes(value)
    assert len(raw) == max(1, (value.bit_length() + 6) // 7)
    assert read_uvarint(b"\xaa" + raw + rest, 1) == (value, 1 + len(raw))


@pytest.mark.parametrize("cut", range(5))
def test_a_varint_that_breaks_off_is_refused(cut: int) -> None:
    with pytest.raises(WireError, match="ends at byte"):
        read_uvarint(uvarint_bytes(2**32 - 1)[:cut], 0)


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 10])
def test_a_varint_of_more_than_32_bits_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError, match="32 bits"):
        read_uvarint(raw, 0)


def test_ready_made_varints_equal_computed_ones() -> None:
    assert [uvarint_bytes(n) for n in range(len(UVARINTS))] == list(UVARINTS)
    with pytest.raises(WireError, match="-1"):
        uvarint_bytes(-1)


def test_unknown_tags_are_stepped_over() -> None:
    tags = uvarint_bytes(7) + uvarint_bytes(3) + b"abc" + uvarint_bytes(900) + uvarint_bytes(0)
    assert skip_tags(tags + b"rest", 0, 2) == len(tags)


@pytest.mark.attack(14)
def test_unknown_tags_cost_no_memory_and_are_not_many() -> None:
    count = TAGS_MAX
    tags = uvarint_bytes(900) + uvarint_bytes(0)
    number = uvarint_bytes(count)
    body = number[1:] + tags * count
    tracemalloc.start()
    try:
        assert skip_tags(body, 0, number[0]) == len(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000, "nothing is kept of any of them"
    more = uvarint_bytes(count + 1)
    with pytest.raises(WireError, match="1001 tagged fields"):
        skip_tags(more[1:] + tags * (count + 1), 0, more[0])


@pytest.mark.parametrize(
    ("count", "raw"),
    [
        (3, b"\0\0\0\0"),  # more fields than bytes can hold
        (1, b"\0\x05ab"),  # a field longer than the message
        (1, b"\0"),  # no size
        (0xFF, b"\xff\xff\xff\x0f"),  # an absurd number of fields
    ],
)
def test_tags_that_cannot_be_are_refused(count: int, raw: bytes) -> None:
    with pytest.raises(WireError):
        skip_tags(raw, 0, count)


def test_bytes_never_come_back_short() -> None:
    assert bytes_at(memoryview(b"abcdef"), 2, 4) == b"cdef"
    with pytest.raises(WireError, match="4 bytes announced at byte 3 where 3 remain"):
        bytes_at(b"abcdef", 3, 4)
    with pytest.raises(WireError, match="null"):
        compact_bytes(b"\0", 0)


def test_uuids_are_kept_but_not_without_bound() -> None:
    one = uuid4()
    assert uuid_of(one.bytes) == one
    assert uuid_of(one.bytes) is uuid_of(one.bytes)
    many = [uuid4() for _ in range(10_000)]
    assert [uuid_of(each.bytes) for each in many] == many
