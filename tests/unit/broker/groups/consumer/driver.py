"""Groups of the consumer protocol under test: requests in, answers out, time by hand; and a client that behaves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.consumer.member import TopicIdPartition, TopicIdPartitions, by_topic, partitions_of
from rookery.broker.groups.consumer.request import Client
from rookery.broker.groups.consumer.target import TopicInfo
from rookery.broker.groups.group_state import ConsumerOptions, GroupOptions
from rookery.broker.groups.state import GroupsState
from rookery.broker.groups.step import Instant, Step
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.broker.groups import driver
from tests.unit.broker.groups.driver import GROUP, Caller

AT_ONCE = GroupOptions(consumer=ConsumerOptions(assignment_interval_ms=0))
"""Targets are computed without a pause."""


def topic_id(number: int) -> UUID:
    return UUID(int=(number << 64) + number)


class FakeTopics:
    def __init__(self) -> None:
        self.known: dict[str, TopicInfo] = {}
        self._made = 0

    def make(self, name: str, partitions: int) -> UUID:
        self._made += 1
        self.known[name] = TopicInfo(topic_id(self._made), partitions)
        return self.known[name].id

    def grow(self, name: str, partitions: int) -> None:
        self.known[name] = TopicInfo(self.known[name].id, partitions)

    def topic(self, name: str) -> TopicInfo | None:
        return self.known.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return next((name for name, info in self.known.items() if info.id == topic_id), None)

    def names(self) -> Iterable[str]:
        return list(self.known)


@dataclass
class ConsumerDriver(driver.Driver):
    """All that the log holds is compared with what lives, after each batch."""

    options: GroupOptions = field(default_factory=lambda: AT_ONCE)
    cluster: FakeTopics = field(default_factory=FakeTopics)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.state = self._empty()

    def _empty(self) -> GroupsState:
        return GroupsState(self.options, self.new_id, self.cluster)

    def topic_id_of(self, topic: str, partition: int) -> UUID | None:
        info = self.cluster.topic(topic)
        return info.id if info is not None and partition < info.partitions else None

    def run(self, step: Step) -> None:
        written = bool(step.records) and self.fail_writes is None
        super().run(step)
        self._settle()
        if written:
            self.check_fold()

    def check_fold(self) -> None:
        """G12: what a coordinator that takes over would read is what this one has."""
        other = self._empty()
        for offset, record in enumerate(self.log):
            other.replay(record, offset)
        assert other.as_stored() == self.state.as_stored()

    def reload(self) -> GroupsState:
        self.forgot += 1
        self.state = self._empty()
        for offset, record in enumerate(self.log):
            self.state.replay(record, offset)
        self.run(self.state.loaded(self.now))
        return self.state

    def _settle(self) -> None:
        for group in self.state.groups.values():
            group.settle(self.now)

    def topics_changed(self) -> None:
        """Any topic may have."""
        for group in self.state.groups.values():
            if isinstance(group, ConsumerGroup):
                group.topics_changed(group.subscribed_topics)

    @property
    def group(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def state_name(self) -> str:
        return self.group.state.value

    def beat(
        self,
        member: str = "",
        epoch: int = 0,
        *,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Iterable[TopicIdPartition] | None = None,
        rebalance_ms: int = -1,
        instance: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        version: int = 1,
        group: str = GROUP,
        client: str = "client",
    ) -> Any:
        """The answer, or the code of the error."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id=id, partitions=indexes) for id, indexes in by_topic(owned).items()],
        )
        caller = Caller()
        try:
            self.run(self.state.consumer_heartbeat(request, version, Client(client, "/127.0.0.1"), caller, self.now))
        except KafkaError as error:
            return error.code
        return caller.response

    def join_new(self, member: str, *topics: str, **more: Any) -> Any:
        more.setdefault("rebalance_ms", 60_000)
        names: Sequence[str] | None = topics or None
        return self.beat(member, 0, topics=names, owned=(), **more)

    def pass_ms(self, ms: int) -> None:
        self.now = Instant(self.now.ms + ms, self.now.wall_ms + ms)


@dataclass
class Consumer:
    """A client that follows the rules: it has what it was given last, and says what it has."""

    driver: ConsumerDriver
    id: str
    topics: Sequence[str] = ("t",)
    regex: str | None = None
    instance: str | None = None
    rebalance_ms: int = 60_000
    epoch: int = 0
    owned: TopicIdPartitions = frozenset()
    told: TopicIdPartitions | None = None
    """What it said to have in its last heartbeat that was answered."""

    def beat(self, *, lose_answer: bool = False) -> Any:
        joins = self.epoch == 0
        everything = joins or self.told is None
        answer = self.driver.beat(
            self.id,
            self.epoch,
            topics=self.topics if everything and not self.regex else None,
            regex=self.regex if everything else None,
            owned=self.owned if everything or self.told != self.owned else None,
            rebalance_ms=self.rebalance_ms if everything else -1,
            instance=self.instance,
        )
        if lose_answer:
            self.told = None  # it says everything next time
            return answer
        self._hear(answer)
        return answer

    def _hear(self, answer: Any) -> None:
        if answer in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self.lost()
            return
        if not isinstance(answer, ConsumerGroupHeartbeatResponse):
            self.told = None
            return
        self.told = self.owned
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = partitions_of(answer.assignment.topic_partitions)

    def lost(self) -> None:
        """It has to give up everything and begin anew."""
        self.epoch, self.owned, self.told = 0, frozenset(), None

    def leave(self, *, for_a_while: bool = False) -> Any:
        answer = self.driver.beat(self.id, -2 if for_a_while else -1, instance=self.instance)
        self.lost()
        return answer


def settle(consumers: Sequence[Consumer], rounds: int = 6) -> None:
    """Everybody sends heartbeats until nothing moves any more, at most so many rounds."""
    for _ in range(rounds):
        before = [(consumer.epoch, consumer.owned) for consumer in consumers]
        for consumer in consumers:
            consumer.beat()
        if before == [(consumer.epoch, consumer.owned) for consumer in consumers]:
            return
