"""The clock port: timers use `monotonic`, record timestamps and retention use `wall_ms`."""

import time
from typing import Protocol


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


class ManualClock:
    """A clock that moves only when told to: the in-memory twin of `SystemClock`."""

    def __init__(self, monotonic: float = 0.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic = monotonic
        self._wall_ms = wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds} s")
        self._monotonic += seconds
        self._wall_ms += round(seconds * 1000)
