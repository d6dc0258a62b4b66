"""Virtual time: a heap of events, nothing else. Whole runs depend on the seed alone."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Livelock(AssertionError):
    """Time no longer advances."""


class VirtualLoop:
    """Runs callbacks in the order of their time; those of one moment in the order they were scheduled."""

    def __init__(self, events_max: int = 2_000_000) -> None:
        self._events_max = events_max
        self.now_ms = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, when_ms: float, callback: Callable[..., None], *arguments: object) -> None:
        self._sequence += 1
        heappush(self._heap, (max(when_ms, self.now_ms), self._sequence, callback, arguments))

    def after(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> None:
        self.at(self.now_ms + delay_ms, callback, *arguments)

    def run_until(self, end_ms: float, stop: Callable[[], bool] | None = None) -> None:
        """Run what is due before `end_ms`, or until `stop` says so."""
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, callback, arguments = heappop(heap)
            self.events += 1
            if self.events > self._events_max:
                raise Livelock(f"{self.events} events in {self.now_ms:.3f} ms, now {callback}")
            callback(*arguments)
            if stop is not None and stop():
                return
        self.now_ms = max(self.now_ms, end_ms)
