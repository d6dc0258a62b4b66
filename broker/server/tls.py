"""TLS of the listeners: the certificate each shows now, and its exchange while the broker runs.

A store that is a file is read again when it changes (looked at every ten seconds), and when AlterConfigs names a file,
the same one or another. What cannot be used is logged and changes nothing. Connections that are open stay.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate

from rookery.core.config.listeners import Listener
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.security import SSL_CLIENT_AUTH, own_of_listener, ssl_texts
from rookery.core.event_logging import get_logger
from rookery.core.metrics import Metrics
from rookery.core.net.tls import Tls, client_context, own_refusal, read_tls, server_context
from rookery.core.service import Service

LOOK_S = 10.0
EXPIRY_WARNING_S = 30 * 86_400.0
EXPIRY = "rookery_tls_certificate_expiry_seconds"
_LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")
_log = get_logger("broker.security")

Texts = Mapping[str, str]
"""The ``ssl.*`` keys as they hold for a listener."""


def listener_texts(settings: Settings, listener: Listener) -> dict[str, str]:
    """The ``ssl.*`` keys of a listener. With SASL only its own ``ssl.client.auth`` counts (KIP-684)."""
    texts = ssl_texts(settings, listener.name)
    if listener.speaks_sasl:
        texts[SSL_CLIENT_AUTH.name] = own_of_listener(settings, SSL_CLIENT_AUTH, listener.name) or "none"
    return texts


def check_exchange(before: Tls, after: Tls) -> None:
    """Stores of the listener between brokers must go on to connect brokers: those that share them. Raises ConfigError.
    What did not connect before, as a certificate that has expired, may be exchanged for anything."""
    refusal = own_refusal(after)
    if refusal and not own_refusal(before):
        reason = f"brokers with these stores would refuse each other ({refusal}); change the trust stores first"
        raise ConfigError(_LOCATIONS[0], None, reason)


class ListenerTls:
    """The TLS of one listener: `context` is for the next handshake."""

    def __init__(self, listener: str, texts: Texts, *, between_brokers: bool = False) -> None:
        """Raises ConfigError for what is missing or cannot be read."""
        self.listener = listener
        self._between_brokers = between_brokers
        self._texts = dict(texts)
        self._seen = _stamps(self._texts)
        self.tls = read_tls(self._texts)
        self.context: ssl.SSLContext = server_context(self.tls)
        self.expires = _expiry(self.tls)
        self._client: tuple[Tls, ssl.SSLContext] | None = None
        self._tried = self._seen

    @property
    def client_context(self) -> ssl.SSLContext:
        """With the same stores, for connections to the same listener of other brokers."""
        if self._client is None or self._client[0] is not self.tls:
            self._client = self.tls, client_context(self.tls)
        return self._client[1]

    @property
    def current(self) -> Tls:
        """What holds now; another object after an exchange."""
        return self.tls

    def loose_files(self) -> list[str]:
        """Files with keys that others than their owner can read."""
        return [path for path in (self._texts.get(_LOCATIONS[0], ""),) if path and Path(path).stat().st_mode & 0o077]

    def changed(self) -> bool:
        """Whether a file is another one than when it was read. Asks the disk."""
        return _stamps(self._texts) != self._seen

    def prepare(self, texts: Texts | None = None) -> Callable[[], None]:
        """Read the stores, of `texts` if given; what is returned puts them to use. Raises ConfigError. Reads files."""
        wanted = dict(texts if texts is not None else self._texts)
        seen = self._tried = _stamps(wanted)
        tls = read_tls(wanted)
        context, expires = server_context(tls), _expiry(tls)
        if self._between_brokers:
            check_exchange(self.tls, tls)

        def use() -> None:
            self._texts, self._seen = wanted, seen
            self.tls, self.context, self.expires = tls, context, expires

        return use

    def has(self, texts: Texts) -> bool:
        return self._texts == dict(texts)

    def unusable(self) -> None:
        """The files as they were when they were read are of no use; they are tried again when they change."""
        self._seen = self._tried


def _stamps(texts: Texts) -> list[tuple[int, int, int] | None]:
    stamps: list[tuple[int, int, int] | None] = []
    for key in _LOCATIONS:
        found = None
        if texts.get(key):
            with suppress(OSError):
                stat = Path(texts[key]).stat()
                found = stat.st_mtime_ns, stat.st_size, stat.st_ino
        stamps.append(found)
    return stamps


def _expiry(tls: Tls) -> float:
    """When the own certificate ends, in seconds since 1970."""
    if tls.chain is None:
        return 0.0
    try:
        return load_pem_x509_certificate(tls.chain).not_valid_after_utc.timestamp()
    except ValueError:
        return 0.0  # TLS takes what cannot be parsed here: better a false alarm than none


def publish_expiry(metrics: Metrics, listeners: Sequence[ListenerTls]) -> None:
    metrics.read(
        EXPIRY,
        "Seconds until the certificate of a listener ends.",
        lambda: [((each.listener,), each.expires - time.time()) for each in listeners],
        labels=("listener",),
    )


class TlsReload(Service):
    """Looks at the files of all listeners now and then."""

    name = "tls reload"

    def __init__(self, listeners: Iterable[ListenerTls], look_s: float = LOOK_S) -> None:
        self.listeners = tuple(listeners)
        self._look_s = look_s
        self._work: set[asyncio.Task[None]] = set()
        self._one_by_one = asyncio.Lock()
        self._warned: dict[str, float] = {}

    async def start(self) -> None:
        for each in self.listeners:
            for path in each.loose_files():
                _log.warning("tls.key.readable", file=path, todo="chmod 600: others than its owner can read the key")

    async def serve(self) -> None:
        while True:
            for each in self.listeners:
                self._warn_of_expiry(each)
                if await asyncio.to_thread(each.changed):
                    await self._exchange(each)
            await asyncio.sleep(self._look_s)

    async def stop(self) -> None:
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def reconfigure(self, texts_of: Callable[[str], Texts]) -> None:
        """Options have changed; `texts_of` gives those of a listener."""
        for each in self.listeners:
            work = self._exchange(each, texts_of(each.listener))
            task = asyncio.get_running_loop().create_task(work, name=self.name)
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _exchange(self, tls: ListenerTls, texts: Texts | None = None) -> None:
        """In the order in which it was asked for: what was asked for last holds."""
        async with self._one_by_one:
            if texts is None or not tls.has(texts) or await asyncio.to_thread(tls.changed):
                await self._read_and_use(tls, texts)

    async def _read_and_use(self, tls: ListenerTls, texts: Texts | None) -> None:
        try:
            use = await asyncio.to_thread(tls.prepare, texts)
        except (ValueError, OSError) as error:
            if texts is None:
                tls.unusable()
            _log.error("tls.reload.failed", listener=tls.listener, reason=str(error), todo="the old certificate stays")
            return
        use()
        ends = datetime.fromtimestamp(tls.expires, UTC).isoformat(timespec="seconds")
        _log.info("tls.reloaded", listener=tls.listener, expires=ends)

    def _warn_of_expiry(self, tls: ListenerTls) -> None:
        left = tls.expires - time.time()
        if left < EXPIRY_WARNING_S and self._warned.get(tls.listener) != tls.expires:
            self._warned[tls.listener] = tls.expires
            _log.warning("tls.expires", listener=tls.listener, days=round(left / 86_400, 1), todo="renew it")
