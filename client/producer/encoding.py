"""Records on their way into a batch, in columns until they are encoded.

Records that arrive in the same millisecond, without headers and all with or all without a key, form a run. A run is
encoded at once: where its keys and values have the same lengths, one record costs a few pieces of one `join`.
"""

from collections.abc import Iterable, Iterator

from rookery.client.types import Headers
from rookery.core.wire.records import RecordHeader, encode_headers, varint

TABLE_SIZE = 8192
_TABLE: list[bytes] = []
_ONE_BYTE = 64
"""Numbers below it are one byte long as a varint."""
_NO_KEY = b"\x01"
_END = b"\0"  # no headers

Row = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value, headers."""


def number(value: int) -> bytes:
    """A number as a varint."""
    return _TABLE[value] if 0 <= value < TABLE_SIZE else varint(value)


def _fill_table() -> None:
    _TABLE.extend(map(varint.__wrapped__, range(TABLE_SIZE)))


class Run:
    """Records of one millisecond without headers; `keys` is None where no record has one."""

    __slots__ = ("keys", "timestamp", "values")

    def __init__(self, timestamp: int, keys: list[bytes] | None, values: list[bytes]) -> None:
        self.timestamp = timestamp
        self.keys = keys
        self.values = values

    def encode(self, first: int, base_timestamp: int) -> list[bytes]:
        values, keys = self.values, self.keys
        time = number(self.timestamp - base_timestamp)
        value_sizes = set(map(len, values))
        if keys is None:
            if len(value_sizes) == 1:
                return _alike(first, time, values, value_sizes.pop())
            return _mixed(first, time, values)
        if len(value_sizes) == 1 and len(key_sizes := set(map(len, keys))) == 1:
            return _alike_with_keys(first, time, keys, values, key_sizes.pop(), value_sizes.pop())
        return _mixed_with_keys(first, time, keys, values)


def _offsets(first: int, count: int) -> list[bytes]:
    end = first + count
    if end <= TABLE_SIZE:
        return _TABLE[first:end]
    return [number(offset) for offset in range(first, end)]


def _segments(first: int, offsets: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """From where to where the numbers of records have the same width, and that width."""
    start, count = 0, len(offsets)
    while start < count:
        width = len(offsets[start])
        stop = min(count, (_ONE_BYTE << 7 * (width - 1)) - first)
        yield start, stop, width
        start = stop


def _alike(first: int, time: bytes, values: list[bytes], size: int) -> list[bytes]:
    """Only the number and the value differ between records of one width; the rest is the same piece again and again."""
    after = _NO_KEY + number(size)
    fixed = 2 + len(time) + len(after) + size
    offsets = _offsets(first, len(values))
    parts: list[bytes] = []
    for start, stop, width in _segments(first, offsets):
        before = number(fixed + width) + b"\0" + time
        some = [_END + before] * (4 * (stop - start))
        some[0] = before
        some[1::4] = offsets[start:stop]
        some[2::4] = [after] * (stop - start)
        some[3::4] = values[start:stop]
        parts += some
        parts.append(_END)
    return parts


def _alike_with_keys(
    first: int, time: bytes, keys: list[bytes], values: list[bytes], key_size: int, value_size: int
) -> list[bytes]:
    after = number(key_size)
    between = number(value_size)
    fixed = 2 + len(time) + len(after) + key_size + len(between) + value_size
    offsets = _offsets(first, len(values))
    parts: list[bytes] = []
    for start, stop, width in _segments(first, offsets):
        before = number(fixed + width) + b"\0" + time
        some = [_END + before] * (6 * (stop - start))
        some[0] = before
        some[1::6] = offsets[start:stop]
        some[2::6] = [after] * (stop - start)
        some[3::6] = keys[start:stop]
        some[4::6] = [between] * (stop - start)
        some[5::6] = values[start:stop]
        parts += some
        parts.append(_END)
    return parts


def _mixed(first: int, time: bytes, values: Iterable[bytes]) -> list[bytes]:
    parts: list[bytes] = []
    before = b"\0" + time
    fixed = len(before) + 2
    for offset, value in enumerate(values, first):
        place, size = number(offset), len(value)
        length = number(size)
        total = number(fixed + len(place) + len(length) + size)
        parts += (total, before, place, _NO_KEY, length, value, _END)
    return parts


def _mixed_with_keys(first: int, time: bytes, keys: Iterable[bytes], values: Iterable[bytes]) -> list[bytes]:
    parts: list[bytes] = []
    before = b"\0" + time
    fixed = len(before) + 1
    for offset, (key, value) in enumerate(zip(keys, values, strict=True), first):
        place, key_size, size = number(offset), len(key), len(value)
        key_length, length = number(key_size), number(size)
        total = number(fixed + len(place) + len(key_length) + key_size + len(length) + size)
        parts += (total, before, place, key_length, key, length, value, _END)
    return parts


def encode_row(offset: int, row: Row, base_timestamp: int) -> bytes:
    """A record of any form."""
    timestamp, key, value, headers = row
    fields = (
        b"\0",
        number(timestamp - base_timestamp),
        number(offset),
        number(-1 if key is None else len(key)),
        key or b"",
        number(-1 if value is None else len(value)),
        value or b"",
        encode_headers([RecordHeader(*header) for header in headers]) if headers else _END,
    )
    body = b"".join(fields)
    return number(len(body)) + body


_fill_table()
