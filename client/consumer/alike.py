"""Records of a batch that are as long as the one before them: found and cut without a step for each.

Where keys and values have the same lengths, every byte besides time, offset, key and value is the same at the same
place of each record. A slice with the record's length as its step picks such a byte of all records, so a few looks at
slices show how far the row goes. Times may differ while they are one or two bytes long: tables make numbers of them.
"""

from collections.abc import Iterable
from itertools import repeat
from operator import add
from typing import NamedTuple

from rookery.core.wire.records import read_zigzag

_WIDTHS = (range(64), range(64, 8192))
"""Offsets in a batch whose numbers are one and two bytes long."""
_ONE = bytes(2 * offset for offset in _WIDTHS[0])
_LOW = bytes((2 * offset) & 0x7F | 0x80 for offset in range(8192))
_HIGH = bytes((2 * offset) >> 7 for offset in range(8192))
_LAST_BYTES = bytes(range(128))
"""What the last byte of a number may be."""
_FIRST_EVEN = bytes(range(128, 256, 2))
"""What the first of two bytes of a number that is not negative may be."""
_OF_ONE = [byte >> 1 ^ -(byte & 1) for byte in range(128)]
_OF_FIRST = [(byte & 0x7F) >> 1 for byte in range(256)]
_OF_SECOND = [byte << 6 for byte in range(128)]
FEWEST = 4


class Row(NamedTuple):
    """Records after another one: where their keys and values are in each, and how many there are."""

    records: int
    step: int
    start: int
    """Where the first begins."""
    time: tuple[int, int]
    """From where to where, from the record's beginning."""
    key: tuple[int, int] | None
    """The same; None without a key."""
    value: tuple[int, int] | None

    @property
    def end(self) -> int:
        return self.start + self.records * self.step

    def keys(self, data: bytes) -> "repeat[None] | list[bytes]":
        return self._cut(data, self.key)

    def values(self, data: bytes) -> "repeat[None] | list[bytes]":
        return self._cut(data, self.value)

    def timestamps(self, data: bytes, before: int) -> Iterable[int]:
        """`before`: that of the record before the row."""
        start, stop = self.start + self.time[0], self.start + self.time[1]
        first = data[start : self.end : self.step]
        if stop - start > 2:
            return repeat(before, self.records)
        if stop - start == 1:
            if first == data[start - self.step : start - self.step + 1] * self.records:
                return repeat(before, self.records)
            base = before - _OF_ONE[data[start - self.step]]
            return map([base + each for each in _OF_ONE].__getitem__, first)
        second = data[start + 1 : self.end : self.step]
        base = before - _OF_FIRST[data[start - self.step]] - _OF_SECOND[data[start + 1 - self.step]]
        high = [base + each for each in _OF_SECOND]
        return map(add, map(_OF_FIRST.__getitem__, first), map(high.__getitem__, second))

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
    time_at = at + 1
    _, offset_at = _number(data, time_at)
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
    allowed = [(place, data[place : place + 1]) for place in (end - 1, *range(begin, time_at))]
    allowed += _times(data, time_at, offset_at)
    allowed += [(place, data[place : place + 1]) for place in (*range(offset_end, key_at), *range(key_end, value_at))]
    for place, those in allowed:
        if count < FEWEST:
            return None
        found = data[step + place : end + count * step : step]
        count -= len(found.lstrip(those))
    while count >= FEWEST and not _numbered(data, step + offset_at, end + count * step, step, following, count):
        count //= 2
    if count < FEWEST:
        return None
    key = None if length < 0 else (key_at - begin, key_end - begin)
    value = None if value_size < 0 else (value_at - begin, value_at - begin + value_size)
    return Row(count, step, end, (time_at - begin, offset_at - begin), key, value)


def _times(data: bytes, at: int, end: int) -> list[tuple[int, bytes]]:
    """Which bytes may stand where the time from `at` to `end` has its own, for it to be as long."""
    if end - at == 1:
        return [(at, _LAST_BYTES)]
    if end - at == 2 and data[at] in _FIRST_EVEN:
        return [(at, _FIRST_EVEN), (at + 1, _LAST_BYTES)]
    return [(place, data[place : place + 1]) for place in range(at, end)]


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
