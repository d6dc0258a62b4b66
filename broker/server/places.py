"""Who has one of the `max.connections` places, and who gives way.

When all places are taken, the stranger that has been unknown for longest makes room for the next. Brokers have a
listener of their own, and on it a reserve: who comes by it is let in, and needs a place only when it is known. Then a
stranger of another listener gives way, or the client that was silent for longest. So nobody loses a connection to
somebody who cannot say who they are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rookery.broker.server.newcomers import Newcomers
from rookery.broker.server.settings import ConnectionLimits


class Guest(Protocol):
    """An open connection."""

    @property
    def listener(self) -> str: ...

    @property
    def is_closed(self) -> bool: ...

    @property
    def active_at(self) -> float: ...

    def give_way(self, reason: str) -> None: ...


@dataclass(slots=True)
class Places:
    limits: ConnectionLimits
    guests: Iterable[Guest]
    reserved: str = ""
    """The listener between brokers, if clients have others."""
    handshakes: Newcomers = field(init=False)
    """Handshakes of TLS under way."""
    unauthenticated: Newcomers = field(init=False)
    """Connections of SASL listeners whose client is not known yet."""

    def __post_init__(self) -> None:
        self.handshakes = Newcomers(self._newcomers_max)
        self.unauthenticated = Newcomers(self._newcomers_max)

    def _newcomers_max(self) -> tuple[int, int]:
        settings = self.limits.settings
        return settings.unauthenticated_max, settings.unauthenticated_per_ip_max

    def admit(self, listener: str, address: str) -> str | None:
        """Count a connection, or name the option that forbids it."""
        return self.limits.admit(address, (lambda: True) if listener == self.reserved else self._strangers_give_way)

    def keep(self, listener: str) -> str | None:
        """The client of a connection that was admitted is known now; or the option that forbids it to stay."""
        limits = self.limits
        if listener != self.reserved or not limits.exceeded or self._strangers_give_way() or self._clients_give_way():
            return None
        return f"max.connections={limits.settings.connections_max}"

    def _strangers_give_way(self) -> bool:
        return self.unauthenticated.give_way(self.reserved) or self.handshakes.give_way(self.reserved)

    def _clients_give_way(self) -> bool:
        """End the connection of a client that has been silent for the longest time; false if there is none."""
        longest = min(
            (each for each in self.guests if each.listener != self.reserved and not each.is_closed),
            key=lambda each: each.active_at,
            default=None,
        )
        if longest is not None:
            longest.give_way("max.connections is reached, and a broker needs the place")
        return longest is not None
