"""The codecs of record batches, with a hard limit on what decompressing may produce.

Sizes claimed inside compressed data are never believed: output goes into a buffer that is as large as the
caller's budget at most, and a codec that wants to write past its end fails. Nothing larger is ever allocated.
"""

import mmap
import struct
from collections.abc import Callable, Iterator
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

# Magic; version 1, blocks independent and without checksums; blocks of 64 KiB; the checksum of these two bytes.
_LZ4_HEADER = b"\x04\x22\x4d\x18" + b"\x60\x40" + b"\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_LENGTH = struct.Struct("<I")
_LZ4_STORED = 1 << 31  # set in the length of a block that compressing did not shrink
_LZ4_END = b"\0\0\0\0"
_LZ4_DEFAULT = 9  # means the fast mode in Kafka, not the ninth level
_LZ4_BEST = 12
_LEAST_ROOM = 32 * 1024
_USUAL_RATIO = 8  # what text comes to; more room costs its zeroing, less a second try
_GROWTH = 4
_MAPPED_FROM = 1 << 20
"""A larger buffer is mapped, since zeroing it would stop every thread of the process for a while."""
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


_Into = Callable[[Buffer, bytearray | mmap.mmap], int]
_INTO: dict[int, _Into] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _grow(into: _Into, data: Buffer, budget: int) -> Buffer:
    """Decompress into ever larger buffers: the size is not known before, a claimed one not believed."""
    room = min(budget, max(_LEAST_ROOM, _USUAL_RATIO * len(data)))
    while (out := _fill(into, data, room)) is None:
        if room == budget:
            raise OverBudgetError(f"{len(data)} compressed bytes hold more than the {budget} allowed")
        room = min(budget, room * _GROWTH)
    return out


def _fill(into: _Into, data: Buffer, room: int) -> Buffer | None:
    """The decompressed data, or None if it needs more than `room` bytes."""
    mapped = room >= _MAPPED_FROM
    out = mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) if mapped else bytearray(room)
    try:
        size = into(data, out)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            return None
        raise WireError(f"compressed records are damaged: {error}") from None
    return memoryview(out)[:size]


def _lz4(data: Buffer, level: int | None) -> Buffer:
    """One frame of independent blocks, the only kind the Java client reads."""
    if level not in (None, _LZ4_DEFAULT):
        frame = cramjam.lz4.Compressor(level=min(level, _LZ4_BEST), content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return memoryview(frame.finish())
    parts: list[Buffer] = [_LZ4_HEADER]
    for block in _blocks(data, _LZ4_BLOCK):
        packed = memoryview(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_LZ4_LENGTH.pack(len(packed)), packed)
        else:
            parts += (_LZ4_LENGTH.pack(len(block) | _LZ4_STORED), block)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _blocks(data: Buffer, size: int) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[start : start + size] for start in range(0, len(view), size))


def _xerial(data: Buffer) -> bytes:
    """snappy-java's stream: a header, then blocks of up to 32 KiB of data, each with its length before it."""
    parts: list[Buffer] = [_XERIAL_HEADER]
    for block in _blocks(data, _XERIAL_BLOCK):
        packed = memoryview(cramjam.snappy.compress_raw(block))
        parts += (_LENGTH.pack(len(packed)), packed)
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
