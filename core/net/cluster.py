"""A cluster as a client knows it: which nodes there are, who leads a partition, who coordinates a group.

What is known comes from the nodes' answers and is asked for again when it proves wrong. Requests go through `Peers`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

from rookery.core.errors import (
    ErrorCode,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for,
)
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.network import Address, Network
from rookery.core.net.peers import PeerLimits, Peers
from rookery.core.net.security import PLAINTEXT, Security
from rookery.core.wire.api import Api
from rookery.core.wire.apis.find_coordinator import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic, MetadataResponse
from rookery.core.wire.schema import Struct

RETRY_PAUSE_S = 0.1
LOOKUP_TIMEOUT_S = 10.0
"""Longest wait for a node that is asked for nodes, leaders or coordinators: another one can answer as well."""
UNKNOWN_TOPIC = (UnknownTopicOrPartitionError, UnknownTopicIdError)
"""The answer of a node that has not yet received the metadata of a partition it leads."""

Req = TypeVar("Req", bound=Struct)
Resp = TypeVar("Resp", bound=Struct)
T = TypeVar("T")


class BootstrapError(Exception):
    """None of the addresses could be reached; `tried` and the message have the reason of each."""

    def __init__(self, tried: Mapping[str, str]) -> None:
        reasons = "; ".join(f"{address}: {reason}" for address, reason in tried.items())
        super().__init__(f"no node could be reached; {reasons}")
        self.tried = dict(tried)


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def endpoint(self) -> Address:
        return self.host, self.port


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition as reported by a node; `leader` is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    id: UUID
    internal: bool
    partitions: Mapping[int, PartitionView]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster as reported by one node."""

    cluster_id: str = ""
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    """Requested topics that the node cannot describe, with the error code."""


def metadata_of(response: MetadataResponse) -> ClusterMetadata:
    """The answer to a Metadata request as values."""
    topics, errors = {}, {}
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code:
            errors[name] = topic.error_code
            continue
        partitions = {
            p.partition_index: PartitionView(
                index=p.partition_index,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                offline=tuple(p.offline_replicas),
            )
            for p in topic.partitions
        }
        topics[name] = TopicView(name, topic.topic_id, topic.is_internal, partitions)
    nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
    return ClusterMetadata(response.cluster_id or "", response.controller_id, nodes, topics, errors)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """``host:port,host:port`` as addresses."""
    addresses = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise ValueError(f"{part!r} is not host:port")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("at least one host:port is needed")
    return addresses


class CoordinatorKind(IntEnum):
    """What a coordinator is looked up for."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Cluster:
    """Connections to a cluster and the newest metadata of it."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "rookery",
        network: Network | None = None,
        security: Security = PLAINTEXT,
        limits: PeerLimits | None = None,
        request_timeout_s: float = 30.0,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self.separate_peers = partial(Peers, client_id, network=network, security=security, limits=limits)
        """Makes further connections for whoever lets requests wait at the nodes; who makes them closes them."""
        self.peers = self.separate_peers()
        self._turn = 0
        self._coordinators: dict[tuple[CoordinatorKind, str], Node] = {}
        self.request_timeout_s = request_timeout_s
        self.on_retry: Callable[[Exception], None] = lambda _error: None
        """Called with each failure that is retried."""
        self.view = ClusterMetadata()

    async def __aenter__(self) -> "Cluster":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self.peers.close()

    async def refresh(self, topics: Iterable[str] | None = (), *, create: bool = False) -> ClusterMetadata:
        """Ask for the nodes and some topics (None: all); the view keeps what else was known of topics."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        response = await self.ask_any(
            METADATA,
            MetadataRequest(topics=wanted, allow_auto_topic_creation=create),
            timeout_s=LOOKUP_TIMEOUT_S,
        )
        received = metadata_of(response)
        known = {} if topics is None else {n: t for n, t in self.view.topics.items() if n not in received.errors}
        newest = {name: _newest(self.view.topics.get(name), topic) for name, topic in received.topics.items()}
        self.view = ClusterMetadata(
            received.cluster_id, received.controller_id, received.nodes, {**known, **newest}, received.errors
        )
        return self.view

    async def topic(self, name: str, *, create: bool = False, timeout_s: float = 30.0) -> TopicView:
        """A topic's view, asked for if it is not known; waits while it is being created."""
        known = self.view.topics.get(name)
        if known is not None:
            return known

        async def attempt() -> TopicView:
            view = await self.refresh([name], create=create)
            if name in view.errors:
                raise error_for(view.errors[name], f"topic {name!r}")
            return view.topics[name]

        return await self.retrying(attempt, timeout_s, also=(UnknownTopicOrPartitionError,) if create else ())

    async def partition(self, topic: str, index: int) -> PartitionView:
        """A partition's view; an error if there is no such partition."""
        view = (await self.topic(topic)).partitions.get(index)
        if view is None:
            self.forget(topic)  # the node that answered was behind; the next look-up asks again
            raise UnknownTopicOrPartitionError(f"{topic!r} has no partition {index}")
        return view

    async def leader(self, topic: str, partition: int, *, timeout_s: float = 30.0) -> Node:
        """The node that leads a partition; waits while there is none."""

        async def attempt() -> Node:
            view = await self.partition(topic, partition)
            node = self.view.nodes.get(view.leader)
            if node is None:
                self.forget(topic)
                raise LeaderNotAvailableError(f"{topic}-{partition} has no leader now")
            return node

        return await self.retrying(attempt, timeout_s)

    def forget(self, topic: str) -> None:
        """The known metadata of a topic proved wrong: the next lookup asks again, and another node."""
        self.turn()
        self.view = ClusterMetadata(
            self.view.cluster_id,
            self.view.controller_id,
            self.view.nodes,
            {name: view for name, view in self.view.topics.items() if name != topic},
        )

    def turn(self) -> None:
        """Ask another node next: the last one may know less than others, or does not answer."""
        self._turn += 1

    async def ask(
        self,
        node: Node,
        api: Api[Req, Resp],
        request: Req,
        *,
        at_most: int | None = None,
        timeout_s: float | None = None,
    ) -> Resp:
        """Ask one node, in the highest version both speak."""
        timeout_s = timeout_s or self.request_timeout_s
        return await self.peers.ask(node.endpoint, api, request, timeout_s=timeout_s, at_most=at_most)

    async def ask_any(
        self, api: Api[Req, Resp], request: Req, *, at_most: int | None = None, timeout_s: float | None = None
    ) -> Resp:
        """Ask the first node that answers: known ones first, in turn, then the bootstrap addresses."""
        timeout_s = min(timeout_s or self.request_timeout_s, self.request_timeout_s)
        known = [node.endpoint for node in self.view.nodes.values()]
        first = self._turn % (len(known) or 1)
        tried: dict[str, str] = {}
        for address in dict.fromkeys([*known[first:], *known[:first], *self._bootstrap]):
            try:
                return await self.peers.ask(address, api, request, timeout_s=timeout_s, at_most=at_most)
            except (OSError, ConnectionLostError) as error:
                host, port = address
                tried[f"{host}:{port}"] = str(error)
                self.turn()
        raise BootstrapError(tried)

    async def coordinator(self, kind: CoordinatorKind, key: str, *, timeout_s: float = 30.0) -> Node:
        """The node that coordinates a group, a transactional id or a share partition; waits while there is none."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known

        async def attempt() -> Node:
            request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
            found = _only(await self.ask_any(FIND_COORDINATOR, request, timeout_s=LOOKUP_TIMEOUT_S))
            check(found.error_code, f"the coordinator of {key!r}", found.error_message)
            return Node(found.node_id, found.host, found.port)

        node = self._coordinators[kind, key] = await self.retrying(attempt, timeout_s)
        return node

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """It answered that it is not the coordinator, or did not answer: the next lookup asks again."""
        self._coordinators.pop((kind, key), None)
        self.turn()

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        timeout_s: float,
        also: Sequence[type[KafkaError]] = (),
    ) -> T:
        """Repeat while the failure is one that passes by itself, for at most `timeout_s`."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            try:
                return await attempt()
            except (KafkaError, ConnectionLostError, OSError, BootstrapError) as error:
                passes = (
                    not isinstance(error, KafkaError) or isinstance(error, tuple(also)) or retriable(error)
                )
                if not passes or asyncio.get_running_loop().time() + RETRY_PAUSE_S > deadline:
                    raise
                self.on_retry(error)
            await asyncio.sleep(RETRY_PAUSE_S)


def _newest(known: TopicView | None, received: TopicView) -> TopicView:
    """A topic as received, but for partitions of which a later leader is known: a node that is cut off from the others
    goes on naming the leader before."""
    if known is None or known.id != received.id:
        return received
    partitions = {
        index: later
        if (later := known.partitions.get(index)) is not None and later.leader_epoch > view.leader_epoch >= 0
        else view
        for index, view in received.partitions.items()
    }
    return TopicView(received.name, received.id, received.internal, partitions)


def _only(answer: FindCoordinatorResponse) -> Coordinator:
    """The answer for the one key that was asked for, in whichever version it came."""
    if answer.coordinators:
        return answer.coordinators[0]
    return Coordinator(
        key="",
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )


def retriable(error: KafkaError) -> bool:
    """Whether to try again; a topic that does not exist is not waited for unless the caller says so."""
    return error.code.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def check(code: int, where: str, message: Any = None) -> None:
    """Raise the typed error of a response's code; nothing for 0."""
    if code:
        raise error_for(code, f"{where}: {message}" if message else where)
