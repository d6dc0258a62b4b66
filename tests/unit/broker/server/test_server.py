"""The server on real sockets: listeners, limits and its end."""

import asyncio
import socket
from contextlib import suppress
from struct import pack

import pytest

from rookery.broker.server.pending import Pending
from rookery.broker.server.server import RequestTasks, Server
from rookery.broker.server.settings import ServerSettings
from rookery.core.config import node
from rookery.core.config.listeners import Endpoint, Listener
from rookery.core.config.options import ConfigError, Settings
from rookery.core.metrics import Metrics
from rookery.core.net.network import Network, SocketNetwork
from rookery.core.testing.network import MemoryNetwork
from rookery.core.wire.apis.metadata import METADATA
from rookery.core.wire.header import read_response_header
from tests.unit.broker.server.rig import Scripted, at_once, frame_of


def listener(name: str, port: int = 0, host: str = "127.0.0.1") -> Listener:
    end = Endpoint(name, host, port)
    return Listener(name, end, end, "PLAINTEXT")


def server_on(*listeners: Listener, network: Network | None = None, **settings: int) -> Server:
    return Server(
        listeners,
        lambda start_task: [Scripted(at_once)],
        ServerSettings(**settings),  # type: ignore[arg-type]
        network or SocketNetwork(),
        Metrics(),
    )


async def ask(port: int, name: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frame_of(name))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    _, body = read_response_header(METADATA, 12, frame)
    return METADATA.decode_response(12, frame, body).cluster_id or ""


@pytest.mark.row(144)
async def test_every_listener_serves() -> None:
    server = server_on(listener("PLAINTEXT"), listener("INTERNAL"))
    await server.start()
    assert [await ask(server.port(name), name) for name in ("PLAINTEXT", "INTERNAL")] == ["PLAINTEXT", "INTERNAL"]
    await server.stop()


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = server_on(listener("PLAINTEXT", port))
        with pytest.raises(OSError, match=rf"cannot listen on PLAINTEXT://127.0.0.1:{port}"):
            await server.start()
        await server.stop()


async def test_stopping_closes_listeners_and_connections() -> None:
    server = server_on(listener("PLAINTEXT"))
    await server.start()
    port = server.port("PLAINTEXT")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while server.limits.count == 0:
        await asyncio.sleep(0)
    await server.stop()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)
    assert server.limits.count == 0


async def test_a_refused_connection_is_closed_and_others_go_on() -> None:
    server = server_on(listener("PLAINTEXT"), connections_max=1)
    await server.start()
    port = server.port("PLAINTEXT")
    _, first = await asyncio.open_connection("127.0.0.1", port)
    while server.limits.count == 0:
        await asyncio.sleep(0)
    reader, second = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionResetError):
        assert await reader.read() == b""
    second.close()
    assert server.limits.count == 1
    first.close()
    await server.stop()


async def test_a_malformed_frame_on_a_socket_ends_only_its_connection() -> None:
    server = server_on(listener("PLAINTEXT"))
    await server.start()
    port = server.port("PLAINTEXT")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(pack(">i", -5))
    assert await reader.read() == b""
    writer.close()
    assert await ask(port, "fine") == "fine"
    await server.stop()


async def test_a_server_runs_without_sockets() -> None:
    network = MemoryNetwork()
    server = server_on(listener("PLAINTEXT", 9092, "n1"), network=network)
    await server.start()
    received: list[bytes] = []

    class Client(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.append(data)

    transport = await network.connect(Client, "n1", 9092)
    transport.write(frame_of("in memory"))
    async with asyncio.timeout(5):
        while not received:
            await asyncio.sleep(0)
    assert b"in memory" in received[0]
    await server.stop()


# --- tasks ------------------------------------------------------------------------------------------------


async def test_a_task_completes_what_its_connection_waits_for() -> None:
    tasks = RequestTasks()
    outcomes: list[object] = []

    async def work() -> str:
        return "done"

    async def break_down() -> str:
        raise ZeroDivisionError("a bug")

    later: Pending[str] = Pending()

    async def follow() -> Pending[str]:
        return later

    for coroutine in (work(), break_down(), follow()):
        tasks.start(coroutine, "test").receive(lambda answer, error: outcomes.append(answer or type(error)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert outcomes == ["done", ZeroDivisionError]
    later.complete("later")
    assert outcomes[-1] == "later"
    await tasks.stop()


async def test_stopping_cancels_tasks() -> None:
    tasks = RequestTasks()
    outcomes: list[object] = []

    async def forever() -> None:
        await asyncio.Event().wait()

    tasks.start(forever(), "test").receive(lambda *outcome: outcomes.append(outcome))
    await asyncio.sleep(0)
    await tasks.stop()
    assert outcomes == []


# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.row(138, 139)
def test_options_are_read_by_kafkas_names() -> None:
    given = {
        "socket.request.max.bytes": "1000",
        "queued.max.request.bytes": "5000",
        "queued.max.requests": "7",
        "max.connections": "3",
        "max.connections.per.ip": "2",
        "max.connections.per.ip.overrides": "10.0.0.1:5,::1:6",
        "connections.max.idle.ms": "60000",
        "rookery.frame.timeout.ms": "9000",
    }
    settings = ServerSettings.of(Settings(node.TABLE).having(given))
    assert (settings.request_bytes_max, settings.queued_request_bytes_max) == (1000, 5000)
    assert (settings.connections_max, settings.connections_per_ip_max, settings.queued_requests_max) == (3, 2, 7)
    assert settings.connections_per_ip_overrides == {"10.0.0.1": 5, "::1": 6}
    assert (settings.connections_idle_ms_max, settings.frame_timeout_ms) == (60_000, 9000)


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:many", ":3"])
def test_a_wrong_override_is_refused_with_its_key(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        ServerSettings.of(Settings(node.TABLE).having({"max.connections.per.ip.overrides": text}))
