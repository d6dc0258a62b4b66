"""A scheduler whose time passes by hand."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any


class Cancellable:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ByHand:
    def __init__(self) -> None:
        self._now = 0.0
        self._order = count()
        self._calls: list[tuple[float, int, Cancellable, Callable[..., Any], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Cancellable:
        return self.call_later(0, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Cancellable:
        handle = Cancellable()
        heapq.heappush(self._calls, (self._now + delay, next(self._order), handle, callback, args))
        return handle

    def wait(self, seconds: float = 0.0) -> None:
        """Let time pass; whatever is due is called in its order."""
        end = self._now + seconds
        while self._calls and self._calls[0][0] <= end:
            self._now, _, handle, callback, args = heapq.heappop(self._calls)
            if not handle.cancelled:
                callback(*args)
        self._now = end
