"""Connections whose client is not known yet: few at a time, so that strangers cannot use up what clients need.

An address may have only so many. Of all together the oldest gives way to the newest: a client that knows its password
is done within milliseconds, and one that does not come to the point is the first to go.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

MAX = "rookery.max.unauthenticated.connections"
MAX_PER_IP = "rookery.max.unauthenticated.connections.per.ip"


@dataclass(slots=True)
class _Newcomer:
    address: str
    listener: str
    give_way: Callable[[], None]


@dataclass(slots=True)
class Newcomers:
    """`limits` gives the most there may be, in all and from one address."""

    limits: Callable[[], tuple[int, int]]
    _waiting: dict[object, _Newcomer] = field(default_factory=dict)
    _by_ip: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._waiting)

    def refusal(self, address: str) -> str | None:
        """The option that forbids one more from `address`."""
        most_per_ip = self.limits()[1]
        return f"{MAX_PER_IP}={most_per_ip}" if self._by_ip.get(address, 0) >= most_per_ip else None

    def enter(self, who: object, address: str, listener: str, give_way: Callable[[], None]) -> str | None:
        """Count one more from `address`; or the option that forbids it. `give_way` ends it."""
        refusal = self.refusal(address)
        if refusal is not None:
            return refusal
        most = self.limits()[0]
        while len(self._waiting) >= most and self.give_way():
            pass
        self._waiting[who] = _Newcomer(address, listener, give_way)
        self._by_ip[address] += 1
        return None

    def give_way(self, spared: str = "") -> bool:
        """End the oldest that did not come by the listener `spared`; false if there is none."""
        oldest = next((who for who, each in self._waiting.items() if not spared or each.listener != spared), None)
        if oldest is None:
            return False
        end = self._waiting[oldest].give_way
        self.leave(oldest)
        end()
        return True

    def leave(self, who: object) -> None:
        """It is known now, or gone; once is enough."""
        newcomer = self._waiting.pop(who, None)
        if newcomer is None:
            return
        self._by_ip[newcomer.address] -= 1
        if not self._by_ip[newcomer.address]:
            del self._by_ip[newcomer.address]
