"""Work in the background: pools of threads, and limits on what it takes: bytes a second, and how long it keeps the
interpreter to itself."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

Threads = Callable[[str, int], Executor]
"""Gives a pool of this name and size."""


def real_threads(name: str, size: int) -> Executor:
    return ThreadPoolExecutor(size, thread_name_prefix=name)


STRETCH_S = 0.001
BREATH_S = 0.0001
"""After a stretch of computing the thread sleeps for a breath: the event loop wants the interpreter's lock
and would else get it only after the switch interval, five times a stretch."""


class CancelledWork(Exception):
    """The work was called off while it waited or between two steps."""


class Throttle:
    """`took(n, revoked)` waits until `n` more bytes keep the rate, or until the work is called off.

    Unused time is not saved up for longer than a second, so that a pause is not followed by a burst.
    """

    def __init__(self, bytes_per_second: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.bytes_per_second = max(bytes_per_second, 1.0)
        self._monotonic = monotonic
        self._paid_until = self._rested = monotonic()

    def took(self, size: int, revoked: threading.Event) -> None:
        if revoked.is_set():
            raise CancelledWork
        now = self._monotonic()
        self._paid_until = max(self._paid_until, now - 1.0) + size / self.bytes_per_second
        if self._paid_until > now and revoked.wait(self._paid_until - now):
            raise CancelledWork

    def breathe(self) -> None:
        """Between two steps of computing."""
        now = self._monotonic()
        if now - self._rested > STRETCH_S:
            time.sleep(BREATH_S)
            self._rested = self._monotonic()
