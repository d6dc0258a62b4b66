"""A limit on bytes a second for work that runs in a thread."""

import threading
import time
from collections.abc import Callable


class CancelledWork(Exception):
    """The work was called off while it waited or between two steps."""


class Throttle:
    """`took(n)` waits until `n` more bytes keep the rate; `cancel` ends the waiting and all later work.

    Unused time is not saved up for longer than a second, so that a pause is not followed by a burst.
    """

    def __init__(self, bytes_per_second: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_second = bytes_per_second
        self._monotonic = monotonic
        self._paid_until = monotonic()
        self._cancelled = threading.Event()

    def took(self, size: int) -> None:
        if self._cancelled.is_set():
            raise CancelledWork
        now = self._monotonic()
        self._paid_until = max(self._paid_until, now - 1.0) + size / self.bytes_per_second
        if self._paid_until > now and self._cancelled.wait(self._paid_until - now):
            raise CancelledWork

    def cancel(self) -> None:
        self._cancelled.set()
