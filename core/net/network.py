"""The network port: connect and listen with asyncio protocols. `core.testing.network` has one in memory."""

import asyncio
from collections.abc import Callable
from ssl import SSLContext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rookery.core.net.tls_listener import TlsAdmission

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
Address = tuple[str, int]


class Listening(Protocol):
    """An open listener."""

    @property
    def address(self) -> Address: ...

    async def close(self) -> None: ...


class Network(Protocol):
    """What the rest of the system may ask of a network."""

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: SSLContext | None = None
    ) -> asyncio.Transport: ...

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        backlog: int = 50,
        tls: "TlsAdmission | None" = None,
    ) -> Listening: ...


class _SocketListening:
    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def address(self) -> Address:
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        self._server.close()


class SocketNetwork:
    """TCP through the running event loop."""

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: SSLContext | None = None
    ) -> asyncio.Transport:
        transport, _ = await asyncio.get_running_loop().create_connection(factory, host, port, ssl=tls)
        return transport

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        backlog: int = 50,
        tls: "TlsAdmission | None" = None,
    ) -> Listening:
        if tls is not None:
            from rookery.core.net.tls_listener import TlsListening  # clients do without

            listening = TlsListening(factory, tls)
            await listening.open(host, port, backlog)
            return listening
        server = await asyncio.get_running_loop().create_server(factory, host or None, port, backlog=backlog)
        return _SocketListening(server)
