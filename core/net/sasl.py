"""SASL on the client's side of a connection: ``security.protocol`` SASL_PLAINTEXT or SASL_SSL.

A node that limits the life of sessions says so when it admits the client (KIP-368). Well before the end the client
authenticates again on the same connection; requests that come meanwhile wait for it.
"""

import asyncio
import secrets
from collections.abc import Callable
from ssl import SSLContext
from typing import TYPE_CHECKING

from rookery.core.errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError, error_for
from rookery.core.security.sasl import PLAIN, PlainClient, SaslClient, SaslError
from rookery.core.security.scram import ScramClient, ScramMechanism
from rookery.core.wire.apis.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateRequest
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest

if TYPE_CHECKING:
    from rookery.core.net.connection import Connection

NONCE_BYTES = 18
RENEW_AFTER = 0.85
"""Of a session's life; then the client authenticates again."""
BeginExchange = Callable[[], SaslClient]


class Sasl:
    """Authenticates every new connection."""

    def __init__(self, begin: BeginExchange, tls: Callable[[], SSLContext | None] = lambda: None) -> None:
        """`tls` gives the context for the next connection."""
        self._begin = begin
        self._tls = tls

    @property
    def tls(self) -> SSLContext | None:
        return self._tls()

    async def authenticate(self, connection: "Connection", timeout_s: float) -> None:
        """Raises SASL_AUTHENTICATION_FAILED or UNSUPPORTED_SASL_MECHANISM."""
        lifetime_ms = await self._exchange(connection, timeout_s)
        if lifetime_ms > 0:
            connection.renew_after(lifetime_ms / 1000 * RENEW_AFTER, lambda: self.authenticate(connection, timeout_s))

    async def _exchange(self, connection: "Connection", timeout_s: float) -> int:
        try:
            exchange = self._begin()
            mechanism = exchange.mechanism
            handshake = await connection.request(
                SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism), timeout_s, authenticates=True
            )
            if handshake.error_code == UnsupportedSaslMechanismError.code:
                offered = ", ".join(handshake.mechanisms) or "none"
                raise UnsupportedSaslMechanismError(f"{connection.address} offers {offered}, not {mechanism}")
            if handshake.error_code:
                raise error_for(handshake.error_code, f"{connection.address}: SaslHandshake")
            version = connection.version_for(SASL_AUTHENTICATE)
            message: bytes | None = exchange.first()
            lifetime_ms = 0
            while message is not None:
                request = SaslAuthenticateRequest(auth_bytes=message)
                answer = await connection.request(SASL_AUTHENTICATE, version, request, timeout_s, authenticates=True)
                if answer.error_code:
                    raise error_for(answer.error_code, f"{connection.address}: {answer.error_message or mechanism}")
                lifetime_ms = answer.session_lifetime_ms
                message = await asyncio.to_thread(exchange.step, bytes(answer.auth_bytes))
            return lifetime_ms
        except SaslError as error:
            raise SaslAuthenticationFailedError(f"{connection.address}: {error}") from None


def exchange_of(mechanism: str, user: str, password: str) -> BeginExchange:
    """What begins an exchange of PLAIN or SCRAM. Raises SaslError for other mechanisms and empty values."""
    if not user or not password:
        raise SaslError(f"{mechanism} needs a user and a password")
    if mechanism == PLAIN:
        return lambda: PlainClient(user, password)
    scram = ScramMechanism.named(mechanism)
    if scram is None:
        known = ", ".join((PLAIN, *(each.mechanism for each in ScramMechanism)))
        raise SaslError(f"the mechanism {mechanism} cannot be used here: {known} can")
    return lambda: ScramClient(scram, user, password, secrets.token_urlsafe(NONCE_BYTES))
