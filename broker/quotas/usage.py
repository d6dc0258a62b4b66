"""How much of something was used lately, in Kafka's way: samples of some seconds each, of which the last few
count. Pure: times come with each call, in seconds of one clock."""

from collections import deque
from math import ceil
from typing import NamedTuple

from rookery.core.config import node
from rookery.core.config.options import Settings

DELAY_MS_MAX = 2**31 - 1
"""What an answer can tell."""


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
