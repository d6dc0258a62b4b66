"""Which node a client asks for what any node knows."""

import asyncio
from types import SimpleNamespace
from typing import Any

from rookery.client.cluster import Cluster, ClusterView, Node
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest


class Asked(Cluster):
    """Remembers the ports that were asked; the ports in `dead` do not answer."""

    def __init__(self) -> None:
        super().__init__("nowhere:9")
        self.ports: list[int] = []
        self.dead: set[int] = set()
        self.view = ClusterView(nodes={id: Node(id, "nowhere", id) for id in (1, 2, 3)})

    async def connection(self, host: str, port: int) -> Any:
        async def request(*_: Any) -> int:
            self.ports.append(port)
            if port in self.dead:
                raise ConnectionLostError("gone")
            return port

        return SimpleNamespace(version_for=lambda *_: 0, request=request)

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
