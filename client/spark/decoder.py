"""Record batches to Arrow, a column at a time: the work per record is that of the wire format alone."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from rookery.client.spark.aborted import Aborted
from rookery.client.spark.columnar import Marks
from rookery.client.spark.offsets import Range
from rookery.client.spark.schema import ARROW, arrow_schema
from rookery.core.wire.batch import BatchHeader, batches, verify
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.record import RecordHeader, decode_records
from rookery.core.wire.records import DEFAULT_BUDGET, records_section

ROWS_MAX = 8192
"""Rows in one Arrow batch: fewer cost Spark more per row, more bring nothing."""

BYTES_MAX = 4 << 20
"""Unpacked records that are turned into Arrow at once, unless one batch alone has more."""


def next_offset(data: Buffer, position: int) -> int:
    """Where to go on behind what was fetched, from the headers alone."""
    for _, header in batches(data, partial_end=True):
        position = max(position, header.next_offset)
    return position


class Decoder:
    """Turns what was fetched of one range into Arrow batches of the columns wanted."""

    def __init__(self, wanted: Range, columns: Sequence[str], budget: int = DEFAULT_BUDGET) -> None:
        self._range = wanted
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._budget = budget

    def decode(self, data: Buffer, aborted: Aborted | None = None) -> Iterator[pa.RecordBatch]:
        """The rows inside the range, in order; no control record, nothing aborted, nothing beyond the range."""
        gathered: list[tuple[BatchHeader, Buffer]] = []
        rows = size = 0
        for position, header in batches(data, partial_end=True):
            if header.base_offset >= self._range.end:
                break
            verify(data, position, header)
            if (aborted is not None and aborted.covers(data, position, header)) or header.control:
                continue
            if header.last_offset < self._range.start or not header.record_count:
                continue
            section = records_section(data, position, header, self._budget)
            gathered.append((header, section))
            rows += header.record_count
            size += len(section)
            if rows >= ROWS_MAX or size >= BYTES_MAX:
                yield from self._arrow(gathered)
                gathered, rows, size = [], 0, 0
        if gathered:
            yield from self._arrow(gathered)

    def _arrow(self, gathered: list[tuple[BatchHeader, Buffer]]) -> Iterator[pa.RecordBatch]:
        data = b"".join(section for _, section in gathered)
        marks = Marks()
        position = 0
        for header, section in gathered:
            marks.add(data, position, position + len(section), header)
            position += len(section)
        arrays = [self._array(name, marks, data, gathered) for name in self._columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        first = bisect_left(marks.offsets, self._range.start)
        end = bisect_left(marks.offsets, self._range.end)
        for begin in range(first, end, ROWS_MAX):
            yield whole.slice(begin, min(ROWS_MAX, end - begin))

    def _array(
        self, name: str, marks: Marks, data: bytes, gathered: list[tuple[BatchHeader, Buffer]]
    ) -> pa.Array:
        kind, rows = ARROW[name], len(marks.offsets)
        match name:
            case "key":
                return marks.keys(data)
            case "value":
                return marks.values(data)
            case "topic":
                return pa.repeat(pa.scalar(self._range.topic, kind), rows)
            case "partition":
                return pa.repeat(pa.scalar(self._range.partition, kind), rows)
            case "offset":
                return pa.array(marks.offsets, kind)
            case "timestamp":
                return pa.array(marks.times, pa.timestamp("ms", tz="UTC")).cast(kind)
            case "timestampType":
                return _timestamp_types([header for header, _ in gathered], kind)
            case "headers":
                return pa.array(_headers(gathered), kind)
        raise KeyError(name)


def _timestamp_types(headers: list[BatchHeader], kind: pa.DataType) -> pa.Array:
    """0 for the producer's time, 1 for the broker's: a property of the batch."""
    if len({header.log_append_time for header in headers}) == 1:
        rows = sum(header.record_count for header in headers)
        return pa.repeat(pa.scalar(int(headers[0].log_append_time), kind), rows)
    return pa.concat_arrays(
        [pa.repeat(pa.scalar(int(header.log_append_time), kind), header.record_count) for header in headers]
    )


def _headers(gathered: list[tuple[BatchHeader, Buffer]]) -> list[list[dict[str, Any]] | None]:
    """The headers of all records. They are asked for seldom, and are read with the records around them."""
    return [
        _header_rows(record.headers)
        for header, section in gathered
        for record in decode_records(bytes(section), header.record_count, 0, 0)
    ]


def _header_rows(headers: Sequence[RecordHeader]) -> list[dict[str, Any]] | None:
    """Null, not an empty list, for a record without headers: as Spark's own source has it."""
    return [{"key": each.key, "value": each.value} for each in headers] or None
