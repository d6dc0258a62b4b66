"""Encodes rows as records, a column at a time: lengths become varints, and Arrow joins the parts.

The counterpart of `columnar`. Only headers take one step per row, and only if a row has any.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rookery.core.wire.primitives import Buffer
from rookery.core.wire.records import RecordHeader, encode_headers, varint

OVERHEAD = 25
"""Maximum bytes of a record without key, value and headers: its length, five numbers and its attributes."""

_BINARY = pa.binary()
_NOTHING = pa.scalar(b"", _BINARY)
_PLAIN = pa.scalar(b"\0\0", _BINARY)  # attributes, which are unused, and a timestamp delta of 0
_NO_HEADERS = pa.scalar(encode_headers(()), _BINARY)
_NULL = pa.scalar(-1, pa.int32())

SCHEMA = pa.schema([("key", _BINARY), ("value", _BINARY), ("headers", _BINARY)])
"""Rows to be sent: key and value unchanged, headers encoded."""


def rows_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of an Arrow batch that go into records; missing columns are null."""
    columns = [_binary(batch, "key"), _binary(batch, "value"), _headers(batch)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _binary(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, _BINARY)
    return batch.column(name).cast(_BINARY)


def _headers(batch: pa.RecordBatch) -> pa.Array:
    column = batch.column("headers") if "headers" in batch.schema.names else None
    if column is None or column.null_count == len(column):
        return pa.repeat(_NO_HEADERS, batch.num_rows)
    return pa.array([encode_headers(_pairs(each or ())) for each in column.to_pylist()], _BINARY)


def _pairs(headers: Sequence[dict[str, Any] | None]) -> list[RecordHeader]:
    pairs = []
    for each in headers:
        if each is None or each["key"] is None:
            raise ValueError("a row has a header without a key: every element of 'headers' needs one")
        pairs.append(RecordHeader(each["key"], each["value"]))
    return pairs


def sizes_of(rows: pa.RecordBatch) -> pa.Array:
    """Maximum size of each row in bytes."""
    lengths = [pc.binary_length(column).fill_null(0) for column in rows.columns]
    return pc.add(pc.add(pc.add(*lengths[:2]), lengths[2]), pa.scalar(OVERHEAD, pa.int32()))


def encode(rows: pa.RecordBatch) -> Buffer:
    """The records section of one batch, all with the same timestamp, with offsets from 0."""
    key, value, headers = rows.columns
    records = pc.binary_join_element_wise(
        _PLAIN,
        _counted(rows.num_rows),
        _varints(pc.binary_length(key).fill_null(_NULL)),
        key.fill_null(_NOTHING),
        _varints(pc.binary_length(value).fill_null(_NULL)),
        value.fill_null(_NOTHING),
        headers,
        _NOTHING,
    )
    whole = pc.binary_join_element_wise(_varints(pc.binary_length(records)), records, _NOTHING)
    return memoryview(whole.buffers()[2])[: pc.sum(pc.binary_length(whole)).as_py()]


def _varints(numbers: pa.Array) -> pa.Array:
    """Each number as a varint. Lengths repeat, so each different one is encoded once."""
    found = pc.dictionary_encode(numbers)
    return pa.array(map(varint, found.dictionary.to_pylist()), _BINARY).take(found.indices)


def _counted(rows: int) -> pa.Array:
    """0, 1, 2 and so on as varints."""
    return _table(max(1 << (rows - 1).bit_length(), 8192))[:rows]


@lru_cache(4)
def _table(rows: int) -> pa.Array:
    return pa.array(map(varint, range(rows)), _BINARY)


def parts(rows: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """The rows in parts of at most `bytes_max`; a single row may be larger."""
    ends = pc.cumulative_sum(sizes_of(rows).cast(pa.int64()))
    first = before = 0
    while first < rows.num_rows:
        fitting = pc.sum(pc.less_equal(ends, pa.scalar(before + bytes_max, pa.int64()))).as_py()
        end = max(fitting, first + 1)
        yield rows.slice(first, end - first)
        before, first = ends[end - 1].as_py(), end
