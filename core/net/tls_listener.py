"""A listener that speaks TLS and looks at a connection before its handshake costs anything.

`loop.create_server(ssl=...)` does the handshake first, always with the same context, and reports a connection only
afterwards. Here a connection is accepted without TLS, `TlsAdmission.admit` decides whether it may continue, and the
handshake is a task with a deadline, which uses the context of that moment.

A handshake costs milliseconds of the loop's time, so they take turns: one begins in each pass of the loop, and only
when its client has sent something. However many clients come at once, those that are connected are served in between.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from rookery.core.event_logging import get_logger
from rookery.core.net.tls import alert_of

_log = get_logger("net.tls")
ACCEPT_PAUSE_S = 0.1
"""After an accept that failed for lack of files or memory."""

LEAST_S = 0.01
UNREAD_MAX = 1 << 16
CLOSE_S = 2.0
"""For handshakes that are given up when the listener closes."""

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class TlsAdmission(Protocol):
    """Decides which connections may begin a handshake, and with which context."""

    @property
    def context(self) -> ssl.SSLContext:
        """For the next handshake."""

    @property
    def handshake_timeout_s(self) -> float: ...

    def admit(self, handshake: "Handshake") -> bool:
        """Whether a connection may begin its handshake."""

    def done(self, handshake: "Handshake") -> None:
        """A handshake that was admitted has succeeded."""

    def failed(self, handshake: "Handshake", error: Exception | None) -> None:
        """A handshake that was admitted failed; `error` is None if it was given up."""


class Handshake:
    """One that is under way."""

    def __init__(self, address: str, accepted: socket.socket) -> None:
        self.address = address
        self.given_up = False
        self._accepted = accepted

    def give_up(self) -> None:
        """End it and the connection. If it succeeds at this very moment it is done, not failed: its protocol has
        the connection already, and is informed of its loss."""
        self.given_up = True
        with suppress(OSError):
            self._accepted.shutdown(socket.SHUT_RDWR)


class TlsListening:
    """Owns its sockets, the tasks that accept, and the handshakes under way."""

    def __init__(self, factory: ProtocolFactory, admission: TlsAdmission) -> None:
        self._factory = factory
        self._admission = admission
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], tuple[socket.socket, Handshake]] = {}
        self._turn = asyncio.Lock()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._sockets[0].getsockname()[:2]
        return host, port

    async def open(self, host: str, port: int, backlog: int) -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, proto, _, address in dict.fromkeys(found):
                self._sockets.append(_listen(family, kind, proto, address, backlog))
        except OSError:
            self._close_sockets()
            raise
        self._accepting = [
            loop.create_task(self._accept(each), name="tls accept") for each in self._sockets
        ]

    async def close(self) -> None:
        """Accept no more connections; handshakes under way end, open connections stay."""
        for accepting in self._accepting:
            accepting.cancel()
        for _, handshake in list(self._handshakes.values()):
            handshake.give_up()
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=CLOSE_S)
        tasks = [*self._accepting, *self._handshakes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close_sockets()

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                _log.warning("connection.not_accepted", reason=str(error))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            try:
                self._take_in(accepted, str(peer[0]) if isinstance(peer, tuple) and peer else "local")
            except Exception as error:  # others must still be taken in
                accepted.close()
                _log.exception("connection.not_accepted", error)

    def _take_in(self, accepted: socket.socket, address: str) -> None:
        handshake = Handshake(address, accepted)
        if not self._admission.admit(handshake):
            accepted.close()
            return
        shaking = self._shake_hands(accepted, handshake)
        task = asyncio.get_running_loop().create_task(shaking, name="tls handshake")
        self._handshakes[task] = accepted, handshake
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        accepted, handshake = self._handshakes.pop(task)
        if task.cancelled():  # perhaps before it began
            accepted.close()
            self._admission.failed(handshake, None)

    async def _shake_hands(self, accepted: socket.socket, handshake: Handshake) -> None:
        admission, loop = self._admission, asyncio.get_running_loop()
        deadline = loop.time() + admission.handshake_timeout_s
        spare: socket.socket | None = None
        try:
            with suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout_at(deadline):
                await _readable(accepted)
                async with self._turn:
                    await asyncio.sleep(0)
            spare = accepted.dup()  # the loop closes its own before it reports a failure
            left_s = max(deadline - loop.time(), LEAST_S)
            await loop.connect_accepted_socket(
                self._factory, accepted, ssl=admission.context, ssl_handshake_timeout=left_s
            )
        except Exception as error:
            if spare is not None:
                _send_alert(spare, alert_of(error))
            accepted.close()
            admission.failed(handshake, None if handshake.given_up else error)
        else:
            admission.done(handshake)
        finally:
            if spare is not None:
                spare.close()


def _send_alert(connection: socket.socket, alert: bytes) -> None:
    """As far as it can be sent at once. What the client has sent is taken first: a connection that is closed with
    something unread is reset, and what was sent is lost."""
    with suppress(OSError):
        if alert:
            with suppress(BlockingIOError):
                connection.recv(UNREAD_MAX)
            connection.send(alert)
            connection.shutdown(socket.SHUT_WR)


async def _readable(accepted: socket.socket) -> None:
    """Until there is something to read, or the connection has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(accepted, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(accepted)


def _listen(
    family: int, kind: int, proto: int, address: Any, backlog: int
) -> socket.socket:
    made = socket.socket(family, kind, proto)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(backlog)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
