"""What is remembered of clients: of so many, and of none for longer than it is worth. Pure."""

from collections.abc import Callable, ItemsView
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

CLIENTS_MAX = 10_000
"""Clients that are told apart; of more, the one that was silent for longest is forgotten."""
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
