"""The network between simulated Raft nodes: it delays, loses, repeats and reorders messages."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from rookery.core.testing.hosts import Links
from tests.simulation.loop import VirtualLoop


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    delay_mean_ms: float = 1.0
    loss: float = 0.0
    repeat: float = 0.0
    """Messages that arrive twice, the second time much later."""
    stray: float = 0.0
    """Messages that take up to `stray_ms_max`."""
    stray_ms_max: float = 5000.0


class Network(Links[int]):
    def __init__(
        self, loop: VirtualLoop, rng: Random, faults: NetworkFaults, deliver: Callable[[int, int, Any], None]
    ) -> None:
        super().__init__()
        self.faults = faults
        self.sent = 0
        self._loop = loop
        self._rng = rng
        self._deliver = deliver

    def send(self, source: int, target: int, message: object) -> None:
        self.sent += 1
        rng, faults = self._rng, self.faults
        if self.is_cut(source, target) or rng.random() < faults.loss:
            return
        self._loop.after(self._delay_ms(), self._arrive, source, target, message)
        if faults.repeat and rng.random() < faults.repeat:
            self._loop.after(rng.random() * faults.stray_ms_max, self._arrive, source, target, message)

    def _delay_ms(self) -> float:
        if self.faults.stray and self._rng.random() < self.faults.stray:
            return self._rng.random() * self.faults.stray_ms_max
        return self._rng.expovariate(1.0) * self.faults.delay_mean_ms

    def _arrive(self, source: int, target: int, message: object) -> None:
        if not self.is_cut(source, target):
            self._deliver(source, target, message)

    def cut_all(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        """Nothing goes from `sources` to `targets` any more, not even what is under way."""
        into = list(targets)
        self._cut.update({(source, target): None for source in sources for target in into if source != target})

    def is_isolated(self, node: int, others: Iterable[int]) -> bool:
        """Whether nothing reaches `node`."""
        return all(self.is_cut(other, node) for other in others if other != node)
