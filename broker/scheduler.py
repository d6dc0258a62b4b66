"""The part of an event loop that the broker's callbacks need; every asyncio loop is one.

Tests and simulators pass their own, so that waits happen in virtual time.
"""

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer:
        """Run `callback` once the current callback has returned."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Run `callback` after `delay` seconds."""

    def time(self) -> float:
        """Monotonic seconds; the clock of `call_later`."""
