"""A small HTTP server for metrics, health and events: GET only, one answer per connection.

Nothing here is exposed to the data path; a web framework would be the larger risk for a few fixed pages. Every
request is bounded in size and time, and the number of connections is bounded too. When there are too many, the one
that has been waiting for its peer the longest is closed: slow peers hold up each other, never a health check. Streams
have a bound of their own, and each piece of one is bounded in time.

With a token a request needs ``Authorization: Bearer TOKEN``; only the paths in `OPEN_PATHS`, which orchestrators ask
and which reveal little, are answered to everybody.
"""

import asyncio
import hmac
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from rookery.core.event_logging import get_logger
from rookery.core.net.tls_listener import Handshake, TlsListening
from rookery.core.service import Service

HEAD_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 64
STREAMS_MAX = 16
OPEN_PATHS = ("/livez", "/readyz")
"""Answered without the token."""
_LINE_END = "\r\n"

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
_log = get_logger("http")


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on until one of both sides ends it."""

    pieces: AsyncGenerator[bytes, None]
    content_type: str


class Query(dict[str, str]):
    """What is asked: the words after the ``?``, and the headers, their names in small letters."""

    def __init__(self, words: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(words or {})
        self.headers = dict(headers or {})


Handler = Callable[[Query], Awaitable[Page | Stream]]


class _HandshakeAdmission:
    """Admits TLS handshakes, as many at a time as there may be connections. Above that the oldest is closed, so that
    slow peers cannot delay a health check."""

    handshake_timeout_s = REQUEST_SECONDS_MAX

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context
        self._shaking: dict[Handshake, None] = {}

    @property
    def context(self) -> ssl.SSLContext:
        return self._context()

    def admit(self, handshake: Handshake) -> bool:
        if len(self._shaking) >= CONNECTIONS_MAX:
            oldest = next(iter(self._shaking))
            del self._shaking[oldest]
            oldest.give_up()
        self._shaking[handshake] = None
        return True

    def done(self, handshake: Handshake) -> None:
        self._shaking.pop(handshake, None)

    def failed(self, handshake: Handshake, error: Exception | None) -> None:
        self._shaking.pop(handshake, None)


class HttpServer(Service):
    """Serves fixed paths."""

    name = "http"

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Handler],
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        token: str = "",
    ) -> None:
        """`tls` gives the context for the next handshake."""
        self._host, self._port = host, port
        self._pages = pages
        self._token = token.encode()
        self._listening = None if tls is None else TlsListening(self._protocol, _HandshakeAdmission(tls))
        self._open = 0
        self._streams: set[asyncio.Task[None]] = set()
        self._slow: dict[asyncio.StreamWriter, None] = {}
        """Connections that wait for their peer, to send a request or to take an answer, the longest waiting first."""
        self._server: asyncio.Server | None = None
        self._bound = False

    def _protocol(self) -> asyncio.BaseProtocol:
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
        return asyncio.StreamReaderProtocol(reader, self._connected)

    @property
    def port(self) -> int:
        """The port that is bound; differs from the one asked for when that was 0."""
        if self._listening is not None and self._bound:
            return self._listening.address[1]
        if self._server is None:
            return self._port
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        if self._listening is not None:
            await self._listening.open(self._host, self._port, CONNECTIONS_MAX)
            self._bound = True
            return
        self._server = await asyncio.start_server(
            self._connected, self._host or None, self._port, limit=HEAD_BYTES_MAX
        )

    async def stop(self) -> None:
        if self._listening is not None:
            await self._listening.close()
        if self._server is not None:
            self._server.close()
        for stream in list(self._streams):
            stream.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX or self._close_slowest():
                async with asyncio.timeout(REQUEST_SECONDS_MAX):
                    stream = await self._answer(reader, writer)
                if stream is not None:
                    await self._stream(writer, stream)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()  # the peer was too slow or went away; there is no answer to send
        finally:
            self._open -= 1
            self._slow.pop(writer, None)
            writer.close()

    def _close_slowest(self) -> bool:
        """Make place for one more; False if none waits for its peer, so that each is about to be answered."""
        slowest = next(iter(self._slow), None)
        if slowest is None:
            return False
        del self._slow[slowest]
        slowest.transport.abort()
        return True

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Stream | None:
        """Answer with a page, or give back the stream that is to follow."""
        # `drain` waits for the last byte, within our time. With a limit of 0 the TLS of uvloop stays paused when
        # nothing is left to write, until the time is over.
        writer.transport.set_write_buffer_limits(0 if self._listening is None else 1, 0)
        try:
            self._slow[writer] = None
            head = await reader.readuntil(b"\r\n\r\n")
            self._slow.pop(writer, None)
            page = await self._page(head)
            if isinstance(page, Stream):
                if len(self._streams) < STREAMS_MAX:
                    return page
                page = Page(f"{STREAMS_MAX} streams are open, which is the limit\n".encode(), status=503)
        except (asyncio.LimitOverrunError, UnicodeDecodeError, ValueError):
            page = Page(b"the request could not be read\n", status=400)
        self._slow[writer] = None
        writer.write(
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\ncontent-type: {page.content_type}\r\n"
            f"content-length: {len(page.body)}\r\n"
            f"{'www-authenticate: Bearer' + _LINE_END if page.status == 401 else ''}connection: close\r\n\r\n".encode()
            + page.body
        )
        await writer.drain()
        return None

    async def _stream(self, writer: asyncio.StreamWriter, stream: Stream) -> None:
        """Each piece has a deadline, after which the client is disconnected. A stream occupies no slot of short
        answers."""
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        self._open -= 1
        try:
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {stream.content_type}\r\ncache-control: no-cache\r\n"
                "connection: close\r\n\r\n".encode()
            )
            async with aclosing(stream.pieces):
                async for piece in stream.pieces:
                    writer.write(piece)
                    async with asyncio.timeout(REQUEST_SECONDS_MAX):
                        await writer.drain()
        finally:
            self._open += 1
            self._streams.discard(task)

    async def _page(self, head: bytes) -> Page | Stream:
        first, *rest = head.split(b"\r\n")
        method, target, _ = first.decode("ascii").split(" ", 2)
        url = urlsplit(target)
        lines = (line.decode("latin-1").partition(":") for line in rest)
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        if self._token and url.path not in OPEN_PATHS and not self._knows_token(headers):
            return Page(b"a token is needed: Authorization: Bearer ...\n", status=401)
        handler = self._pages.get(url.path)
        if handler is None:
            known = " ".join(self._pages)
            return Page(f"there is no {url.path}; there are {known}\n".encode(), status=404)
        if method != "GET":
            return Page(b"only GET is served\n", status=405)
        return await handler(Query(dict(parse_qsl(url.query, keep_blank_values=True)), headers))

    def _knows_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode("latin-1"), self._token)
