"""Rows become records by columns exactly as they do one by one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.client.spark.encoder import OVERHEAD, encode, parts, rows_of, sizes_of
from rookery.client.spark.schema import HEADERS
from rookery.core.wire.records import Record, RecordHeader, encode_records

FIELDS = st.none() | st.binary(max_size=300)
HEADER_LISTS = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
ROWS = st.lists(st.tuples(FIELDS, FIELDS, HEADER_LISTS), min_size=1, max_size=200)


def table(rows: list[tuple[Any, Any, Any]]) -> pa.RecordBatch:
    keys, values, headers = zip(*rows, strict=True)
    pairs = [None if each is None else [{"key": k, "value": v} for k, v in each] for each in headers]
    arrays = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(pairs, HEADERS)]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value", "headers"])


def one_by_one(rows: list[tuple[Any, Any, Any]]) -> list[Record]:
    return [
        Record(place, 0, key, value, [RecordHeader(*each) for each in headers or ()])
        for place, (key, value, headers) in enumerate(rows)
    ]


@pytest.mark.row(173)
@given(ROWS, st.integers(0, 20))
def test_the_bytes_are_those_of_records_one_by_one(rows: list[tuple[Any, Any, Any]], skipped: int) -> None:
    """Also of a slice, whose buffers hold more than its rows."""
    skipped = min(skipped, len(rows) - 1)
    columns = rows_of(table(rows).slice(skipped))
    records = one_by_one(rows[skipped:])
    assert bytes(encode(columns)) == encode_records(records, 0, 0)
    for size, record in zip(sizes_of(columns).to_pylist(), records, strict=True):
        assert size - OVERHEAD <= len(encode_records([record], 0, 0)) <= size


def test_many_and_long_rows() -> None:
    """Offsets of three bytes, lengths of four."""
    rows: list[tuple[Any, Any, Any]] = [(None, b"%d" % n, None) for n in range(20_000)]
    rows[7] = (b"k" * 20_000, b"v" * 3_000_000, None)
    assert bytes(encode(rows_of(table(rows)))) == encode_records(one_by_one(rows), 0, 0)


def test_strings_are_written_as_utf8_and_missing_columns_as_null() -> None:
    columns = rows_of(pa.RecordBatch.from_arrays([pa.array(["ä", None]), pa.array([1, 2])], names=["value", "other"]))
    assert columns.to_pylist() == [
        {"key": None, "value": "ä".encode(), "headers": b"\0"},
        {"key": None, "value": None, "headers": b"\0"},
    ]


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}])
def test_a_header_without_a_key_is_an_error(header: Any) -> None:
    headers = pa.array([[header]], HEADERS)
    with pytest.raises(ValueError, match="header without a key"):
        rows_of(pa.RecordBatch.from_arrays([headers], names=["headers"]))


@given(ROWS, st.integers(1, 700))
def test_parts_are_in_order_and_no_larger_than_they_may_be(rows: list[tuple[Any, Any, Any]], most: int) -> None:
    columns = rows_of(table(rows))
    found = list(parts(columns, most))
    assert [row for part in found for row in part.to_pylist()] == columns.to_pylist()
    for part, following in zip(found, [*found[1:], None], strict=True):
        size = sum(sizes_of(part).to_pylist())
        assert size <= most or part.num_rows == 1
        assert following is None or size + sizes_of(following)[0].as_py() > most
