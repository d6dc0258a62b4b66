"""Timers for many keys, at most one for each.

A timer whose deadline was moved back fires at its old time and is then set again, so moving a deadline back, as every
heartbeat does, costs nothing.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from rookery.core.clock import Scheduler, Timer

K = TypeVar("K", bound=Hashable)


class Alarms(Generic[K]):
    """`ring` is called with the key and has to check whether anything is due."""

    def __init__(self, scheduler: Scheduler, ring: Callable[[K], None]) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._set: dict[K, tuple[int, Timer]] = {}

    def set(self, key: K, at_ms: int | None, now_ms: int) -> None:
        """Call by `at_ms` at the latest; None needs no call."""
        if at_ms is None:
            return
        before = self._set.get(key)
        if before is not None:
            if before[0] <= at_ms:
                return
            before[1].cancel()
        delay_s = max(0, at_ms - now_ms) / 1000
        self._set[key] = at_ms, self._scheduler.call_later(delay_s, self._expired, key)

    def _expired(self, key: K) -> None:
        del self._set[key]
        self._ring(key)

    def clear(self) -> None:
        for _, timer in self._set.values():
            timer.cancel()
        self._set.clear()
