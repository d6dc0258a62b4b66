"""How the admin client asks: any node, one node, a coordinator, the leaders of partitions; again where that helps."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any, TypeVar

from rookery.client.errors import KafkaTimeoutError
from rookery.client.options import (
    DEFAULT_API_TIMEOUT_MS,
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
    read_options,
    table_with_common,
)
from rookery.client.session import Session, explained
from rookery.client.types import TopicPartition
from rookery.core.errors import BrokerIdNotRegisteredError, KafkaError, error_for
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.cluster import BootstrapError, Cluster, CoordinatorKind, Node, retriable
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.network import Network
from rookery.core.wire.api import Api
from rookery.core.wire.schema import Struct

CLIENT = "Admin"
TABLE = table_with_common({})
LEAVING_MAX = 3
"""How often all nodes are asked when one leaves each time."""

Req = TypeVar("Req", bound=Struct)
Resp = TypeVar("Resp", bound=Struct)
T = TypeVar("T")
Self = TypeVar("Self", bound="Calls")


class Calls:
    """The connection of an admin client. Retries last for default.api.timeout.ms at most."""

    def __init__(
        self, options: Mapping[str, Any] | None = None, /, *, network: Network | None = None, **keywords: Any
    ) -> None:
        settings = read_options(CLIENT, TABLE, keywords, options)
        self._session = Session(CLIENT, settings, network)
        self._limit_s = settings[DEFAULT_API_TIMEOUT_MS] / 1000
        pause_s = settings[RETRY_BACKOFF_MS] / 1000
        self._backoff = BackoffSettings(pause_s, max(pause_s, settings[RETRY_BACKOFF_MAX_MS] / 1000))
        self._rng = Random()

    async def __aenter__(self: Self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect. Raises NoBrokersError with the reason of each address. Does nothing if started."""
        await self._session.open()

    async def close(self) -> None:
        """Disconnect; calls after the first do nothing."""
        await self._session.close()

    def explain(self) -> dict[str, Any]:
        """What the client knows of the cluster."""
        return {**self._session.explain(), "options": dict(self._session.options())}

    @property
    def _timeout_ms(self) -> int:
        return int(self._limit_s * 1000)

    @property
    def _cluster(self) -> Cluster:
        self._session.check_usable()
        return self._session.cluster

    async def _retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat while the failure is one that passes by itself. Raises typed errors."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limit_s
        backoff = Backoff(self._backoff, self._rng)
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TimeoutError:
                raise KafkaTimeoutError(f"no answer within {self._limit_s:g} s") from None
            except (KafkaError, ConnectionLostError, BootstrapError, OSError) as error:
                pause_s = backoff.failed()
                passes = not isinstance(error, KafkaError) or retriable(error)
                if not passes or loop.time() + pause_s > deadline:
                    raise explained(error) from None
            self._cluster.turn()
            await asyncio.sleep(pause_s)

    async def _ask_any(self, api: Api[Req, Resp], request: Req) -> Resp:
        async def attempt() -> Resp:
            answer = await self._cluster.ask_any(api, request)
            _check(answer, api.name)
            return answer

        return await self._retrying(attempt)

    async def _ask_node(self, node_id: int, api: Api[Req, Resp], request: Req) -> Resp:
        async def attempt() -> Resp:
            node = await self._node(node_id)
            try:
                answer = await self._cluster.ask(node, api, request)
            except (ConnectionLostError, OSError):
                await self._cluster.refresh()  # a node that has left is said to be gone, and not asked again and again
                raise
            _check(answer, f"{api.name} of node {node_id}")
            return answer

        return await self._retrying(attempt)

    async def _ask_all(
        self, api: Api[Req, Resp], request: Req, nodes: Iterable[int] | None = None
    ) -> list[Resp]:
        """What nodes answer, those given or all. If one of all leaves meanwhile they are asked again: others have what
        it had."""
        if nodes is not None:
            return [await self._ask_node(node, api, request) for node in nodes]
        for left in reversed(range(LEAVING_MAX)):
            try:
                return [await self._ask_node(node, api, request) for node in await self._nodes()]
            except BrokerIdNotRegisteredError:
                if not left:
                    raise
        return []

    async def _node(self, node_id: int) -> Node:
        if node_id not in self._cluster.view.nodes:
            await self._cluster.refresh()
        node = self._cluster.view.nodes.get(node_id)
        if node is None:
            raise error_for(102, f"node {node_id}; there are {sorted(self._cluster.view.nodes)}")
        return node

    async def _nodes(self) -> list[int]:
        async def attempt() -> list[int]:
            return sorted((await self._cluster.refresh()).nodes)

        return await self._retrying(attempt)

    async def _ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        api: Api[Req, Resp],
        request: Req,
        read: Callable[[Resp, Node], T],
        at_most: int | None = None,
    ) -> T:
        """`read` raises what the answer refuses."""

        async def attempt() -> T:
            node = await self._cluster.coordinator(kind, key, timeout_s=self._limit_s)
            try:
                answer = await self._cluster.ask(node, api, request, at_most=at_most)
                _check(answer, key)
                return read(answer, node)
            except (KafkaError, ConnectionLostError, OSError) as error:
                if not isinstance(error, KafkaError) or error.retriable:
                    self._cluster.forget_coordinator(kind, key)
                raise

        return await self._retrying(attempt)

    async def _by_leader(
        self,
        places: Iterable[TopicPartition],
        ask: Callable[[Node, dict[str, list[int]]], Awaitable[Mapping[TopicPartition, T]]],
    ) -> dict[TopicPartition, T]:
        """Ask each leader for its partitions, and again for those whose leader changed."""
        found: dict[TopicPartition, T] = {}
        wanted = [TopicPartition(*place) for place in places]

        async def attempt() -> None:
            leaders: dict[Node, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
            for topic, partition in (place for place in wanted if place not in found):
                leaders[await self._cluster.leader(topic, partition)][topic].append(partition)
            for node, topics in leaders.items():
                try:
                    found.update(await ask(node, topics))
                except (KafkaError, ConnectionLostError, OSError):
                    for topic in topics:
                        self._cluster.forget(topic)
                    raise

        await self._retrying(attempt)
        return found


def _check(answer: Struct, where: str) -> None:
    """Raise the error of a whole answer."""
    code = getattr(answer, "error_code", 0)
    if code:
        message = getattr(answer, "error_message", None)
        raise error_for(code, f"{where}: {message}" if message else where)
