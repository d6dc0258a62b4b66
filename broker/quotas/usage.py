"""How much of something was used lately, in Kafka's way: samples of some seconds each, of which the last few
count. Pure: times come with each call, in seconds of one clock."""

from collections import deque
from collections.abc import Callable, ItemsView
from math import ceil
from typing import Generic, NamedTuple, TypeVar

from rookery.core.config import node
from rookery.core.config.options import Settings

DELAY_MS_MAX = 2**31 - 1
"""The largest throttle time that fits into an answer."""


def whole_ms(seconds: float) -> int:
    """A time to wait, rounded up."""
    return ceil(min(seconds * 1000, DELAY_MS_MAX))


class Window(NamedTuple):
    """`samples` of `seconds` each are remembered, the one under way included."""

    samples: int = 11
    seconds: float = 1.0

    @classmethod
    def of(cls, settings: Settings) -> "Window":
        return cls(settings[node.QUOTA_WINDOW_NUM], settings[node.QUOTA_WINDOW_SIZE_SECONDS])

    @property
    def full_s(self) -> float:
        """The least time that what was used is spread over: a short burst is no high rate."""
        return max(self.samples - 1, 1) * self.seconds


class _Sample:
    __slots__ = ("amount", "number", "times")

    def __init__(self, number: int) -> None:
        self.number = number
        self.amount = 0.0
        self.times = 0


class Usage:
    """What was used in the last samples."""

    __slots__ = ("_amount", "_samples", "_times", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()
        self._amount = 0.0
        self._times = 0

    def add(self, amount: float, now: float) -> None:
        number = self._forget(now)
        samples = self._samples
        if not samples or samples[-1].number != number:
            samples.append(_Sample(number))
        samples[-1].amount += amount
        samples[-1].times += 1
        self._amount += amount
        self._times += 1

    def amount(self, now: float) -> float:
        self._forget(now)
        return self._amount

    def mean(self, now: float) -> float:
        """Of the single amounts."""
        self._forget(now)
        return self._amount / self._times if self._times else 0.0

    def rate(self, now: float) -> float:
        """A second."""
        return self.amount(now) / self._elapsed_s(now)

    def delay_s(self, bound: float, now: float, more: float = 0.0) -> float:
        """How long to wait until what was used, and `more`, is `bound` a second; 0 if it is not above."""
        return max(0.0, (self.amount(now) + more) / bound - self._elapsed_s(now))

    def _elapsed_s(self, now: float) -> float:
        window = self._window
        since = self._samples[0].number * window.seconds if self._samples else now
        return max(now - since, window.full_s)

    def _forget(self, now: float) -> int:
        """Drop what is too old; the number of the sample under way."""
        number = int(now // self._window.seconds)
        samples = self._samples
        while samples and samples[0].number <= number - self._window.samples:
            old = samples.popleft()
            self._amount -= old.amount
            self._times -= old.times
        if not samples:
            self._amount = 0.0  # fractions do not add up to nothing
        return number


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


K = TypeVar("K")
V = TypeVar("V")

CLIENTS_MAX = 10_000
"""Clients that are counted separately; of more, the one that was silent for longest is forgotten."""
SILENCE_S = 3600.0
"""After this time a client is forgotten in any case."""


class Recent(Generic[K, V]):
    """By key, the least recently used first."""

    def __init__(self) -> None:
        self._values: dict[K, tuple[V, float]] = {}

    def get(self, key: K, now: float, make: Callable[[], V]) -> V:
        """What is kept for `key`, made if there is nothing."""
        kept = self._values.pop(key, None)
        if kept is None:
            self._make_room(now)
        value = make() if kept is None else kept[0]
        self._values[key] = value, now
        return value

    def items(self) -> ItemsView[K, V]:
        return {key: value for key, (value, _) in self._values.items()}.items()

    def _make_room(self, now: float) -> None:
        while self._values:
            key, (_, used_at) = next(iter(self._values.items()))
            if len(self._values) < CLIENTS_MAX and now - used_at < SILENCE_S:
                break
            del self._values[key]
