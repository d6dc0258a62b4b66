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
    give_way: Callable[[], None]


@dataclass(slots=True)
class Newcomers:
    """`limits` gives the most there may be, in all and from one address."""

    limits: Callable[[], tuple[int, int]]
    _waiting: dict[object, _Newcomer] = field(default_factory=dict)
    _by_ip: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, who: object, address: str, give_way: Callable[[], None]) -> str | None:
        """Count one more from `address`; or the option that forbids it. `give_way` ends it."""
        most, most_per_ip = self.limits()
        if self._by_ip[address] >= most_per_ip:
            return f"{MAX_PER_IP}={most_per_ip}"
        while len(self._waiting) >= most:
            oldest = next(iter(self._waiting))
            end = self._waiting[oldest].give_way
            self.leave(oldest)
            end()
        self._waiting[who] = _Newcomer(address, give_way)
        self._by_ip[address] += 1
        return None

    def leave(self, who: object) -> None:
        """It is known now, or gone; once is enough."""
        newcomer = self._waiting.pop(who, None)
        if newcomer is None:
            return
        self._by_ip[newcomer.address] -= 1
        if not self._by_ip[newcomer.address]:
            del self._by_ip[newcomer.address]
