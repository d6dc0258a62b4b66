"""Record batches to Arrow, a column at a time: the work per record is that of the wire format alone."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from rookery.client.spark.aborted import Aborted
from rookery.client.spark.offsets import Range
from rookery.client.spark.schema import ARROW, arrow_schema
from rookery.core.wire.batch import BatchHeader, batches, verify
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.record import Record, RecordHeader, decode_records
from rookery.core.wire.records import DEFAULT_BUDGET, records_section

ROWS_MAX = 8192
"""Rows in one Arrow batch: fewer cost Spark more per row, more bring nothing."""

CREATE_TIME, LOG_APPEND_TIME = 0, 1


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
        pieces: list[_Piece] = []
        rows = 0
        for position, header in batches(data, partial_end=True):
            if header.base_offset >= self._range.end:
                break
            verify(data, position, header)
            if (aborted is not None and aborted.covers(data, position, header)) or header.control:
                continue
            piece = self._piece(data, position, header)
            pieces.append(piece)
            rows += len(piece.records)
            if rows >= ROWS_MAX:
                yield from self._arrow(pieces)
                pieces, rows = [], 0
        yield from self._arrow(pieces)

    def _piece(self, data: Buffer, position: int, header: BatchHeader) -> "_Piece":
        first, end = self._range.start, self._range.end
        if header.last_offset < first:
            return _Piece([], header)
        section = bytes(records_section(data, position, header, self._budget))
        records = decode_records(section, header.record_count, header.base_offset, header.base_timestamp)
        if header.base_offset < first or header.last_offset >= end:
            records = [record for record in records if first <= record.offset < end]
        return _Piece(records, header)

    def _arrow(self, pieces: list["_Piece"]) -> Iterator[pa.RecordBatch]:
        pieces = [piece for piece in pieces if piece.records]
        records = list(chain.from_iterable(piece.records for piece in pieces))
        if not records:
            return
        fields: dict[str, Sequence[Any]] = dict(zip(Record._fields, zip(*records, strict=True), strict=True))
        arrays = [self._array(name, fields, pieces, len(records)) for name in self._columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        for begin in range(0, len(records), ROWS_MAX):
            yield whole.slice(begin, ROWS_MAX)

    def _array(
        self, name: str, fields: dict[str, Sequence[Any]], pieces: list["_Piece"], rows: int
    ) -> pa.Array:
        kind = ARROW[name]
        match name:
            case "topic":
                return pa.repeat(pa.scalar(self._range.topic, kind), rows)
            case "partition":
                return pa.repeat(pa.scalar(self._range.partition, kind), rows)
            case "timestampType":
                return _by_piece(pieces, [p.timestamp_type for p in pieces], kind)
            case "timestamp":
                return _timestamps(fields["timestamp"], pieces)
            case "headers":
                return pa.array([_headers(each) for each in fields["headers"]], kind)
        return pa.array(fields[name], kind)


class _Piece:
    """The wanted records of one batch, and what its header says of all of them."""

    def __init__(self, records: list[Record], header: BatchHeader) -> None:
        self.records = records
        self.timestamp_type = LOG_APPEND_TIME if header.log_append_time else CREATE_TIME
        self.append_time = header.max_timestamp if header.log_append_time else None

    def times(self) -> list[int]:
        if self.append_time is not None:
            return [self.append_time] * len(self.records)
        return [record.timestamp for record in self.records]


def _by_piece(pieces: list[_Piece], values: list[int], kind: pa.DataType) -> pa.Array:
    """A value for each piece, as often as the piece has records."""
    if len(set(values)) == 1:
        return pa.repeat(pa.scalar(values[0], kind), sum(len(piece.records) for piece in pieces))
    repeated = [pa.repeat(pa.scalar(v, kind), len(p.records)) for v, p in zip(values, pieces, strict=True)]
    return pa.concat_arrays(repeated)


def _timestamps(times: Sequence[int], pieces: list[_Piece]) -> pa.Array:
    """Milliseconds to Spark's microseconds; where the broker's time counts, it is the batch's."""
    if any(piece.append_time is not None for piece in pieces):
        times = list(chain.from_iterable(piece.times() for piece in pieces))
    return pa.array(times, pa.timestamp("ms", tz="UTC")).cast(ARROW["timestamp"])


def _headers(headers: Sequence[RecordHeader]) -> list[dict[str, Any]] | None:
    """Null, not an empty list, for a record without headers: as Spark's own source has it."""
    return [{"key": each.key, "value": each.value} for each in headers] or None
