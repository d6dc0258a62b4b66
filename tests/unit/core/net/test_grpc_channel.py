"""Channels come back quickly after their peer does."""

import asyncio
import time
from typing import Any

import grpc
import grpc.aio

from rookery.core.net.grpc_channel import bind, open_channel, server_options
from tests.cluster.quorum import free_ports

AWAY_S = 5.5


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


async def test_a_peer_that_was_away_for_seconds_is_reached_again_within_one() -> None:
    """gRPC's own back-off would by then wait four seconds between two attempts."""
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
        async with asyncio.timeout(1.5):
            while not await answered(call):
                await asyncio.sleep(0.02)
    finally:
        await channel.close()
        await server.stop(None)
