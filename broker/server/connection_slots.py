"""Which connections have one of the `max.connections` slots, and which are closed when all slots are taken.

If all slots are taken, the connection that has waited longest for its authentication is closed for the next one. The
listener between brokers is never full: a connection there is accepted, and needs a slot only when it has authenticated.
Then an unauthenticated connection of another listener is closed, or the client that has been idle for longest. So an
unauthenticated connection never costs an authenticated client its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rookery.broker.server.settings import ConnectionLimits
from rookery.broker.server.unauthenticated import Unauthenticated


class OpenConnection(Protocol):
    """An open connection."""

    @property
    def listener(self) -> str: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def active_at(self) -> float: ...

    def give_way(self, reason: str) -> None: ...


@dataclass(slots=True)
class ConnectionSlots:
    limits: ConnectionLimits
    connections: Iterable[OpenConnection]
    reserved: str = ""
    """The listener between brokers, if clients have others."""
    handshakes: Unauthenticated = field(init=False)
    """TLS handshakes in progress."""
    unauthenticated: Unauthenticated = field(init=False)
    """Connections of SASL listeners that have not authenticated yet."""

    def __post_init__(self) -> None:
        self.handshakes = Unauthenticated(self._unauthenticated_max)
        self.unauthenticated = Unauthenticated(self._unauthenticated_max)

    def _unauthenticated_max(self) -> tuple[int, int]:
        settings = self.limits.settings
        return settings.unauthenticated_max, settings.unauthenticated_per_ip_max

    def admit(self, listener: str, address: str) -> str | None:
        """Count a connection, or return the option that forbids it."""
        return self.limits.admit(address, (lambda: True) if listener == self.reserved else self._close_unauthenticated)

    def keep(self, listener: str) -> str | None:
        """The client of an accepted connection has authenticated. Return the option that forbids it to stay, if any."""
        limits = self.limits
        if listener != self.reserved or not limits.exceeded or self._close_unauthenticated() or self._close_idlest():
            return None
        return f"max.connections={limits.settings.connections_max}"

    def _close_unauthenticated(self) -> bool:
        return self.unauthenticated.give_way(self.reserved) or self.handshakes.give_way(self.reserved)

    def _close_idlest(self) -> bool:
        """Close the connection that has been idle for the longest time; false if there is none."""
        longest = min(
            (each for each in self.connections if each.listener != self.reserved and not each.is_closed),
            key=lambda each: each.active_at,
            default=None,
        )
        if longest is not None:
            longest.give_way("max.connections is reached, and a broker needs the slot")
        return longest is not None
