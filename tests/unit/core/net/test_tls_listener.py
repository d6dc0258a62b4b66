"""A listener that speaks TLS: handshakes take turns, and what becomes of those that are given up."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from rookery.core.net.tls import read_tls, server_context
from rookery.core.net.tls_listener import Handshake, TlsListening
from tests.certificates import Authority


class Door:
    """Lets everybody in, and notes how it ended."""

    handshake_timeout_s = 30.0

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.passes = 0
        """Of the loop, if somebody counts them."""
        self.begun: list[int] = []
        """In which pass a handshake began."""
        self.admitted: list[Handshake] = []
        self.ended: list[object] = []
        self.came = asyncio.Event()
        self.left = asyncio.Event()

    @property
    def context(self) -> ssl.SSLContext:
        self.begun.append(self.passes)
        return self._context

    async def count_passes(self) -> None:
        while True:
            self.passes += 1
            await asyncio.sleep(0)

    def admit(self, handshake: Handshake) -> bool:
        self.admitted.append(handshake)
        self.came.set()
        return True

    def done(self, handshake: Handshake) -> None:
        self.ended.append("done")
        self.left.set()

    def failed(self, handshake: Handshake, error: Exception | None) -> None:
        self.ended.append(error)
        self.left.set()


class Protocol(asyncio.Protocol):
    """Has its handshake given up at the moment it succeeds, before the task of the handshake hears of it."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.door.admitted[0].give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


async def listening(folder: Path) -> tuple[Authority, Door, TlsListening, list[Protocol]]:
    authority = Authority(folder)
    door = Door(server_context(read_tls({"ssl.keystore.location": str(authority.issue("node", "127.0.0.1"))})))
    made: list[Protocol] = []

    def factory() -> Protocol:
        made.append(Protocol(door))
        return made[-1]

    listener = TlsListening(factory, door)
    await listener.open("127.0.0.1", 0, 10)
    return authority, door, listener, made


async def test_a_handshake_given_up_as_it_succeeds_is_done_and_its_connection_ends(tmp_path: Path) -> None:
    """Else it is counted out twice: as a handshake that came to nothing, and as a connection that was lost."""
    authority, door, listener, made = await listening(tmp_path)
    context = ssl.create_default_context(cafile=str(authority.path))
    async with asyncio.timeout(30):
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*listener.address, ssl=context)
            assert await reader.read() == b""
            writer.close()
        await door.left.wait()
        await made[0].lost.wait()
    await listener.close()
    assert door.ended == ["done"]


async def test_a_handshake_given_up_before_ends_without_an_error(tmp_path: Path) -> None:
    _, door, listener, _ = await listening(tmp_path)
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(*listener.address)
        await door.came.wait()
        door.admitted[0].give_up()
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        await door.left.wait()
    writer.close()
    await listener.close()
    assert door.ended == [None]


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    made = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        made.do_handshake()
    return outgoing.read()


async def _storm(folder: Path, clients: int) -> None:
    _, door, listener, made = await listening(folder)
    silent = socket.create_connection(listener.address)
    sockets = [socket.create_connection(listener.address) for _ in range(clients)]
    for each in sockets:
        each.sendall(client_hello())
    counting = asyncio.create_task(door.count_passes())
    async with asyncio.timeout(60):
        while len(door.begun) < clients:
            await asyncio.sleep(0)
    assert len(set(door.begun)) == clients, "one in a pass"
    assert len(door.admitted) == clients + 1
    assert len(made) <= clients, "nothing is made for who says nothing"
    await listener.close()
    counting.cancel()
    assert len(door.ended) == clients + 1, "handshakes under way end with the listener"
    assert not any(protocol.lost.is_set() for protocol in made), "none was ever connected"
    for each in (silent, *sockets):
        each.close()


@pytest.mark.attack(8, 65)
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_handshakes_that_come_at_once_take_turns(tmp_path: Path, run: Any) -> None:
    """Each costs milliseconds: hundreds in one pass of the loop would hold up everybody who is connected."""
    run(_storm(tmp_path, 8))
