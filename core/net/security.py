"""How a connection to a node is secured: encryption, and who the client says it is. Both are parts to plug in.

`Transport` is ``security.protocol`` PLAINTEXT or SSL, `Sasl` (`core/net/sasl.py`) is SASL_PLAINTEXT or SASL_SSL.
"""

from ssl import SSLContext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rookery.core.net.connection import Connection


class Security(Protocol):
    """What happens between the TCP connection and the first request."""

    @property
    def tls(self) -> SSLContext | None:
        """How the connection is encrypted; None if it is not."""

    async def authenticate(self, connection: "Connection", timeout_s: float) -> None:
        """Prove who the client is, with requests on the new connection; raises what the node refuses."""


class Transport:
    """``security.protocol`` PLAINTEXT or SSL: only TLS identifies clients."""

    def __init__(self, tls: SSLContext | None = None) -> None:
        self.tls = tls

    async def authenticate(self, connection: "Connection", timeout_s: float) -> None:
        """Nothing to do: TLS has done it."""


PLAINTEXT: Security = Transport()
