"""One port for connections with and without TLS, while a cluster changes from one to the other.

gRPC serves a port either with TLS or without. So it serves two Unix sockets, and this proxy forwards each connection to
one of them by its first byte: that of TLS begins no other connection.
"""

import asyncio
import shutil
import socket
import tempfile
from pathlib import Path

from rookery.core.event_logging import get_logger

_log = get_logger("net.front_door")

TLS_HANDSHAKE = b"\x16"
"""The first byte of every TLS connection; that of gRPC without TLS is a P."""
FIRST_BYTE_S = 10.0
CONNECTIONS_MAX = 1024
CHUNK = 1 << 16


class FrontDoor:
    """Forwards connections to `plain` or to `secured`: addresses in gRPC's form at which a server must listen."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rookery-control-"))
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def plain(self) -> str:
        return f"unix:{self._folder / 'plain'}"

    @property
    def secured(self) -> str:
        return f"unix:{self._folder / 'secured'}"

    async def start(self, address: str) -> int:
        """Listen on `address` (host:port) and return the port; raises OSError with the address if that fails."""
        host, _, port = address.rpartition(":")
        try:
            self._server = await asyncio.start_server(self._enter, host.strip("[]"), int(port))
        except OSError as error:
            raise OSError(f"cannot listen on {address} for gRPC: {error}") from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._open) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open.add(task)
        try:
            await self._lead(reader, writer)
        except (OSError, TimeoutError) as error:
            _log.debug("front_door.closed", peer=str(writer.get_extra_info("peername")), why=str(error))
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _at_once(writer)
        async with asyncio.timeout(FIRST_BYTE_S):
            first = await reader.read(CHUNK)
        if not first:
            return
        room = "secured" if first.startswith(TLS_HANDSHAKE) else "plain"
        inner_reader, inner_writer = await asyncio.open_unix_connection(str(self._folder / room))
        inner_writer.write(first)
        ways = [
            asyncio.create_task(_carry(reader, inner_writer)),
            asyncio.create_task(_carry(inner_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            inner_writer.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one end closes, then close the other: so a node notices that its peer is gone."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    async with asyncio.timeout(FIRST_BYTE_S):
        writer.close()
        await writer.wait_closed()


def _at_once(writer: asyncio.StreamWriter) -> None:
    handle = writer.get_extra_info("socket")
    if handle is not None and handle.family in (socket.AF_INET, socket.AF_INET6):
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
