"""Many records at once: columns of keys and values that are cut into batches, without a step for each record."""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple

from rookery.client.producer.accumulator import Accumulator
from rookery.client.producer.batch import OVERHEAD
from rookery.client.producer.delivery import Deliveries
from rookery.client.producer.partitioners import Partitioner, Route, positive_hash
from rookery.core.wire.batch import HEADER_SIZE


class Columns(NamedTuple):
    """Records of one call. `numbers` are their places in it."""

    numbers: Sequence[int]
    keys: list[bytes] | None
    values: list[bytes]

    def by_partition(self, partitions: int) -> dict[int, "Columns"]:
        """By the hashes of their keys."""
        keys, values = self.keys, self.values
        assert keys is not None
        found: dict[int, list[int]] = {}
        for number, key in enumerate(keys):
            found.setdefault(positive_hash(key) % partitions, []).append(number)
        return {
            index: Columns(numbers, [keys[each] for each in numbers], [values[each] for each in numbers])
            for index, numbers in found.items()
        }

    def part(self, start: int, stop: int) -> "Columns":
        if start == 0 and stop == len(self.values):
            return self
        keys = None if self.keys is None else self.keys[start:stop]
        return Columns(self.numbers[start:stop], keys, self.values[start:stop])


class Filling:
    """Puts columns into the batches of a producer. `room` waits until so many bytes fit; `opened` is called for each
    new batch."""

    def __init__(
        self,
        accumulator: Accumulator,
        partitioner: Partitioner,
        room: Callable[[int], Awaitable[None]],
        opened: Callable[[], None],
    ) -> None:
        self._accumulator = accumulator
        self._partitioner = partitioner
        self._room = room
        self._opened = opened
        self._chunk = min(accumulator.settings.batch_size, accumulator.settings.buffer_memory)
        """No more than this at once, or there would never be room."""

    async def fill(
        self, route: Route, partition: int | None, columns: Columns, timestamp: int, deliveries: Deliveries
    ) -> None:
        """Fill batches of one partition, or of one partition after the other where none is given."""
        accumulator, values, keys = self._accumulator, columns.values, columns.keys
        ends = _ends(keys, values)
        start = 0
        while start < len(values):
            index = self._partitioner.choose(route, None, 0) if partition is None else partition
            queue = route.queues[index]
            stop, size = _fitting(ends, start, min(accumulator.room_in(queue), self._chunk), self._chunk)
            if stop == start + 1:
                accumulator.check_size(size)
            await self._room(size)
            some = columns.part(start, stop)
            batch, first = accumulator.extend(queue, size, timestamp, some.keys, some.values)
            deliveries.add(batch, first, some.numbers, timestamp)
            route.left -= size if partition is None else 0
            if first == 0:
                self._opened()
                await asyncio.sleep(0)
            start = stop


def _ends(keys: Sequence[bytes] | None, values: Sequence[bytes]) -> Sequence[int]:
    """The size of all records up to each. Nothing is added up where all are alike."""
    sizes = set(map(len, values))
    if len(sizes) == 1 and (keys is None or len(set(map(len, keys))) == 1):
        each = OVERHEAD + sizes.pop() + (0 if keys is None else len(keys[0]))
        return range(each, each * len(values) + 1, each)
    bare = map(OVERHEAD.__add__, map(len, values))
    return list(accumulate(bare if keys is None else map(add, bare, map(len, keys))))


def _fitting(ends: Sequence[int], start: int, room: int, batch_size: int) -> tuple[int, int]:
    """How far the records from `start` on fit into the open batch, or into a new one if the first does not; and their
    size. `ends` has the size of all records up to each."""
    before = ends[start - 1] if start else 0
    if ends[start] - before > room:
        room = batch_size - HEADER_SIZE
    stop = max(start + 1, bisect_right(ends, before + room, start))
    return stop, ends[stop - 1] - before
