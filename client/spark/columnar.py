"""The records of some batches as Arrow columns.

Records have different lengths and follow each other, so finding the start of each takes one step per record. Everything
else, their numbers and the bounds of keys and values, is computed for all records at once. No Python object is
created for a key or a value.
"""

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from rookery.core.wire.batch import BatchHeader
from rookery.core.wire.primitives import Buffer, WireError

PADDING = 16
"""Bytes after the last number, so that reading its next byte stays inside the buffer."""

_U8, _U64, _I64 = pa.uint8(), pa.uint64(), pa.int64()
_CONTINUES, _PAYLOAD = pa.scalar(0x80, _U8), pa.scalar(0x7F, _U8)
_ONE = pa.scalar(1, _U64)
_STEP = pa.scalar(1, _I64)
_SHIFTS = [pa.scalar(shift, _U64) for shift in range(7, 70, 7)]  # made once: Arrow takes its time over numbers


def byte_array(data: bytes) -> pa.Array:
    """A buffer as an array of its bytes, without a copy."""
    return pa.Array.from_buffers(_U8, len(data), [None, pa.py_buffer(data)])


def read_varints(data: pa.Array, at: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The zig-zag coded numbers at some places, and the positions after them. IndexError beyond the buffer."""
    byte = pc.take(data, at)
    at = pc.add(at, _STEP)
    if pc.max(byte).as_py() < 0x80:  # by far the most
        return _signed(byte.cast(_U64)), at
    number = pc.bit_wise_and(byte, _PAYLOAD).cast(_U64)
    resume_at = pc.greater_equal(byte, _CONTINUES)
    for shift in _SHIFTS:
        byte = pc.take(data, at)
        part = pc.shift_left(pc.bit_wise_and(byte, _PAYLOAD).cast(_U64), shift)
        number = pc.if_else(resume_at, pc.bit_wise_or(number, part), number)
        at = pc.add(at, resume_at.cast(_I64))
        resume_at = pc.and_(resume_at, pc.greater_equal(byte, _CONTINUES))
        if not pc.any(resume_at).as_py():
            return _signed(number), at
    raise WireError("a number within the records has more than 64 bits")


def _signed(number: pa.Array) -> pa.Array:
    half = pc.shift_right(number, _ONE).view(_I64)
    return pc.bit_wise_xor(half, pc.negate(pc.bit_wise_and(number, _ONE).view(_I64)))


_I64 = pa.int64()
_RUNS = pa.run_end_encoded(pa.int32(), _I64)
_NONE = pa.scalar(0, _I64)
_ATTRIBUTES = pa.scalar(1, _I64)
_HIGH_HALF = pa.scalar(32, _I64)
_NO_INDEX = pa.scalar(None, pa.int32())

Section = tuple[BatchHeader, Buffer]
"""A batch's header and its records, uncompressed."""


class Columns:
    """Offsets, times, keys and values of the records of some batches, in order."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self._headers = [header for header, _ in sections]
        self._data = b"".join([*(section for _, section in sections), bytes(PADDING)])
        try:
            bounds = array("q", _find(self._data, sections))
            self.rows = len(bounds) - 1
            self._read(_numbers(bounds, _I64))
        except IndexError:
            raise WireError("a field of a record ends after the records") from None

    def _read(self, bounds: pa.Array) -> None:
        data = byte_array(self._data)
        _, begins = read_varints(data, bounds[:-1])  # behind the length, which has been followed
        self._times, at = read_varints(data, pc.add(begins, _ATTRIBUTES))  # a byte without meaning
        self._deltas, at = read_varints(data, at)
        lengths, at = read_varints(data, at)
        self._keys = _Bounds(at, lengths)
        lengths, at = read_varints(data, self._keys.end)
        self._values = _Bounds(at, lengths)
        if not pc.all(pc.less(self._values.end, bounds[1:])).as_py():
            raise WireError("a record has fields that end after it")
        self.have_headers = pc.max(pc.take(data, self._values.end)).as_py() > 0

    @property
    def offsets(self) -> pa.Array:
        return pc.add(self.of_batches([header.base_offset for header in self._headers], _I64), self._deltas)

    @property
    def times(self) -> pa.Array:
        """In ms: the producer's, or the broker's where the topic asks for it."""
        base = [header.max_timestamp if header.log_append_time else header.base_timestamp for header in self._headers]
        times = self._times
        if any(header.log_append_time for header in self._headers):
            own = self.of_batches([int(not header.log_append_time) for header in self._headers], _I64)
            times = pc.multiply(times, own)
        return pc.add(self.of_batches(base, _I64), times)

    def of_batches(self, each: Sequence[int], kind: pa.DataType) -> pa.Array:
        """A value of each batch, repeated for all its records."""
        ends = array("i", accumulate(header.record_count for header in self._headers))
        values = _numbers(array("q", each), _I64)
        runs = pa.Array.from_buffers(_RUNS, self.rows, [None], children=[_numbers(ends, pa.int32()), values])
        decoded = pc.run_end_decode(runs)
        return decoded if kind == _I64 else decoded.cast(kind)

    @property
    def keys(self) -> pa.Array:
        return self._keys.taken(self._data)

    @property
    def values(self) -> pa.Array:
        return self._values.taken(self._data)


class _Bounds:
    """Begin and end of one field of every record; the length of a null field is -1."""

    def __init__(self, begin: pa.Array, lengths: pa.Array) -> None:
        shortest = pc.min(lengths).as_py()
        if shortest < -1:
            raise WireError(f"a field has the length {shortest}")
        self._begin = begin
        self._null = pc.less(lengths, _NONE) if shortest < 0 else None
        self.end = pc.add(begin, pc.max_element_wise(lengths, _NONE) if shortest < 0 else lengths)

    def taken(self, data: bytes) -> pa.Array:
        """The fields, copied out of `data`.

        Begin and end of all fields, one after the other, are the offsets of an Arrow array whose elements are
        alternately a field and the bytes between two fields.
        """
        rows = len(self._begin)
        pairs = pc.bit_wise_or(self._begin, pc.shift_left(self.end, _HIGH_HALF))
        both = pa.Array.from_buffers(
            pa.binary(), 2 * rows - 1, [None, pairs.buffers()[1], pa.py_buffer(data)], offset=2 * pairs.offset
        )
        wanted = _every_second(-(-rows // 1024) * 1024)[:rows]
        return pc.take(both, wanted if self._null is None else pc.if_else(self._null, _NO_INDEX, wanted))


def _numbers(values: "array[int]", kind: pa.DataType) -> pa.Array:
    """An Arrow array without a copy, and without Arrow's check for types of other libraries."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


@lru_cache(64)
def _every_second(rows: int) -> pa.Array:
    return pa.array(range(0, 2 * rows, 2), pa.int32())


def _find(data: bytes, sections: Sequence[Section]) -> list[int]:
    """Where each record begins, with its length, and where the last one ends."""
    starts: list[int] = []
    pos = end = 0
    for header, section in sections:
        end += len(section)
        pos = _step(data, pos, header.record_count, starts)
        if pos != end:
            raise WireError(f"{header.record_count} records end at byte {pos} instead of {end}")
    starts.append(pos)
    return starts


_STEPS = [2 + ((byte & 0x7F) >> 1) for byte in range(0x100)]
"""By the first byte of a length of two bytes: how far they and what this byte counts reach."""


def _step(data: bytes, pos: int, count: int, starts: list[int]) -> int:
    """Flat, since it runs once per record."""
    for _ in range(count):
        starts.append(pos)
        first = data[pos]
        if first < 0x80:
            pos += 1 + (first >> 1)
            continue
        second = data[pos + 1]
        if second < 0x80:
            pos += _STEPS[first] + (second << 6)
        else:
            size, pos = _long_size(data, pos)
            pos += size >> 1
    return pos


def _long_size(data: bytes, pos: int) -> tuple[int, int]:
    """A size of three bytes or more, and the position behind it."""
    size = 0
    for shift in range(0, 35, 7):
        byte = data[pos]
        pos += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, pos
    raise WireError(f"the size of a record at byte {pos} has more than 32 bits")
