"""Batches of a fetch answer as records for users.

The loop over records is written out flat: it is most of what consuming costs. It makes the users' records at once,
without a value in between. Records that are as long as the one before them need no turn of it (`alike`).
"""

import gc
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from rookery.client.aborted import Aborted
from rookery.client.consumer.alike import Row, row_after
from rookery.client.consumer.columns import BatchColumns, new_record
from rookery.client.types import Header, Record
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import BatchHeader, batches, verify
from rookery.core.wire.primitives import Buffer, WireError
from rookery.core.wire.records import DEFAULT_BUDGET, null_field, read_headers, read_zigzag, records_section

RawRecord = Record[bytes | None, bytes | None]
Add = Callable[[bytes, list[RawRecord], Row | None], None]
"""Takes records, and the row that follows the last of them."""
PAUSE_MAX = 256
"""Most records between two looks whether those that follow are alike."""
_SMALLEST = 7  # bytes of a record without key, value and headers


class Decoded(NamedTuple):
    """What one batch holds for a reader at some position: records, and the offset after the batch."""

    records: list[RawRecord] | BatchColumns
    next_offset: int
    leader_epoch: int


class Answer:
    """The batches of one answer for one partition, decoded one after the other when asked for."""

    __slots__ = ("_aborted", "_batches", "_data", "_verified", "left", "place")

    def __init__(
        self, place: TopicPartition, data: Buffer, aborted: Aborted | None, *, check_crcs: bool
    ) -> None:
        self.place = place
        self.left = len(data)
        """Bytes not decoded yet."""
        self._data = data
        self._batches = batches(data, partial_end=True)
        self._aborted = aborted
        self._verified = check_crcs

    def next_batch(self, position: int, *, columns: bool = False) -> Decoded | None:
        """The records at or after `position` of the next batch, one by one or in columns; None when all were read.
        Raises WireError or CorruptMessageError; the answer is of no use then."""
        at_header = next(self._batches, None)
        if at_header is None:
            self.left = 0
            return None
        at, header = at_header
        self.left = max(0, len(self._data) - at - header.size)
        if self._verified:
            verify(self._data, at, header)
        hidden = self._aborted is not None and self._aborted.covers(self._data, at, header)
        records: list[RawRecord] | BatchColumns = []
        if not hidden and not header.control and header.last_offset >= position:
            if columns:
                records = decode_columns(self.place, self._data, at, header)
                records.drop_before(position)
            else:
                records = decode_batch(self.place, self._data, at, header)
                if records and records[0].offset < position:
                    records = [record for record in records if record.offset >= position]
        return Decoded(records, header.next_offset, header.partition_leader_epoch)


def decode_columns(place: TopicPartition, buf: Buffer, at: int, header: BatchHeader) -> BatchColumns:
    """All records of the batch at `at` in columns; WireError if its bytes hold anything else."""
    found = BatchColumns(place, header.partition_leader_epoch)

    def add(data: bytes, some: list[RawRecord], row: Row | None) -> None:
        found.add(some)
        if row is not None:
            found.add_row(data, row, some[-1])

    _decode_whole(place, buf, at, header, add)
    if header.log_append_time:
        found.stamp(header.max_timestamp)
    return found


def decode_batch(place: TopicPartition, buf: Buffer, at: int, header: BatchHeader) -> list[RawRecord]:
    """All records of the batch at `at`; WireError if its bytes hold anything else."""
    records: list[RawRecord] = []

    def add(data: bytes, some: list[RawRecord], row: Row | None) -> None:
        records.extend(some)
        if row is not None:
            records.extend(_records(data, row, some[-1]))

    _decode_whole(place, buf, at, header, add)
    if header.log_append_time:
        return [record._replace(timestamp=header.max_timestamp) for record in records]
    return records


def _decode_whole(place: TopicPartition, buf: Buffer, at: int, header: BatchHeader, add: Add) -> None:
    section = records_section(buf, at, header, DEFAULT_BUDGET)
    data = section if isinstance(section, bytes) else bytes(section)
    count = header.record_count
    if not 0 <= count <= len(data) // _SMALLEST:
        raise WireError(f"{count} records cannot stand in {len(data)} bytes")
    collects = gc.isenabled()
    gc.disable()  # nothing made here can be garbage yet; looking for it in between takes as long as the rest
    try:
        end = _decode(place, data, count, header, add)
    except IndexError:
        raise WireError(f"the last of {count} records is cut short") from None
    finally:
        if collects:
            gc.enable()
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {count} records")


def _decode(place: TopicPartition, data: bytes, count: int, header: BatchHeader, add: Add) -> int:
    """Rows of records that are alike at once, the others one by one; returns where the last one ends."""
    pos = index = 0
    pause = 1
    while index < count:
        stop = min(count, index + pause)
        some: list[RawRecord] = []
        begin, pos = _decode_each(place, data, pos, range(index, stop), header, some)
        index = stop
        row = row_after(data, begin, pos, count - index) if index < count and not some[-1].headers else None
        add(data, some, row)
        if row is None:  # look seldom where it does not help
            pause = min(2 * pause, PAUSE_MAX)
        else:
            index, pos, pause = index + row.records, row.end, 1
    return pos


def _records(data: bytes, row: Row, before: RawRecord) -> "map[RawRecord]":
    """The records of a row that follows a record."""
    offsets = range(before.offset + 1, before.offset + 1 + row.records)
    fields = zip(
        repeat(before.topic), repeat(before.partition), offsets, row.timestamps(data, before.timestamp),
        row.keys(data), row.values(data), repeat(()), repeat(before.leader_epoch), repeat(None),
    )  # fmt: skip
    return map(new_record, repeat(Record), fields)


def _decode_each(
    place: TopicPartition,
    data: bytes,
    pos: int,
    indexes: Iterable[int],
    header: BatchHeader,
    records: list[RawRecord],
) -> tuple[int, int]:
    """Add records one by one; returns where the last begins and ends. Numbers of one or two bytes, by far the most, are
    read in line; all others by `read_zigzag`."""
    topic, partition = place
    base_offset, base_timestamp, epoch = (
        header.base_offset,
        header.base_timestamp,
        header.partition_leader_epoch,
    )
    add = records.append
    begin = pos
    for index in indexes:
        begin = pos
        size = data[pos]
        pos += 1
        if size >= 0x80:
            if (byte := data[pos]) < 0x80:
                size += (byte - 1) << 7
                pos += 1
            else:
                size, pos = read_zigzag(data, pos - 1)
        end = pos + (size >> 1)
        time = data[pos + 1]  # behind a byte of attributes, which have no meaning yet
        pos += 2
        if time >= 0x80:
            time, pos = read_zigzag(data, pos - 1, 64)
        offset = data[pos]
        pos += 1
        if offset >= 0x80:
            if (byte := data[pos]) < 0x80:
                offset += (byte - 1) << 7
                pos += 1
            else:
                offset, pos = read_zigzag(data, pos - 1)
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        key = null_field(length, pos) if length & 1 else data[start:pos]
        length = data[pos]
        pos += 1
        if length >= 0x80:
            if (byte := data[pos]) < 0x80:
                length += (byte - 1) << 7
                pos += 1
            else:
                length, pos = read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        value = null_field(length, pos) if length & 1 else data[start:pos]
        headers: Sequence[Header] = ()
        if data[pos]:
            headers, pos = read_headers(data, pos, end)
        else:
            pos += 1
        if pos != end or size & 1:
            raise WireError(f"record {index} says it ends at byte {end} of the records, its fields at {pos}")
        offset = base_offset + (offset >> 1 ^ -(offset & 1))
        time = base_timestamp + (time >> 1 ^ -(time & 1))
        add(new_record(Record, (topic, partition, offset, time, key, value, headers, epoch, None)))
    return begin, pos
