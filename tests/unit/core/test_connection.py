import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rookery.core.errors import UnsupportedVersionError
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.testing.network import MemoryNetwork
from rookery.core.wire.api_table import by_key
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersion, ApiVersionsResponse
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from rookery.core.wire.header import response_frame
from rookery.core.wire.request_header import read_request_header
from tests.unit.core.wire.frames import split_frames


class FakeNode(asyncio.Protocol):
    """Answers ApiVersions; keeps Metadata requests until told to answer."""

    def __init__(self) -> None:
        self.rest = b""
        self.kept: list[tuple[int, int]] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        frames, rest = split_frames(self.rest + data, 1 << 20)
        self.rest = bytes(rest)
        for frame in frames:
            header, _ = read_request_header(frame)
            if header.api_key == API_VERSIONS.key:
                keys = [
                    ApiVersion(api_key=18, min_version=0, max_version=4),
                    ApiVersion(api_key=3, min_version=0, max_version=9),
                ]
                answer = ApiVersionsResponse(api_keys=keys)
                self.reply(header.api_key, header.api_version, header.correlation_id, answer)
            else:
                self.kept.append((header.api_version, header.correlation_id))

    def reply(self, key: int, version: int, correlation: int, response: Any) -> None:
        self.transport.writelines(response_frame(by_key[key], version, correlation, response))

    def answer_metadata(self, cluster_id: str) -> None:
        version, correlation = self.kept.pop(0)
        self.reply(3, version, correlation, MetadataResponse(brokers=[], topics=[], cluster_id=cluster_id))


async def connected() -> tuple[Connection, FakeNode]:
    network = MemoryNetwork()
    node = FakeNode()
    await network.listen(lambda: node, "node", 9092)
    return await Connection.open("node", 9092, client_id="test", network=network), node


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0)


async def test_versions_are_negotiated() -> None:
    connection, _ = await connected()
    assert connection.version_for(METADATA) == 9
    assert connection.version_for(METADATA, at_most=5) == 5
    with pytest.raises(UnsupportedVersionError, match="node:9092 serves Fetch"):
        connection.version_for(by_key[1])


async def test_requests_are_pipelined_and_answered_in_order() -> None:
    connection, node = await connected()
    asked = [
        asyncio.create_task(connection.request(METADATA, 9, MetadataRequest(topics=[]), 5)) for _ in range(3)
    ]
    await until(lambda: len(node.kept) == 3)
    assert connection.waiting == 3
    for name in ("first", "second", "third"):
        node.answer_metadata(name)
    assert [(await task).cluster_id for task in asked] == ["first", "second", "third"]


async def test_an_answer_to_another_request_closes_the_connection() -> None:
    connection, node = await connected()
    asked = asyncio.create_task(connection.request(METADATA, 9, MetadataRequest(topics=[]), 5))
    await until(lambda: node.kept)
    node.reply(3, 9, 4711, MetadataResponse(brokers=[], topics=[]))
    with pytest.raises(ConnectionLostError, match="answered 4711 instead of 1"):
        await asked
    assert connection.closed


async def test_an_answer_that_cannot_be_decoded_fails_its_request_at_once() -> None:
    """And those behind it: what was asked is asked again elsewhere, not after a timeout."""
    connection, node = await connected()
    asked = [
        asyncio.create_task(connection.request(METADATA, 9, MetadataRequest(topics=[]), 3600)) for _ in range(2)
    ]
    await until(lambda: len(node.kept) == 2)
    version, correlation = node.kept[0]
    frame = b"".join(response_frame(METADATA, version, correlation, MetadataResponse(brokers=[], topics=[])))
    cut = frame[4:-3]
    node.transport.write(len(cut).to_bytes(4, "big") + cut)
    for each in asked:
        with pytest.raises(ConnectionLostError, match="node:9092 is closed: "):
            async with asyncio.timeout(30):
                await each
    assert connection.closed


async def test_a_lost_connection_fails_all_that_wait_and_all_that_follow() -> None:
    connection, node = await connected()
    lost: list[bool] = []
    connection.on_lost = lambda: lost.append(True)
    asked = asyncio.create_task(connection.request(METADATA, 9, MetadataRequest(topics=[]), 5))
    await until(lambda: node.kept)
    node.transport.close()
    with pytest.raises(ConnectionLostError, match="the connection to node:9092 is closed"):
        await asked
    with pytest.raises(ConnectionLostError):
        await connection.request(METADATA, 9, MetadataRequest(topics=[]), 5)
    assert lost == [True]


async def test_a_node_that_does_not_answer_is_given_up() -> None:
    connection, _ = await connected()
    with pytest.raises(ConnectionLostError, match="did not answer Metadata within"):
        await connection.request(METADATA, 9, MetadataRequest(topics=[]), 0.02)
    assert connection.closed


@asynccontextmanager
async def connected_by_tcp() -> AsyncIterator[tuple[Connection, FakeNode]]:
    """To a node that reads nothing until told to."""
    node = FakeNode()
    server = await asyncio.get_running_loop().create_server(lambda: node, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    connection = await Connection.open(host, port, client_id="test")
    node.transport.pause_reading()
    try:
        yield connection, node
    finally:
        connection.close()
        node.transport.close()
        server.close()
        await server.wait_closed()


LARGE = MetadataRequest(topics=[MetadataRequestTopic(name="t" * 30_000)] * 30)


async def send_many(connection: Connection, timeout_s: float) -> None:
    for _ in range(50):
        await connection.send(METADATA, 9, LARGE, timeout_s)


async def test_what_has_no_answer_waits_for_a_node_that_takes_nothing() -> None:
    """Else everything that a fast writer has would lie in memory."""
    async with connected_by_tcp() as (connection, _):
        with pytest.raises(ConnectionLostError, match=r"took nothing for 0\.2 s"):
            await send_many(connection, 0.2)
        await until(lambda: connection.closed)


async def test_what_has_no_answer_is_sent_as_soon_as_the_node_takes_more() -> None:
    async with connected_by_tcp() as (connection, node):
        sending = asyncio.create_task(send_many(connection, 30))
        await until(lambda: not connection._writable.is_set())
        node.transport.resume_reading()
        await sending
        await until(lambda: len(node.kept) == 50)
