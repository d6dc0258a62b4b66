"""Channels come back quickly after their peer does."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from rookery.core.net import control
from rookery.core.net.control import GRPC, bind, name_is_unknown, open_channel, server_options
from rookery.core.net.tls import read_tls
from tests.certificates import Authority
from tests.cluster.quorum import free_ports

AWAY_S = 10.0
UNKNOWN = f"{64 * 'x'}:9093"
"""No name has a part as long as this, so none of the world's name servers is asked."""


class Echo(grpc.GenericRpcHandler):
    """Answers any unary call with the bytes it got."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def echo(request: bytes, context: object) -> bytes:
            return request

        return grpc.unary_unary_rpc_method_handler(echo)


async def serve(address: str) -> grpc.aio.Server:
    server = grpc.aio.server(options=server_options())
    server.add_generic_rpc_handlers((Echo(),))
    bind(server, address)
    await server.start()
    return server


async def answered(call: Any) -> bool:
    try:
        return bool(await call(b"hello", timeout=2) == b"hello")
    except grpc.aio.AioRpcError:
        return False


async def test_a_peer_that_was_away_for_seconds_is_reached_again_soon() -> None:
    """gRPC's own back-off would by then wait more than five seconds between two attempts."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    server = await serve(address)
    channel = open_channel(address)
    call: Any = channel.unary_unary("/any/method")
    try:
        assert await answered(call)
        await server.stop(None)
        failures, until = 0, time.monotonic() + AWAY_S
        while time.monotonic() < until:
            failures += not await answered(call)
            await asyncio.sleep(0.1)
        assert failures > 10
        server = await serve(address)
        async with asyncio.timeout(4):
            while not await answered(call):
                await asyncio.sleep(0.02)
    finally:
        await channel.close()
        await server.stop(None)


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, after_s: float = 0.0) -> None:
    await asyncio.sleep(after_s)
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


async def test_a_peer_that_takes_its_time_to_answer_is_reached() -> None:
    """The first attempt succeeds: whoever asks once is not told that nobody is there."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    server = await serve(address)
    ways: list[asyncio.Future[Any]] = []

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection(*address.split(":"))
        ways.append(asyncio.gather(pass_on(reader, there), pass_on(back, writer, after_s=0.5)))

    slow = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    host, port = slow.sockets[0].getsockname()
    channel = open_channel(f"{host}:{port}")
    try:
        call: Any = channel.unary_unary("/any/method")
        assert await call(b"hello", timeout=30) == b"hello"
        assert len(ways) == 1
    finally:
        await channel.close()
        await asyncio.gather(*ways)
        slow.close()
        await server.stop(None)


async def test_a_name_that_nobody_knows_is_distinguished_from_a_peer_that_is_away() -> None:
    for address, unknown in ((UNKNOWN, True), (f"127.0.0.1:{free_ports(1)[0]}", False)):
        channel = open_channel(address)
        call: Any = channel.unary_unary("/any/method")
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call(b"hello", timeout=30)
        assert name_is_unknown(failed.value) == unknown, failed.value.details()
        await channel.close()


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01", b"PRI"])
@pytest.mark.parametrize("secured", [False, True])
async def test_who_does_not_come_to_the_point_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, secured: bool
) -> None:
    """Every connection holds a file, before anybody knows whose it is."""
    monkeypatch.setattr(control, "HANDSHAKE_MS", 200)
    tls = read_tls(Authority(tmp_path).settings("node", "node-1", "127.0.0.1")) if secured else None
    server = GRPC.server(10)
    port = bind(server, "127.0.0.1:0", tls)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                while await reader.read(1000):
                    pass
        writer.close()
    finally:
        await server.stop(0)
