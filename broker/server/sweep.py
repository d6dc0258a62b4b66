"""Finds connections that have been idle or stuck for too long, without a timer for each.

Connections are spread over slots; one repeating timer looks at one slot a tick, so each connection is
looked at once a round and no tick takes long however many there are.
"""

from collections.abc import Callable
from typing import Protocol

from rookery.core.clock import Scheduler, Timer

SLOTS = 16


class Sweepable(Protocol):
    def close_if_overdue(self) -> None: ...


class Sweep:
    """A round of all slots takes `round_s` seconds, which is how late a deadline may be noticed; `each_tick` is
    called sixteen times a round."""

    def __init__(
        self, scheduler: Scheduler, round_s: float, each_tick: Callable[[], None] = lambda: None
    ) -> None:
        self._scheduler = scheduler
        self._each_tick = each_tick
        self._tick_s = round_s / SLOTS
        self._slots: list[dict[Sweepable, None]] = [{} for _ in range(SLOTS)]
        self._cursor = 0
        self._next_slot = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._scheduler.call_later(self._tick_s, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, connection: Sweepable) -> int:
        """Have `connection` looked at; returns the slot to hand to `remove`."""
        slot = self._next_slot
        self._next_slot = (slot + 1) % SLOTS
        self._slots[slot][connection] = None
        return slot

    def remove(self, connection: Sweepable, slot: int) -> None:
        self._slots[slot].pop(connection, None)

    def _tick(self) -> None:
        for connection in list(self._slots[self._cursor]):
            connection.close_if_overdue()
        self._each_tick()
        self._cursor = (self._cursor + 1) % SLOTS
        self._timer = self._scheduler.call_later(self._tick_s, self._tick)
