"""Sparse indexes of a segment: offset to position, and timestamp to offset.

Both are caches of what the batches say. They live in arrays (8 and 12 bytes an entry), are loaded when first
needed and written with a flush, at a roll and at close. A damaged entry cannot mislead a reader, because who
uses one checks it against the batch it points at.
"""

import sys
from array import array
from bisect import bisect_right
from operator import lt
from typing import NamedTuple

OFFSET_ENTRY = 8
TIME_ENTRY = 12
NO_TIMESTAMP = -1
UNSAVED = -1  # the file is absent, or other than its first entries here


class Place(NamedTuple):
    """The last offset of a batch and the byte where the batch starts."""

    last_offset: int
    position: int


class TimePoint(NamedTuple):
    """The greatest timestamp up to some batch, and the last offset of the batch that has it."""

    timestamp: int
    last_offset: int


# where the halves of a 64-bit number lie in this machine's memory, for numbers read in 32-bit words
_LITTLE = sys.byteorder == "little"
_HIGH, _LOW = (1, 0) if _LITTLE else (0, 1)


def _ascending(values: "array[int]") -> bool:
    return all(map(lt, values, values[1:]))


class OffsetIndex:
    """Entries (last offset of a batch, position of the batch), both ascending."""

    __slots__ = ("_base", "_offsets", "_positions", "saved")

    def __init__(self, base_offset: int, content: bytes | None = None) -> None:
        known = content or b""
        entries = array("i", known[: len(known) // OFFSET_ENTRY * OFFSET_ENTRY])
        if _LITTLE:
            entries.byteswap()
        self._base = base_offset
        self._offsets = entries[0::2]
        self._positions = entries[1::2]
        self.saved = UNSAVED if content is None else len(self._offsets)  # how many entries the file has

    def __len__(self) -> int:
        return len(self._offsets)

    def is_sound(self, size: int) -> bool:
        """Whether the entries could belong to a segment of `size` bytes."""
        if not self._offsets:
            return True
        inside = self._offsets[0] >= 0 and self._positions[0] >= 0 and self._positions[-1] < size
        return inside and _ascending(self._offsets) and _ascending(self._positions)

    def append(self, last_offset: int, position: int) -> None:
        self._offsets.append(last_offset - self._base)
        self._positions.append(position)

    def last(self) -> Place | None:
        return self._place(len(self._offsets)) if self._offsets else None

    def before(self, offset: int) -> Place | None:
        """The last entry whose batch ends at or before `offset`."""
        return self._place(bisect_right(self._offsets, offset - self._base))

    def boundary(self, position: int, offset: int) -> Place | None:
        """The last entry that lies at or before both a position and an offset."""
        after = bisect_right(self._positions, position)
        if after and self._offsets[after - 1] + self._base > offset:
            after = bisect_right(self._offsets, offset - self._base)
        return self._place(after)

    def _place(self, after: int) -> Place | None:
        if after == 0:
            return None
        return Place(self._offsets[after - 1] + self._base, self._positions[after - 1])

    def truncate(self, position: int) -> None:
        """Forget entries for batches at or after `position`."""
        keep = next((i for i in range(len(self), 0, -1) if self._positions[i - 1] < position), 0)
        del self._offsets[keep:], self._positions[keep:]
        self.saved = UNSAVED

    def encode(self, since: int = 0) -> bytes:
        """Entries from number `since` on, as they stand in the file."""
        entries = array("i", bytes((len(self) - since) * OFFSET_ENTRY))
        entries[0::2] = self._offsets[since:]
        entries[1::2] = self._positions[since:]
        if _LITTLE:
            entries.byteswap()
        return entries.tobytes()


class TimeIndex:
    """Entries (greatest timestamp so far, last offset of the batch that has it), both ascending."""

    __slots__ = ("_base", "_offsets", "_timestamps", "saved")

    def __init__(self, base_offset: int, content: bytes | None = None) -> None:
        known = content or b""
        words = array("i", known[: len(known) // TIME_ENTRY * TIME_ENTRY])
        count = len(words) // 3
        stamps = array("i", bytes(count * 8))
        if _LITTLE:
            words.byteswap()
        stamps[_HIGH::2], stamps[_LOW::2] = words[0::3], words[1::3]
        self._base = base_offset
        self._timestamps = array("q", stamps.tobytes())
        self._offsets = words[2::3]
        self.saved = UNSAVED if content is None else count

    def __len__(self) -> int:
        return len(self._timestamps)

    def is_sound(self, next_offset: int) -> bool:
        """Whether the entries could belong to a segment that ends before `next_offset`."""
        if not self._timestamps:
            return True
        inside = self._offsets[0] >= 0 and self._offsets[-1] + self._base < next_offset
        return inside and _ascending(self._timestamps) and _ascending(self._offsets)

    def append(self, timestamp: int, last_offset: int) -> None:
        """Take the point, unless a greater or equal timestamp is known already."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp)
            self._offsets.append(last_offset - self._base)

    def last(self) -> TimePoint | None:
        return self._point(len(self._timestamps))

    def before(self, timestamp: int) -> TimePoint | None:
        """The last entry at or before a timestamp."""
        return self._point(bisect_right(self._timestamps, timestamp))

    def _point(self, after: int) -> TimePoint | None:
        if after == 0:
            return None
        return TimePoint(self._timestamps[after - 1], self._offsets[after - 1] + self._base)

    def truncate(self, offset: int) -> None:
        """Forget entries for batches that end at or after `offset`."""
        keep = next((i for i in range(len(self), 0, -1) if self._offsets[i - 1] + self._base < offset), 0)
        del self._timestamps[keep:], self._offsets[keep:]
        self.saved = UNSAVED

    def encode(self, since: int = 0) -> bytes:
        """Entries from number `since` on, as they stand in the file."""
        stamps = array("i", self._timestamps[since:].tobytes())
        words = array("i", bytes((len(self) - since) * TIME_ENTRY))
        words[0::3], words[1::3], words[2::3] = stamps[_HIGH::2], stamps[_LOW::2], self._offsets[since:]
        if _LITTLE:
            words.byteswap()
        return words.tobytes()
