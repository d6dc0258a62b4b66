"""Which node a client asks for what any node knows."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from rookery.core.errors import ErrorCode, InvalidRequestError
from rookery.core.net import cluster as client_cluster
from rookery.core.net.cluster import Cluster, ClusterMetadata, CoordinatorKind, Node
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rookery.core.wire.apis.metadata import (
    METADATA,
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Asked(Cluster):
    """Remembers the ports that were asked; the ports in `dead` do not answer."""

    def __init__(self) -> None:
        super().__init__("nowhere:9")
        self.ports: list[int] = []
        self.dead: set[int] = set()
        self.view = ClusterMetadata(nodes={id: Node(id, "nowhere", id) for id in (1, 2, 3)})
        self.peers = self  # type: ignore[assignment]

    async def ask(self, address: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        _, port = address
        self.ports.append(port)
        if port in self.dead:
            raise ConnectionLostError("gone")
        return port

    async def answered(self) -> Any:
        return await self.ask_any(METADATA, MetadataRequest(topics=[]))


def test_one_node_is_asked_until_it_is_known_to_be_wrong() -> None:
    async def run() -> None:
        cluster = Asked()
        assert [await cluster.answered() for _ in range(3)] == [1, 1, 1]
        cluster.forget("t")
        assert [await cluster.answered() for _ in range(2)] == [2, 2]
        cluster.turn()
        cluster.turn()
        assert await cluster.answered() == 1

    asyncio.run(run())


class Describing(Asked):
    """One topic; each port has its own view of who leads, in which epoch."""

    leaders = {1: (1, 4), 2: (2, 5), 3: (3, 6)}  # noqa: RUF012
    topic_id = UUID(int=7)

    async def ask(self, address: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        leader, epoch = self.leaders[address[1]]
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        topic = MetadataResponseTopic(name="t", topic_id=self.topic_id, partitions=[partition])
        return MetadataResponse(brokers=[], topics=[topic])

    async def leader_by(self, port: int) -> int:
        self.view = replace(self.view, nodes={port: Node(port, "nowhere", port)})
        return (await self.refresh(["t"])).topics["t"].partitions[0].leader


def test_a_node_that_is_cut_off_does_not_bring_a_former_leader_back() -> None:
    async def run() -> None:
        cluster = Describing()
        assert [await cluster.leader_by(port) for port in (2, 1, 3, 2, 1)] == [2, 2, 3, 3, 3]
        cluster.topic_id = UUID(int=8)  # another topic with the same name
        assert await cluster.leader_by(1) == 1

    asyncio.run(run())


def test_a_node_that_does_not_answer_is_not_the_first_to_be_asked_again() -> None:
    async def run() -> None:
        cluster = Asked()
        cluster.dead = {1}
        assert await cluster.answered() == 2
        assert await cluster.answered() == 2
        assert cluster.ports == [1, 2, 2]
        cluster.dead = {1, 2, 3}
        cluster.ports.clear()
        assert await cluster.answered() == 9
        assert sorted(cluster.ports) == [1, 2, 3, 9]

    asyncio.run(run())


class Coordinated(Cluster):
    """Told of coordinators by answers given in advance."""

    def __init__(self, *answers: FindCoordinatorResponse) -> None:
        super().__init__("nowhere:9")
        self.answers = list(answers)
        self.asked: list[FindCoordinatorRequest] = []

    async def ask_any(
        self, api: Any, request: Any, *, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        self.asked.append(request)
        return self.answers.pop(0)


def _at(node: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=node, host="here", port=node)])


def test_a_coordinator_is_looked_up_once_and_again_when_it_proves_wrong() -> None:
    async def run() -> None:
        cluster = Coordinated(_at(1), _at(2))
        for _ in range(3):
            assert await cluster.coordinator(CoordinatorKind.GROUP, "g") == Node(1, "here", 1)
        cluster.forget_coordinator(CoordinatorKind.GROUP, "g")
        assert (await cluster.coordinator(CoordinatorKind.GROUP, "g")).id == 2
        assert [(r.key, r.key_type, list(r.coordinator_keys)) for r in cluster.asked] == [("g", 0, ["g"])] * 2

    asyncio.run(run())


def test_a_coordinator_that_is_not_there_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_cluster, "RETRY_PAUSE_S", 0.0)
    refused = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, port=-1)
    older = FindCoordinatorResponse(node_id=3, host="here", port=3)

    async def run() -> None:
        cluster = Coordinated(refused, refused, older)
        assert (await cluster.coordinator(CoordinatorKind.TRANSACTION, "t")).id == 3
        assert len(cluster.asked) == 3

    asyncio.run(run())


def test_what_no_retry_helps_is_reported_at_once() -> None:
    refused = FindCoordinatorResponse(
        coordinators=[
            Coordinator(key="t", node_id=-1, host="", port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message="no")
        ]
    )

    async def run() -> None:
        with pytest.raises(InvalidRequestError, match="the coordinator of 't': no"):
            await Coordinated(refused).coordinator(CoordinatorKind.TRANSACTION, "t")

    asyncio.run(run())
