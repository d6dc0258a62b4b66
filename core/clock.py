"""The ports of time.

`Clock` reads it: timers use `monotonic`, record timestamps and retention use `wall_ms`. `Scheduler` is the part of an
event loop that callbacks need; every asyncio loop is one, and simulators pass their own.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds from an arbitrary point; never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Timer:
        """Run `callback` once the current callback has returned."""

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Timer:
        """Run `callback` after `delay` seconds."""

    def time(self) -> float:
        """Monotonic seconds; the clock of `call_later`."""
