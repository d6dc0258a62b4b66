"""Where the fields of records stand in their bytes, so that Arrow can take whole columns at once.

Every field of a batch's records is a stretch of one buffer. The bounds of all keys and values, in order, are the
offsets of one Arrow array over that buffer, whose elements are in turn a key, what lies between, a value, what
lies between; a column is then every fourth element. No Python object is made for a key or a value.
"""

from array import array
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.primitives import WireError

_FIELDS = 4  # bounds of each record: key from and to, value from and to


class Marks:
    """Offsets, times and bounds of the records of some batches."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.times: list[int] = []
        self.bounds: list[int] = []
        self.null_keys: list[int] = []
        self.null_values: list[int] = []

    def add(self, data: bytes, pos: int, end: int, header: BatchHeader) -> None:
        """Mark the records of a batch, which stand uncompressed at `pos` to `end`."""
        first = len(self.offsets)
        try:
            reached = self._walk(data, pos, header)
        except IndexError:
            raise WireError(f"the last of {header.record_count} records is cut short") from None
        if reached != end:
            raise WireError(f"{header.record_count} records end at byte {reached} instead of {end}")
        if header.log_append_time:
            self.times[first:] = [header.max_timestamp] * (len(self.times) - first)

    def _walk(self, data: bytes, pos: int, header: BatchHeader) -> int:
        """Flat, since it runs once per record; numbers of one byte, by far the most, are read in line."""
        base_offset, base_time = header.base_offset, header.base_timestamp
        bounds, offsets, times = self.bounds, self.offsets, self.times
        for _ in range(header.record_count):
            size = data[pos]
            pos += 1
            if size >= 0x80:
                size, pos = _zigzag(data, pos - 1)
            end = pos + (size >> 1)
            time = data[pos + 1]
            pos += 2
            if time >= 0x80:
                time, pos = _zigzag(data, pos - 1)
            delta = data[pos]
            pos += 1
            if delta >= 0x80:
                delta, pos = _zigzag(data, pos - 1)
            length = data[pos]
            pos += 1
            if length >= 0x80:
                length, pos = _zigzag(data, pos - 1)
            key = pos
            if length & 1:
                _note_null(self.null_keys, len(offsets), length)
            pos = key_end = pos + (length >> 1)
            length = data[pos]
            pos += 1
            if length >= 0x80:
                length, pos = _zigzag(data, pos - 1)
            if length & 1:
                _note_null(self.null_values, len(offsets), length)
            value_end = pos + (length >> 1)
            bounds += (key, key_end, pos, value_end)
            if value_end >= end:
                raise WireError(f"a record that ends at byte {end} has fields up to {value_end}")
            offsets.append(base_offset + (delta >> 1 ^ -(delta & 1)))
            times.append(base_time + (time >> 1 ^ -(time & 1)))
            pos = end
        return pos

    def keys(self, data: bytes) -> pa.Array:
        return self._taken(data, 0, self.null_keys)

    def values(self, data: bytes) -> pa.Array:
        return self._taken(data, 2, self.null_values)

    def _taken(self, data: bytes, place: int, nulls: list[int]) -> pa.Array:
        bounds = pa.py_buffer(array("i", self.bounds))
        fields = pa.Array.from_buffers(pa.binary(), len(self.bounds) - 1, [None, bounds, pa.py_buffer(data)])
        rows = len(self.offsets)
        if not nulls:
            return pc.take(fields, _every_fourth(place, -(-rows // 1024) * 1024)[:rows])
        wanted: list[int | None] = list(range(place, _FIELDS * rows, _FIELDS))
        for row in nulls:
            wanted[row] = None
        return pc.take(fields, pa.array(wanted, pa.int32()))


@lru_cache(64)
def _every_fourth(place: int, rows: int) -> pa.Array:
    return pa.array(range(place, _FIELDS * rows + place, _FIELDS), pa.int32())


def _note_null(nulls: list[int], row: int, length: int) -> None:
    """An odd length is negative; only -1, which is 1 in zig-zag, has a meaning."""
    if length != 1:
        raise WireError(f"a field says it has {-(length + 1 >> 1)} bytes")
    nulls.append(row)


def _zigzag(data: bytes, pos: int) -> tuple[int, int]:
    """The number at `pos`, still zig-zag coded, and the position behind it."""
    value = shift = 0
    while shift < 70:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
    raise WireError(f"the number before byte {pos} of the records has more than 64 bits")
