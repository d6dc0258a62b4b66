"""Which partition a record goes to.

Keys decide as in Java's client: murmur 2 of the key. Records without a key stay with one partition until a batch is
full, then go to another, one with a short queue more often (KIP-794).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import NamedTuple

from rookery.client.errors import ConfigurationError
from rookery.client.partitioner import murmur2
from rookery.client.producer.partition_queue import PartitionQueue
from rookery.client.types import Headers
from rookery.core.net.cluster import Node

KEYS_KEPT = 16_384


@lru_cache(KEYS_KEPT)  # keys repeat, and finding a hash is cheaper than working it out
def positive_hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


class PartitionInfo(NamedTuple):
    """A partition as a partitioner of your own sees it."""

    number: int
    leader: Node | None
    """With its rack; None while there is none."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    waiting_bytes: int
    """Bytes in the producer that were not sent to it yet."""


class Choice(NamedTuple):
    """A record to be placed: what a partitioner of your own is called with; it returns the number of a partition."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partitions: Sequence[PartitionInfo]


OwnPartitioner = Callable[[Choice], int]


class Route:
    """The partitions of one topic. `available` are those with a leader."""

    __slots__ = ("available", "left", "queues", "sticky", "topic", "turn")

    def __init__(
        self,
        topic: str,
        queues: Sequence[PartitionQueue],
        available: Sequence[int],
        before: "Route | None" = None,
    ) -> None:
        self.topic = topic
        self.queues = queues
        self.available = available or range(len(queues))
        self.sticky = -1
        self.left = 0
        """Bytes until the next change of the sticky partition."""
        self.turn = 0
        if before is not None:  # new metadata: records go on where they were
            self.turn = before.turn
            if before.sticky in self.available:
                self.sticky, self.left = before.sticky, before.left


class Partitioner:
    """Chooses for records without a partition."""

    def __init__(self, kind: str, rng: Random, *, ignore_keys: bool, adaptive: bool, batch_size: int) -> None:
        self._rng = rng
        self._adaptive = adaptive
        self._batch_size = batch_size
        self.by_key = kind in ("default", "murmur2") and not ignore_keys
        self._choose: Callable[[Route, int], int] = {
            "default": self.sticky,
            "murmur2": self.sticky,
            "round_robin": self._round_robin,
            "random": self._random,
            "least_bytes": self._least_bytes,
        }[kind]

    def choose(self, route: Route, key: bytes | None, size: int) -> int:
        if key is not None and self.by_key:
            return positive_hash(key) % len(route.queues)
        return self._choose(route, size)

    def sticky(self, route: Route, size: int) -> int:
        """The partition that records without key go to now; `size` more bytes go there."""
        route.left -= size
        if route.left < 0:
            route.sticky = self._next(route)
            route.left = max(self._batch_size, size) - size
        return route.sticky

    def _next(self, route: Route) -> int:
        available = route.available
        if len(available) == 1:
            return available[0]
        others = [index for index in available if index != route.sticky]
        if not self._adaptive:
            return self._rng.choice(others)
        lengths = [len(route.queues[index].waiting) for index in available]
        longest = max(lengths)
        weights = list(accumulate(longest + 1 - length for length in lengths))
        return self._rng.choices(available, cum_weights=weights)[0]

    def _round_robin(self, route: Route, size: int) -> int:
        route.turn += 1
        return route.available[route.turn % len(route.available)]

    def _random(self, route: Route, size: int) -> int:
        return self._rng.choice(route.available)

    def _least_bytes(self, route: Route, size: int) -> int:
        queues = route.queues
        return min(route.available, key=lambda index: queues[index].waiting_bytes)


def checked(chosen: object, route: Route) -> int:
    """What a partitioner of one's own returned."""
    if type(chosen) is not int or not 0 <= chosen < len(route.queues):
        raise ConfigurationError(
            f"the partitioner returned {chosen!r} for {route.topic!r} with {len(route.queues)} partitions",
            "partitioner",
        )
    return chosen
