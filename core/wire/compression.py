"""The codecs of record batches, with a hard limit on what decompressing may produce.

Sizes claimed inside compressed data are never believed: output goes into a buffer that is as large as the
caller's budget at most, and a codec that wants to write past its end fails. Nothing larger is ever allocated.
"""

import struct
from collections.abc import Callable
from enum import IntEnum

import cramjam

from rookery.core.wire.primitives import Buffer, WireError


class Codec(IntEnum):
    """The codec bits of a batch's attributes; the names in lower case are the values of compression.type."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class OverBudgetError(WireError):
    """The data would decompress to more than the caller allows."""


XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest version that can read it
_XERIAL_BLOCK = 32 * 1024
_LENGTH = struct.Struct(">i")

_LZ4_DEFAULT = 9  # means the fast mode in Kafka, not the ninth level
_LZ4_BEST = 12
_FIRST_GUESS = 32 * 1024
_GROWTH = 4
_FULL = "failed to write whole buffer"


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` in the codec's form; `level` as in compression.<codec>.level, None for Kafka's default."""
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=6 if level in (None, -1) else level))
    if codec == Codec.SNAPPY:
        return _xerial(data)
    if codec == Codec.LZ4:
        return _lz4(data, level)
    if codec == Codec.ZSTD:
        return memoryview(cramjam.zstd.compress(data, level=3 if level is None else level))
    raise WireError(f"codec {codec} is not known")


def decompress(codec: int, data: Buffer, budget: int) -> Buffer:
    """What `data` holds; OverBudgetError if that is more than `budget` bytes, WireError if it is damaged."""
    if codec == Codec.NONE:
        if len(data) > budget:
            raise OverBudgetError(f"{len(data)} bytes of records, {budget} are allowed")
        return data
    if codec == Codec.SNAPPY:
        return _snappy_bytes(data, budget)
    into = _INTO.get(codec)
    if into is None:
        raise WireError(f"codec {codec} is not known")
    return _grow(into, data, budget)


_Into = Callable[[Buffer, bytearray], int]
_INTO: dict[int, _Into] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _grow(into: _Into, data: Buffer, budget: int) -> bytearray:
    """Decompress into ever larger buffers: the size is not known before, a claimed one not believed."""
    room = min(budget, max(_FIRST_GUESS, _GROWTH * len(data)))
    while (out := _fill(into, data, room)) is None:
        if room == budget:
            raise OverBudgetError(f"{len(data)} compressed bytes hold more than the {budget} allowed")
        room = min(budget, room * _GROWTH)
    return out


def _fill(into: _Into, data: Buffer, room: int) -> bytearray | None:
    """The decompressed data, or None if it needs more than `room` bytes."""
    out = bytearray(room)
    try:
        size = into(data, out)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            return None
        raise WireError(f"compressed records are damaged: {error}") from None
    del out[size:]
    return out


def _lz4(data: Buffer, level: int | None) -> Buffer:
    """One frame of independent blocks, the only kind the Java client reads."""
    effort = 1 if level in (None, _LZ4_DEFAULT) else min(level or 1, _LZ4_BEST)
    frame = cramjam.lz4.Compressor(level=effort, content_checksum=False, block_linked=False)
    frame.compress(bytes(data))
    return memoryview(frame.finish())


def _xerial(data: Buffer) -> bytes:
    """snappy-java's stream: a header, then blocks of up to 32 KiB of data, each with its length before it."""
    parts: list[Buffer] = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = memoryview(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _snappy_bytes(data: Buffer, budget: int) -> bytearray:
    """Both forms in use: snappy-java's stream, and one bare block as librdkafka sends it."""
    out = bytearray()
    try:
        for block in _snappy_blocks(memoryview(data)):
            size = cramjam.snappy.decompress_raw_len(block)
            if size > budget - len(out):
                raise OverBudgetError(f"{len(data)} snappy bytes hold more than the {budget} allowed")
            out += memoryview(cramjam.snappy.decompress_raw(block, output_len=size))
    except cramjam.DecompressionError as error:
        raise WireError(f"compressed records are damaged: {error}") from None
    return out


def _snappy_blocks(view: memoryview) -> list[memoryview]:
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return [view]
    blocks = []
    pos, end = len(_XERIAL_HEADER), len(view)
    while pos < end:
        if end - pos < _LENGTH.size:
            raise WireError("a snappy block's length is cut short")
        size: int = _LENGTH.unpack_from(view, pos)[0]
        pos += _LENGTH.size
        if not 0 < size <= end - pos:
            raise WireError(f"a snappy block says it has {size} bytes, {end - pos} remain")
        blocks.append(view[pos : pos + size])
        pos += size
    return blocks
