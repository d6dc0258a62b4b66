"""A small HTTP server for metrics and health: GET only, one answer per connection.

Nothing here is exposed to the data path; a web framework would be the larger risk for four fixed pages. Every
request is bounded in size and time, and the number of connections is bounded too. When there are too many, the one
that has been waiting for its peer the longest is closed: slow peers hold up each other, never a health check.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from rookery.core.event_logging import get_logger
from rookery.core.service import Service

HEAD_BYTES_MAX = 8192
REQUEST_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 64

_REASONS = {
    200: "OK",
    400: "Bad Request",
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


Query = Mapping[str, str]
Handler = Callable[[Query], Awaitable[Page]]


class HttpServer(Service):
    """Serves fixed paths."""

    name = "http"

    def __init__(self, host: str, port: int, pages: Mapping[str, Handler]) -> None:
        self._host, self._port = host, port
        self._pages = pages
        self._open = 0
        self._slow: dict[asyncio.StreamWriter, None] = {}
        """Connections that wait for their peer, to send a request or to take an answer, the longest waiting first."""
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is bound; differs from the one asked for when that was 0."""
        if self._server is None:
            return self._port
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._connected, self._host or None, self._port, limit=HEAD_BYTES_MAX
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= CONNECTIONS_MAX or self._close_slowest():
                async with asyncio.timeout(REQUEST_SECONDS_MAX):
                    await self._answer(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            writer.transport.abort()  # the peer was too slow or went away; nobody is left to answer
        finally:
            self._open -= 1
            self._slow.pop(writer, None)
            writer.close()

    def _close_slowest(self) -> bool:
        """Make place for one more; False if nobody waits for a peer, so that each is about to be answered."""
        slowest = next(iter(self._slow), None)
        if slowest is None:
            return False
        del self._slow[slowest]
        slowest.transport.abort()
        return True

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)  # `drain` waits for the last byte, within our time
        try:
            self._slow[writer] = None
            head = await reader.readuntil(b"\r\n\r\n")
            self._slow.pop(writer, None)
            page = await self._page(head)
        except (asyncio.LimitOverrunError, UnicodeDecodeError, ValueError):
            page = Page(b"the request could not be read\n", status=400)
        self._slow[writer] = None
        writer.write(
            f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\ncontent-type: {page.content_type}\r\n"
            f"content-length: {len(page.body)}\r\nconnection: close\r\n\r\n".encode()
            + page.body
        )
        await writer.drain()

    async def _page(self, head: bytes) -> Page:
        method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ", 2)
        url = urlsplit(target)
        handler = self._pages.get(url.path)
        if handler is None:
            known = " ".join(self._pages)
            return Page(f"there is no {url.path}; there are {known}\n".encode(), status=404)
        if method != "GET":
            return Page(b"only GET is served\n", status=405)
        return await handler(dict(parse_qsl(url.query, keep_blank_values=True)))
