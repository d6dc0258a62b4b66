"""Connections that are shared, opened once, opened again after a pause, and bounded."""

import asyncio
from random import Random
from typing import Any

import pytest

from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.peers import PeerLimits, Peers
from rookery.core.testing.network import MemoryNetwork
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from tests.unit.core.test_connection import FakeNode, until

FAST = BackoffSettings(first_s=0.01, max_s=0.04)


class Nodes:
    """Nodes in memory; each connection is kept."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.accepted: dict[int, list[FakeNode]] = {}
        self._listening: dict[int, Any] = {}

    async def start(self, port: int) -> None:
        def accept() -> FakeNode:
            node = FakeNode()
            self.accepted.setdefault(port, []).append(node)
            return node

        self._listening[port] = await self.network.listen(accept, "node", port)

    async def stop(self, port: int) -> None:
        await self._listening.pop(port).close()
        for node in self.accepted[port]:
            node.transport.close()

    def peers(self, limits: PeerLimits | None = None) -> Peers:
        return Peers("test", network=self.network, limits=limits or PeerLimits(backoff=FAST), rng=Random(1))


def ask(peers: Peers, port: int, timeout_s: float = 30) -> "asyncio.Task[Any]":
    return asyncio.create_task(
        peers.ask(("node", port), METADATA, MetadataRequest(topics=[]), timeout_s=timeout_s)
    )


async def test_who_asks_one_node_shares_its_connection() -> None:
    nodes = Nodes()
    await nodes.start(1)
    peers = nodes.peers()
    asked = [ask(peers, 1) for _ in range(5)]
    await until(lambda: nodes.accepted.get(1) and len(nodes.accepted[1][0].kept) == 5)
    assert len(nodes.accepted[1]) == 1
    for number in range(5):
        nodes.accepted[1][0].answer_metadata(str(number))
    assert [(await task).cluster_id for task in asked] == list("01234")
    assert (peers.connections, peers.opened, peers.requests) == (1, 1, 5)
    peers.close()
    assert peers.connections == 0


async def test_requests_beyond_the_bound_wait_for_their_turn() -> None:
    nodes = Nodes()
    await nodes.start(1)
    peers = nodes.peers(PeerLimits(in_flight_max=2))
    asked = [ask(peers, 1) for _ in range(3)]
    await until(lambda: nodes.accepted.get(1) and len(nodes.accepted[1][0].kept) == 2)
    node = nodes.accepted[1][0]
    node.answer_metadata("first")
    await until(lambda: len(node.kept) == 2)
    node.answer_metadata("second")
    node.answer_metadata("third")
    assert [(await task).cluster_id for task in asked] == ["first", "second", "third"]


async def test_a_node_that_cannot_be_reached_is_not_tried_all_the_time() -> None:
    nodes = Nodes()
    peers = nodes.peers(PeerLimits(backoff=BackoffSettings(first_s=50.0, max_s=50.0)))
    with pytest.raises(ConnectionRefusedError):
        await ask(peers, 1)
    await nodes.start(1)
    with pytest.raises(ConnectionLostError, match=r"is tried again in .* ms: nothing answers"):
        await ask(peers, 1)
    assert (peers.failed, peers.opened) == (1, 0)
    assert 30 < peers.pause_s(("node", 1)) < 70


async def test_a_node_that_came_back_is_reached_after_the_pause() -> None:
    nodes = Nodes()
    await nodes.start(1)
    peers = nodes.peers()
    await peers.connection(("node", 1))
    await nodes.stop(1)
    await until(lambda: not peers.connections)
    with pytest.raises(ConnectionRefusedError):
        await peers.connection(("node", 1))
    await nodes.start(1)
    async with asyncio.timeout(30):
        while peers.connections == 0:
            await asyncio.sleep(peers.pause_s(("node", 1)))
            await peers.connection(("node", 1))
    assert peers.opened == 2


async def test_the_connection_used_longest_ago_makes_room() -> None:
    nodes = Nodes()
    for port in (1, 2, 3):
        await nodes.start(port)
    peers = nodes.peers(PeerLimits(connections_max=2))
    first = await peers.connection(("node", 1))
    second = await peers.connection(("node", 2))
    await peers.connection(("node", 1))
    await peers.connection(("node", 3))
    assert second.closed
    assert not first.closed
    assert peers.connections == 2


async def test_no_connection_is_closed_under_who_waits_for_an_answer() -> None:
    nodes = Nodes()
    for port in (1, 2):
        await nodes.start(port)
    peers = nodes.peers(PeerLimits(connections_max=1))
    asked = ask(peers, 1)
    await until(lambda: nodes.accepted.get(1) and nodes.accepted[1][0].kept)
    with pytest.raises(ConnectionLostError, match="no more are allowed"):
        await peers.connection(("node", 2))
    nodes.accepted[1][0].answer_metadata("still there")
    assert (await asked).cluster_id == "still there"
    await peers.connection(("node", 2))


def test_pauses_double_up_to_a_bound_and_begin_again_after_a_success() -> None:
    backoff = Backoff(BackoffSettings(first_s=0.1, max_s=1.0), Random(1))
    pauses = [backoff.failed() for _ in range(8)]
    for pause, expected in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0), strict=True):
        assert expected * 0.8 <= pause <= expected * 1.2
    backoff.succeeded()
    assert backoff.failed() <= 0.12
