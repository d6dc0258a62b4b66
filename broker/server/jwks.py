"""The keys that verify tokens: fetched by a task, never while a client waits.

``sasl.oauthbearer.jwks.endpoint.url`` is asked at the start, at fixed times, and early when a token names a key that is
not known (at most once a minute). Without keys every token is refused, and the reason is logged.
"""

import asyncio
import http.client
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from rookery.core.clock import Clock
from rookery.core.config.options import ConfigError
from rookery.core.event_logging import get_logger
from rookery.core.security.oauthbearer import (
    KEY_SET_BYTES_MAX,
    KeyRefresh,
    KeySet,
    OAuthBearerServer,
    TokenRules,
)
from rookery.core.security.sasl import Outcome
from rookery.core.service import Service

FETCH_TIMEOUT_S = 10.0
KEY = "sasl.oauthbearer.jwks.endpoint.url"
_log = get_logger("broker.security")


class Jwks(Service):
    """The keys of one address, as they were fetched last."""

    name = "jwks"

    def __init__(
        self,
        url: str,
        rules: TokenRules,
        refresh: KeyRefresh,
        clock: Clock,
        context: Callable[[], ssl.SSLContext],
    ) -> None:
        """`context` verifies the server of the keys."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise ConfigError(KEY, url, "an https address is needed: who changes the keys can log in as anyone")
        self._host, self._port = parts.hostname, parts.port or 443
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._rules = rules
        self._refresh = refresh
        self._clock = clock
        self._context = context
        self._wake = asyncio.Event()
        self._failed = False
        self.keys = KeySet(())

    def begin(self) -> "TokenCheck":
        """One exchange, with the keys of now."""
        return TokenCheck(OAuthBearerServer(self.keys, self._rules), self._unknown)

    def _unknown(self, key_id: str | None) -> None:
        if self._refresh.unknown(key_id, self._now_ms()):
            self._wake.set()

    async def serve(self) -> None:
        while True:
            wait_s = (self._refresh.due_ms - self._now_ms()) / 1000
            if wait_s > 0:
                self._wake.clear()
                try:
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            await self._fetch_once()

    async def _fetch_once(self) -> None:
        try:
            self.keys = KeySet.parse(await asyncio.to_thread(self._fetch))
        except (OSError, http.client.HTTPException, ValueError) as error:  # network, keys, or trust store
            self._refresh.failed(self._now_ms())
            if not self._failed:
                _log.error("jwks.failed", host=self._host, reason=str(error), todo=f"check {KEY}; it is tried again")
            self._failed = True
            return
        self._refresh.fetched(self._now_ms())
        if self._failed:
            _log.info("jwks.fetched", host=self._host)
        self._failed = False

    def _fetch(self) -> bytes:
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=FETCH_TIMEOUT_S, context=self._context()
        )
        try:
            connection.request("GET", self._path, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            if answer.status != http.client.OK:  # redirects are not followed
                raise http.client.HTTPException(f"the answer is {answer.status}")
            document = answer.read(KEY_SET_BYTES_MAX + 1)
        finally:
            connection.close()
        if len(document) > KEY_SET_BYTES_MAX:
            raise http.client.HTTPException(f"the answer has more than {KEY_SET_BYTES_MAX} bytes")
        return document

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


class TokenCheck:
    """OAUTHBEARER, which reports keys that are not known."""

    def __init__(self, server: OAuthBearerServer, unknown: Callable[[str | None], None]) -> None:
        self._server = server
        self._report = unknown
        self.mechanism = server.mechanism

    def step(self, message: bytes, wall_ms: int) -> Outcome:
        outcome = self._server.step(message, wall_ms)
        if self._server.unknown_key is not None:
            self._report(self._server.unknown_key.key_id)
        return outcome
