"""A quota for work that comes in lumps and cannot be cut: who has tokens left may take more than there are, and
waits then until they have come. Pure: times come with each call."""

from rookery.broker.quotas.usage import Window, whole_ms


class TokenBucket:
    """`bound` tokens come in a second; those of a whole window fit, and are there at first."""

    __slots__ = ("_at", "_bound", "_tokens", "_window")

    def __init__(self, bound: float, window: Window, now: float) -> None:
        self._bound = bound
        self._window = window
        self._tokens = self._room
        self._at = now

    @property
    def _room(self) -> float:
        return self._bound * self._window.samples * self._window.seconds

    def set_bound(self, bound: float, now: float) -> None:
        self.tokens(now)
        self._bound = bound

    def tokens(self, now: float) -> float:
        """What is left; less than nothing where too much was taken."""
        self._tokens = min(self._tokens + (now - self._at) * self._bound, self._room)
        self._at = now
        return self._tokens

    def take(self, count: float, now: float) -> None:
        """A negative count gives back."""
        self._tokens = min(self.tokens(now) - count, self._room)

    def delay_ms(self, now: float) -> int:
        """How long until nothing is owed."""
        return whole_ms(max(0.0, -self.tokens(now) / self._bound))
