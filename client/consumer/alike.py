"""Records of a batch that are as long as the one before them: found and cut without a step for each.

Where keys and values have the same lengths and the times are equal, every byte besides offset, key and value is the
same at the same place of each record. A slice with the record's length as its step picks such a byte of all records, so
a few comparisons of slices show how far the row goes.
"""

from itertools import repeat
from typing import NamedTuple

from rookery.core.wire.records import read_zigzag

_WIDTHS = (range(64), range(64, 8192))
"""Offsets in a batch whose numbers are one and two bytes long."""
_ONE = bytes(2 * offset for offset in _WIDTHS[0])
_LOW = bytes((2 * offset) & 0x7F | 0x80 for offset in range(8192))
_HIGH = bytes((2 * offset) >> 7 for offset in range(8192))
FEWEST = 4


class Row(NamedTuple):
    """Records after another one: where their keys and values are in each, and how many there are."""

    records: int
    step: int
    start: int
    """Where the first begins."""
    key: tuple[int, int] | None
    """From where to where, from the record's beginning; None without a key."""
    value: tuple[int, int] | None

    @property
    def end(self) -> int:
        return self.start + self.records * self.step

    def keys(self, data: bytes) -> "repeat[None] | list[bytes]":
        return self._cut(data, self.key)

    def values(self, data: bytes) -> "repeat[None] | list[bytes]":
        return self._cut(data, self.value)

    def _cut(self, data: bytes, bounds: tuple[int, int] | None) -> "repeat[None] | list[bytes]":
        if bounds is None:
            return repeat(None)
        first, size = self.start + bounds[0], bounds[1] - bounds[0]
        return [data[at : at + size] for at in range(first, first + self.records * self.step, self.step)]


def row_after(data: bytes, begin: int, end: int, most: int) -> Row | None:
    """The records after the one from `begin` to `end` that are like it, at most so many; None if they are few. That
    record was read already, and has no headers."""
    step = end - begin
    size = data[begin : begin + 2]
    if data[end : end + 2] != size or data[end + step : end + step + 2] != size:
        return None
    _, at = _number(data, begin)
    _, offset_at = _number(data, at + 1)
    raw, offset_end = _number(data, offset_at)
    offset = _signed(raw)
    raw, key_at = _number(data, offset_end)
    length = _signed(raw)
    key_end = key_at + max(0, length)
    raw, value_at = _number(data, key_end)
    value_size = _signed(raw)
    if offset < 0 or offset >= _WIDTHS[1].stop - 1:
        return None
    widest = _WIDTHS[0] if offset < _WIDTHS[0].stop else _WIDTHS[1]
    if offset_end - offset_at != 1 + (widest is _WIDTHS[1]) or value_at + max(0, value_size) != end - 1:
        return None  # a number with more bytes than it needs: the records after it may have fewer
    following = offset + 1
    count = min(most, (len(data) - end) // step, widest.stop - following)
    same = [
        (place - begin, data[place : place + 1])
        for place in (
            *reversed(range(begin, offset_at)),  # the time first: it ends most rows
            *range(offset_end, key_at),
            *range(key_end, value_at),
            end - 1,
        )
    ]
    while count >= FEWEST:
        stop = end + count * step
        for place, byte in same:
            if data[end + place : stop : step] != byte * count:
                break
        else:
            if _numbered(data, end + offset_at - begin, stop, step, following, count):
                key = None if length < 0 else (key_at - begin, key_end - begin)
                value = None if value_size < 0 else (value_at - begin, value_at - begin + value_size)
                return Row(count, step, end, key, value)
        count //= 2
    return None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number there, still zig-zag coded, and the position behind it."""
    return (data[at], at + 1) if data[at] < 0x80 else read_zigzag(data, at, 64)


def _signed(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _numbered(data: bytes, at: int, stop: int, step: int, first: int, count: int) -> bool:
    """Whether the offsets go on by one."""
    if first < _WIDTHS[0].stop:
        return data[at:stop:step] == _ONE[first : first + count]
    return (
        data[at:stop:step] == _LOW[first : first + count]
        and data[at + 1 : stop : step] == _HIGH[first : first + count]
    )
