"""Wake-up calls for many keys, of which each has at most one set.

A call that was put off rings at its old time and is set again then: moving a deadline back, as every heartbeat does,
costs nothing.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from rookery.core.clock import Scheduler, Timer

K = TypeVar("K", bound=Hashable)


class Alarms(Generic[K]):
    """`ring` is called with the key; whether anything is due then is for it to see."""

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
        self._set[key] = at_ms, self._scheduler.call_later(delay_s, self._rings, key)

    def _rings(self, key: K) -> None:
        del self._set[key]
        self._ring(key)

    def clear(self) -> None:
        for _, timer in self._set.values():
            timer.cancel()
        self._set.clear()
