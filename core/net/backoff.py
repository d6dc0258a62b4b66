"""How long to wait before the next try: longer after every failure, a little different for everybody."""

from dataclasses import dataclass
from random import Random

JITTER = 0.2


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """Kafka's reconnect.backoff.ms and reconnect.backoff.max.ms."""

    first_s: float = 0.05
    max_s: float = 1.0


class Backoff:
    """Tries at one thing. The pause doubles with each failure in a row, up to a bound."""

    def __init__(self, settings: BackoffSettings, rng: Random) -> None:
        self._settings = settings
        self._rng = rng
        self.failures = 0
        """In a row."""

    def failed(self) -> float:
        """The pause after one more failure, in seconds."""
        pause_s = min(self._settings.first_s * (1 << min(self.failures, 30)), self._settings.max_s)
        self.failures += 1
        return pause_s * (1 + JITTER * (2 * self._rng.random() - 1))

    def succeeded(self) -> None:
        self.failures = 0
