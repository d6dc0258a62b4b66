"""Connections that have not authenticated yet: few at a time, so that they cannot use up what clients need.

Their number is limited for each address, and in all. At the second limit the oldest is closed for the newest: a client
with the right password authenticates within milliseconds, so the oldest is the least likely to be one.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_PER_IP = "rookery.max.unauthenticated.connections.per.ip"


@dataclass(slots=True)
class _Connection:
    address: str
    listener: str
    give_way: Callable[[], None]


@dataclass(slots=True)
class Unauthenticated:
    """`limits` gives the most there may be, in all and from one address."""

    limits: Callable[[], tuple[int, int]]
    _waiting: dict[object, _Connection] = field(default_factory=dict)
    _by_ip: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._waiting)

    def refusal(self, address: str) -> str | None:
        """The option that forbids one more from `address`."""
        most_per_ip = self.limits()[1]
        return f"{MAX_PER_IP}={most_per_ip}" if self._by_ip.get(address, 0) >= most_per_ip else None

    def enter(self, key: object, address: str, listener: str, give_way: Callable[[], None]) -> str | None:
        """Count one more from `address`, or return the option that forbids it. `give_way` closes it."""
        refusal = self.refusal(address)
        if refusal is not None:
            return refusal
        most = self.limits()[0]
        while len(self._waiting) >= most and self.give_way():
            pass
        self._waiting[key] = _Connection(address, listener, give_way)
        self._by_ip[address] += 1
        return None

    def give_way(self, spared: str = "") -> bool:
        """Close the oldest one of a listener other than `spared`; false if there is none."""
        oldest = next((key for key, each in self._waiting.items() if not spared or each.listener != spared), None)
        if oldest is None:
            return False
        end = self._waiting[oldest].give_way
        self.leave(oldest)
        end()
        return True

    def leave(self, key: object) -> None:
        """It has authenticated or is closed. Further calls have no effect."""
        connection = self._waiting.pop(key, None)
        if connection is None:
            return
        self._by_ip[connection.address] -= 1
        if not self._by_ip[connection.address]:
            del self._by_ip[connection.address]
