"""Record batches to Arrow, a column at a time: the work per record is that of the wire format alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rookery.client.aborted import Aborted
from rookery.client.spark.columnar import Columns, Section
from rookery.client.spark.offsets import Range
from rookery.client.spark.schema import ARROW, arrow_schema
from rookery.core.wire.batch import batches, verify
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.records import DEFAULT_BUDGET, RecordHeader, decode_records, records_section

ROWS_MAX = 8192
"""Rows in one Arrow batch: with fewer Spark needs more time per row, with more no less."""

BYTES_MAX = 4 << 20
"""Bytes of decompressed records converted to Arrow at once, unless one batch is larger."""


def next_offset(data: Buffer, position: int) -> int:
    """The offset after the fetched batches, from their headers alone."""
    for _, header in batches(data, partial_end=True):
        position = max(position, header.next_offset)
    return position


class Decoder:
    """Converts the fetch responses of one range to Arrow batches with the requested columns.

    Records are collected until an Arrow batch is large enough: `feed` returns full batches, `rest` the remaining
    records after the last response.
    """

    def __init__(self, wanted: Range, columns: Sequence[str], budget: int = DEFAULT_BUDGET) -> None:
        self._range = wanted
        self._begin = self._next = wanted.start
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._budget = budget
        self._gathered: list[Section] = []
        self._rows = self._size = self._settled = 0

    def feed(self, data: Buffer, aborted: Aborted | None = None) -> Iterator[pa.RecordBatch]:
        """The rows inside the range, in order; no control record, nothing aborted, nothing beyond the range."""
        for position, header in batches(data, partial_end=True):
            if header.base_offset >= self._range.end:
                break
            verify(data, position, header)
            if (aborted is not None and aborted.covers(data, position, header)) or header.control:
                continue
            if header.last_offset < self._next or not header.record_count:
                continue
            if header.base_offset < self._next:
                yield from self.skip_to(self._next)
            self._next = header.next_offset
            section = records_section(data, position, header, self._budget)
            self._gathered.append((header, section))
            self._rows += header.record_count
            self._size += len(section)
            if self._rows >= ROWS_MAX or self._size >= BYTES_MAX:
                yield from self.rest()
        self._release(data)

    def _release(self, data: Buffer) -> None:
        """Copy the records collected from a response if they are few: views would keep all of it in memory."""
        fresh = self._gathered[self._settled :]
        if 2 * sum(len(section) for _, section in fresh) < len(data):
            self._gathered[self._settled :] = [(header, bytes(section)) for header, section in fresh]
        self._settled = len(self._gathered)

    def skip_to(self, offset: int) -> Iterator[pa.RecordBatch]:
        """Returns the collected records; after this, records before `offset` are skipped, even within a batch."""
        yield from self.rest()
        self._begin = self._next = offset

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What was gathered and not given yet."""
        gathered, self._gathered = self._gathered, []
        self._rows = self._size = self._settled = 0
        if gathered:
            yield from self._arrow(gathered)

    def _arrow(self, gathered: list[Section]) -> Iterator[pa.RecordBatch]:
        columns = Columns(gathered)
        arrays = [self._array(name, columns, gathered) for name in self._columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        first, end = self._rows_inside(columns, gathered)
        for begin in range(first, end, ROWS_MAX):
            yield whole.slice(begin, min(ROWS_MAX, end - begin))

    def _rows_inside(self, columns: Columns, gathered: list[Section]) -> tuple[int, int]:
        """The rows inside the range; only the first and the last batch can have others."""
        start, end = self._begin, self._range.end
        if gathered[0][0].base_offset >= start and gathered[-1][0].last_offset < end:
            return 0, columns.rows
        offsets = columns.offsets
        return pc.sum(pc.less(offsets, start)).as_py(), pc.sum(pc.less(offsets, end)).as_py()

    def _array(self, name: str, columns: Columns, gathered: list[Section]) -> pa.Array:
        kind = ARROW[name]
        match name:
            case "key":
                return columns.keys
            case "value":
                return columns.values
            case "topic":
                return pa.repeat(pa.scalar(self._range.topic, kind), columns.rows)
            case "partition":
                return pa.repeat(pa.scalar(self._range.partition, kind), columns.rows)
            case "offset":
                return columns.offsets
            case "timestamp":
                return columns.times.cast(pa.timestamp("ms", tz="UTC")).cast(kind)
            case "timestampType":
                return columns.of_batches([int(header.log_append_time) for header, _ in gathered], kind)
            case "headers":
                return pa.array(_headers(gathered), kind) if columns.have_headers else pa.nulls(columns.rows, kind)
        raise KeyError(name)


def _headers(gathered: list[Section]) -> list[list[dict[str, Any]] | None]:
    """The headers of all records. They are rare, so whole records are decoded one by one."""
    return [
        _header_rows(record.headers)
        for header, section in gathered
        for record in decode_records(bytes(section), header.record_count, 0, 0)
    ]


def _header_rows(headers: Sequence[RecordHeader]) -> list[dict[str, Any]] | None:
    """Null, not an empty list, for a record without headers: as Spark's own source has it."""
    return [{"key": _text(each.key), "value": each.value} for each in headers] or None


def _text(key: str) -> str:
    """A header's key; bytes in it that are no UTF-8 become U+FFFD, because Arrow's strings cannot hold them."""
    return key if key.isascii() else key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
