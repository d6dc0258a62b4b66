"""What was measured lately: averages, maxima and rates for metrics."""

from rookery.core.clock import Clock

WINDOW_S = 30.0


class Window:
    """Sum, count and maximum over the last 30 to 60 seconds, in constant space."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._current = self._previous = (0.0, 0, 0.0)
        self._span = 0.0

    def add(self, value: float, count: int = 1) -> None:
        self._turn()
        total, number, largest = self._current
        self._current = (total + value, number + count, max(largest, value))

    @property
    def mean(self) -> float:
        self._turn()
        number = self._current[1] + self._previous[1]
        return (self._current[0] + self._previous[0]) / number if number else 0.0

    @property
    def maximum(self) -> float:
        self._turn()
        return max(self._current[2], self._previous[2])

    @property
    def rate(self) -> float:
        """Counted things per second."""
        self._turn()
        span = self._span + self._clock.monotonic() - self._since
        return (self._current[1] + self._previous[1]) / max(span, 1.0)

    def _turn(self) -> None:
        elapsed = self._clock.monotonic() - self._since
        if elapsed < WINDOW_S:
            return
        fresh = (0.0, 0, 0.0)
        self._previous, self._span = (self._current, elapsed) if elapsed < 2 * WINDOW_S else (fresh, 0.0)
        self._current = fresh
        self._since = self._clock.monotonic()
