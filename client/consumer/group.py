"""The task that keeps the membership of a group: it carries out the steps of the state machine, apart from whatever the
user does between polls.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from rookery.client.consumer.classic import ClassicMembership
from rookery.client.consumer.kip848 import ConsumerMembership
from rookery.client.consumer.membership import (
    FOREVER,
    LOOK_ELSEWHERE,
    Ask,
    Learn,
    Membership,
    Rebalance,
    Wait,
)
from rookery.client.consumer.metadata import UNREACHABLE, Metadata
from rookery.client.consumer.signal import Signal
from rookery.client.types import GroupMetadata
from rookery.core.errors import ErrorCode, GroupIdNotFoundError, KafkaError, UnsupportedVersionError
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.cluster import Cluster, CoordinatorKind, Node
from rookery.core.net.peers import Peers
from rookery.core.wire.apis.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic

log = get_logger("client.consumer")

HEARTBEAT_TIMEOUT_S = 5.0
"""A coordinator that does not answer a heartbeat for so long is looked for again."""
AT_ONCE = frozenset({ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS})
"""Codes after which the next step need not wait."""

Make = Callable[[str], Membership]


class Group:
    """`protocols` are tried in their order; `make` makes the membership of one."""

    def __init__(
        self,
        cluster: Cluster,
        peers: Peers,
        metadata: Metadata,
        group_id: str,
        instance_id: str | None,
        protocols: tuple[str, ...],
        make: Make,
        *,
        backoff: BackoffSettings,
        rng: Random,
        slow_timeout_s: float,
        on_attention: Callable[[], None],
    ) -> None:
        self.id = group_id
        self._instance_id = instance_id
        self._cluster = cluster
        self._peers = peers
        self._metadata = metadata
        self._protocols = protocols
        self._make = make
        self._backoff = Backoff(backoff, rng)
        self._slow_timeout_s = slow_timeout_s
        self._on_attention = on_attention
        self._changed = Signal()
        self._subscription: tuple[frozenset[str], str | None] | None = None
        self.membership: Membership | None = None
        self.protocol = ""
        self._failure: KafkaError | None = None

    # --- for the consumer -----------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], pattern: str | None) -> None:
        self._subscription = (topics, pattern)
        if self.membership is not None:
            self.membership.subscribe(topics, pattern)
        self._changed.notify()

    @property
    def pending(self) -> Rebalance | None:
        return None if self.membership is None else self.membership.pending

    @property
    def failure(self) -> KafkaError | None:
        """What the user has to know: nothing more is done for the group."""
        return self._failure if self.membership is None else self.membership.failure or self._failure

    @property
    def member(self) -> GroupMetadata | None:
        """For commits; None while not a member."""
        membership = self.membership
        if membership is None or membership.generation < 0:
            return None
        return GroupMetadata(self.id, membership.generation, membership.member_id, self._instance_id)

    def rebalanced(self, done: Rebalance) -> None:
        if self.membership is not None:
            self.membership.rebalanced(done, self._now())
        self._changed.notify()

    def expire(self) -> None:
        if self.membership is not None:
            self.membership.expire(self._now())
            self._changed.notify()

    def topics_known(self) -> None:
        """Metadata was refreshed."""
        if self.membership is not None:
            self.membership.learned(self._metadata.counts(), self._now())
            self._changed.notify()

    async def leave(self, timeout_s: float) -> None:
        """Leave for good, if the coordinator answers in time. `run` has ended, or is about to find nothing to do."""
        self._subscription = None
        request = None if self.membership is None else self.membership.leave()
        if request is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                node = await self._coordinator()
                await self._peers.ask(
                    node.endpoint, request.api, request.request, timeout_s=timeout_s, at_most=request.at_most
                )
        except (TimeoutError, KafkaError, *UNREACHABLE) as error:
            log.info("group.leave_failed", group=self.id, error=str(error))  # the session's end does the same

    # --- the task -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            membership = self.membership
            if self._subscription is None or self._failure is not None:
                await self._changed.wait()
                continue
            try:
                if membership is None:
                    await self._choose(self._subscription)
                    continue
                if isinstance(membership, ConsumerMembership) and membership.unnamed:
                    await self._find_names(membership)
                    self._look(membership)  # with names there may be partitions to take: not only after the next step
                await self._step(membership)
            except (KafkaError, *UNREACHABLE) as error:
                self._forget_coordinator()
                if membership is not None:
                    membership.failed(self._now())
                if isinstance(error, KafkaError) and not error.retriable:
                    self._failure = error
                    self._on_attention()
                    continue
                log.debug("group.retried", group=self.id, error=str(error))
                await asyncio.sleep(self._backoff.failed())
            if membership is not None:
                self._look(membership)

    async def _step(self, membership: Membership) -> None:
        match membership.next_step(self._now()):
            case Wait(until):
                await self._changed.wait(None if until == FOREVER else until - self._now())
            case Learn(topics):
                await self._metadata.refresh(topics)
                membership.learned(self._metadata.counts(), self._now())
            case Ask() as ask:
                await self._ask(ask)

    async def _ask(self, ask: Ask) -> None:
        node = await self._coordinator()
        answer: Any = await self._peers.ask(
            node.endpoint,
            ask.api,
            ask.request,
            timeout_s=self._slow_timeout_s if ask.slow else HEARTBEAT_TIMEOUT_S,
            at_most=ask.at_most,
            at_least=ask.at_least,
        )
        code = answer.error_code
        ask.answered(answer, self._now())
        if code in LOOK_ELSEWHERE:
            self._forget_coordinator()
        if code in AT_ONCE:
            self._backoff.succeeded()
        else:
            log.info("group.refused", group=self.id, request=ask.api.name, code=code)
            await asyncio.sleep(self._backoff.failed())

    def _look(self, membership: Membership) -> None:
        """After every step: does the user have to know?"""
        failure = membership.failure
        if isinstance(failure, GroupIdNotFoundError) and self._falls_back:
            self.membership = None  # a classic group that the brokers do not convert
            self._protocols = ("classic",)
            return
        if failure is not None or membership.pending is not None:
            self._on_attention()

    @property
    def _falls_back(self) -> bool:
        return self.protocol == "consumer" and "classic" in self._protocols

    async def _choose(self, subscription: tuple[frozenset[str], str | None]) -> None:
        """The first protocol that the coordinator speaks."""
        protocol = self._protocols[0]
        if protocol == "consumer":
            node = await self._coordinator()
            connection = await self._peers.connection(node.endpoint)
            if CONSUMER_GROUP_HEARTBEAT.key not in connection.versions:
                if "classic" not in self._protocols:
                    message = f"{node.address} does not serve group.protocol=consumer"
                    raise UnsupportedVersionError(message)
                protocol = "classic"
        self.protocol = protocol
        self.membership = self._make(protocol)
        self.membership.subscribe(*subscription)
        log.info("group.joining", group=self.id, protocol=protocol)

    async def _find_names(self, membership: ConsumerMembership) -> None:
        """An assignment has topic ids; a topic may be new to us."""
        known = self._metadata.names()
        missing = [id for id in membership.unnamed if id not in known]
        if missing:
            wanted = [MetadataRequestTopic(topic_id=id, name=None) for id in missing]
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            answer = await self._cluster.ask_any(METADATA, request)
            known |= {
                topic.topic_id: topic.name for topic in answer.topics if topic.name and not topic.error_code
            }
        membership.name({id: name for id, name in known.items() if id in membership.unnamed})
        if membership.unnamed:
            await asyncio.sleep(self._backoff.failed())  # the node's metadata does not have the topic yet

    async def _coordinator(self) -> Node:
        return await self._cluster.coordinator(CoordinatorKind.GROUP, self.id)

    def _forget_coordinator(self) -> None:
        self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.id)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


__all__ = ["ClassicMembership", "ConsumerMembership", "Group"]
