"""Variable-length numbers at many places of one buffer, read all at once by Arrow's kernels."""

import pyarrow as pa
import pyarrow.compute as pc

from rookery.core.wire.primitives import WireError

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
