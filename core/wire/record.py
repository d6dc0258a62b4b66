"""Single records inside a batch: their bytes and back.

This is for whoever must look inside: compaction, time lookups, our own client and tools. Brokers store and
serve batches without coming here. The loops are written out flat because they run once per record.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rookery.core.wire.primitives import Buffer, WireError

_SMALLEST = 7  # bytes of a record without key, value and headers
_KEY_BYTES = "surrogateescape"  # header keys are UTF-8; bytes that are not come back as they were


class RecordHeader(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record at its place in the log; a value of None is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader] = ()


@lru_cache(4096)  # lengths and deltas repeat, and finding one is cheaper than working it out
def varint(value: int) -> bytes:
    """A signed number, zig-zag coded so that small negative ones are short too."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_zigzag(data: Buffer, pos: int, bits: int = 32) -> tuple[int, int]:
    """The number at `pos`, still zig-zag coded, which must fit `bits`; and the position behind it."""
    if (byte := data[pos + 1]) < 0x80:
        return data[pos] & 0x7F | byte << 7, pos + 2
    rest = data[pos] & 0x7F | (byte & 0x7F) << 7
    at, shift = pos + 2, 14
    while shift < bits:
        byte = data[at]
        at += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80 and not rest >> bits:
            return rest, at
        shift += 7
    raise WireError(f"the number at byte {pos} of the records has more than {bits} bits")


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The records section of a batch with these bases, uncompressed."""
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        fields = (
            b"\0",
            varint(timestamp - base_timestamp),
            varint(offset - base_offset),
            varint(-1 if key is None else len(key)),
            key or b"",
            varint(-1 if value is None else len(value)),
            value or b"",
            encode_headers(headers) if headers else b"\0",
        )
        record = b"".join(fields)
        parts += (varint(len(record)), record)
    return b"".join(parts)


def encode_headers(headers: Sequence[RecordHeader]) -> bytes:
    parts = [varint(len(headers))]
    for name, content in headers:
        key = name.encode("utf-8", _KEY_BYTES)
        parts += (varint(len(key)), key)
        parts += (varint(-1),) if content is None else (varint(len(content)), content)
    return b"".join(parts)


def decode_records(data: bytes, count: int, base_offset: int, base_timestamp: int) -> list[Record]:
    """All `count` records of an uncompressed records section; WireError if the bytes hold anything else."""
    if not 0 <= count <= len(data) // _SMALLEST:
        raise WireError(f"{count} records cannot stand in {len(data)} bytes")
    try:
        records, end = _decode(data, count, base_offset, base_timestamp)
    except IndexError:
        raise WireError(f"the last of {count} records is cut short") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {count} records")
    return records


def _decode(data: bytes, count: int, base_offset: int, base_timestamp: int) -> tuple[list[Record], int]:
    """Numbers of one byte, by far the most, are read in line; all others by `_read_zigzag`."""
    records: list[Record] = []
    pos = 0
    for index in range(count):
        size = data[pos]
        pos += 1
        if size >= 0x80:
            size, pos = _read_zigzag(data, pos - 1)
        end = pos + (size >> 1)
        time = data[pos + 1]  # behind a byte of attributes, which have no meaning yet
        pos += 2
        if time >= 0x80:
            time, pos = _read_zigzag(data, pos - 1, 64)
        offset = data[pos]
        pos += 1
        if offset >= 0x80:
            offset, pos = _read_zigzag(data, pos - 1)
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = _read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        key = _null(length, pos) if length & 1 else data[start:pos]
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = _read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        value = _null(length, pos) if length & 1 else data[start:pos]
        headers: Sequence[RecordHeader] = ()
        if data[pos]:
            headers, pos = _read_headers(data, pos, end)
        else:
            pos += 1
        if pos != end or size & 1:
            raise WireError(f"record {index} says it ends at byte {end} of the records, its fields at {pos}")
        offset = base_offset + (offset >> 1 ^ -(offset & 1))
        time = base_timestamp + (time >> 1 ^ -(time & 1))
        records.append(_new(Record, (offset, time, key, value, headers)))
    return records, pos


class Outline(NamedTuple):
    """What a check of a record asks for."""

    offset_delta: int
    timestamp_delta: int
    has_key: bool


def outline_records(data: Buffer, count: int) -> Iterator[Outline]:
    """The outlines of all `count` records of an uncompressed records section, one by one: however many there are,
    none is kept. WireError, when it comes so far, if the bytes hold anything else."""
    if not 0 <= count <= len(data) // _SMALLEST:
        raise WireError(f"{count} records cannot stand in {len(data)} bytes")
    try:
        end = yield from _outline(data, count)
    except IndexError:
        raise WireError(f"the last of {count} records is cut short") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes follow the last of {count} records")


def _outline(data: Buffer, count: int) -> Generator[Outline, None, int]:
    """As `_decode`, but what is inside keys, values and headers is passed over; returns where the records end."""
    pos = 0
    for index in range(count):
        size = data[pos]
        pos += 1
        if size >= 0x80:
            size, pos = _read_zigzag(data, pos - 1)
        end = pos + (size >> 1)
        time = data[pos + 1]
        pos += 2
        if time >= 0x80:
            time, pos = _read_zigzag(data, pos - 1, 64)
        offset = data[pos]
        pos += 1
        if offset >= 0x80:
            offset, pos = _read_zigzag(data, pos - 1)
        key = data[pos]
        pos += 1
        if key >= 0x80:
            key, pos = _read_zigzag(data, pos - 1)
        pos += key >> 1
        if key & 1:
            _null(key, pos)
        value = data[pos]
        pos += 1
        if value >= 0x80:
            value, pos = _read_zigzag(data, pos - 1)
        pos += value >> 1
        if value & 1:
            _null(value, pos)
        pos = _pass_headers(data, pos, end) if data[pos] else pos + 1
        if pos != end or size & 1:
            raise WireError(f"record {index} says it ends at byte {end} of the records, its fields at {pos}")
        yield _new(Outline, (offset >> 1 ^ -(offset & 1), time >> 1 ^ -(time & 1), not key & 1))
    return pos


def _pass_headers(data: Buffer, pos: int, end: int) -> int:
    count, pos = _header_count(data, pos, end)
    for _ in range(count):
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = _read_zigzag(data, pos - 1)
        if length & 1:
            raise WireError(f"a header before byte {pos} of the records has no key")
        pos += length >> 1
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = _read_zigzag(data, pos - 1)
        pos += length >> 1
        if length & 1:
            _null(length, pos)
    return pos


_new = tuple.__new__  # a named tuple of fields that are known to be right, without its constructor


def _null(length: int, pos: int) -> bytes | None:
    """An odd length is negative; only -1, which is 1 in zig-zag, has a meaning."""
    if length != 1:
        raise WireError(f"a field before byte {pos} of the records says it has {-(length + 1 >> 1)} bytes")
    return None


def _header_count(data: Buffer, pos: int, end: int) -> tuple[int, int]:
    count = data[pos]
    pos += 1
    if count >= 0x80:
        count, pos = _read_zigzag(data, pos - 1)
    if count & 1 or count > end - pos:  # a header has two bytes at least, and the count is still doubled
        raise WireError(f"{count >> 1} headers cannot stand in {end - pos} bytes")
    return count >> 1, pos


def _read_headers(data: bytes, pos: int, end: int) -> tuple[list[RecordHeader], int]:
    count, pos = _header_count(data, pos, end)
    headers = []
    for _ in range(count):
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = _read_zigzag(data, pos - 1)
        if length & 1:
            raise WireError(f"a header before byte {pos} of the records has no key")
        start = pos
        pos += length >> 1
        key = str(data[start:pos], "utf-8", _KEY_BYTES)
        length = data[pos]
        pos += 1
        if length >= 0x80:
            length, pos = _read_zigzag(data, pos - 1)
        start = pos
        pos += length >> 1
        value = _null(length, pos) if length & 1 else data[start:pos]
        headers.append(_new(RecordHeader, (key, value)))
    return headers, pos
