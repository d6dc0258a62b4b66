"""The cluster as everybody agrees on it at one offset of the metadata log: an immutable value.

Collections are persistent hash maps, so an image and its successor share all that did not change: a change to one
partition copies a few nodes on the way to it, however many partitions there are. The holder of an image may keep it,
compare it and hand it to another task. New images come from delta.py alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeVar
from uuid import UUID

from immutables import Map

from rookery.core.types import NO_NODE

K = TypeVar("K")
V = TypeVar("V")

UNASSIGNED_DIRECTORY = UUID(int=0)
"""The broker has yet to say in which directory it keeps the replica."""
LOST_DIRECTORY = UUID(int=1)
"""The replica's directory is gone or failed."""


class ResourceType(IntEnum):
    """What a configuration belongs to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class LeaderRecoveryState(IntEnum):
    RECOVERED = 0
    RECOVERING = 1
    """The leader was elected uncleanly and has yet to make its log consistent."""


class Endpoint(NamedTuple):
    """Where one listener of a broker is reached."""

    name: str
    host: str
    port: int
    security_protocol: str


class FeatureRange(NamedTuple):
    """The versions of a feature that a broker understands."""

    name: str
    min_version: int
    max_version: int


class QuotaEntity(NamedTuple):
    """Part of what a quota applies to; no name means the default for that type."""

    type: str
    name: str | None


class ConfigResource(NamedTuple):
    type: int
    name: str


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One broker process. `epoch`, the offset of its registration, distinguishes it from its predecessors."""

    id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    features: tuple[FeatureRange, ...] = ()
    directories: tuple[UUID, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False

    @property
    def active(self) -> bool:
        """May lead partitions and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)

    def has_online_directory(self, directory: UUID) -> bool:
        """Whether a replica in `directory` can be served; an unassigned one counts as online."""
        if directory == UNASSIGNED_DIRECTORY:
            return True
        return directory != LOST_DIRECTORY and directory in self.directories


class Partition(NamedTuple):
    """Replicas of one partition. `elr`: eligible leader replicas, which hold all committed data though they are out of
    sync; they may lead when no replica in sync can. `directories` is empty (none assigned) or has one entry per
    replica: ask `directory`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[UUID, ...] = ()
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_NODE

    @property
    def leader_reported(self) -> bool:
        """Whether the leader has reported the directory of its replica. Until then the leader of a new partition is
        only planned, and a client that asks it finds nothing."""
        return self.directory(self.leader) != UNASSIGNED_DIRECTORY

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_NODE

    @property
    def reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory(self, broker_id: int) -> UUID:
        """Where `broker_id` keeps its replica."""
        if broker_id in self.replicas and len(self.directories) == len(self.replicas):
            return self.directories[self.replicas.index(broker_id)]
        return UNASSIGNED_DIRECTORY

    def directories_of(self, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
        """`directories` for another set of replicas: known ones keep theirs, new ones have none yet."""
        if replicas == self.replicas:
            return self.directories
        moved = tuple(self.directory(broker) for broker in replicas)
        return () if all(directory == UNASSIGNED_DIRECTORY for directory in moved) else moved


def metric_name(topic: str) -> str:
    """How metrics write a topic's name: names must differ in this form, too."""
    return topic.replace(".", "_")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: UUID
    partitions: Map[int, Partition] = field(default_factory=Map)

    @property
    def metric_name(self) -> str:
        return metric_name(self.name)

    def in_order(self) -> Iterator[tuple[int, Partition]]:
        """Partitions by ascending number."""
        for index in sorted(self.partitions):
            yield index, self.partitions[index]


@dataclass(frozen=True, slots=True)
class AccessControlEntry:
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is kept of a user's password. A record with an empty user name holds the secret from which the credentials
    shown for unknown users are made."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


NO_CONFIG: Map[str, str] = Map()


@dataclass(frozen=True, slots=True)
class Image:
    """`offset` is the last record folded in (-1: none), `epoch` the quorum epoch that wrote it. `topic_ids` and
    `metric_names` (metric name → topic) are indexes into `topics`."""

    offset: int = -1
    epoch: int = 0
    brokers: Map[int, BrokerRegistration] = field(default_factory=Map)
    topics: Map[UUID, Topic] = field(default_factory=Map)
    topic_ids: Map[str, UUID] = field(default_factory=Map)
    metric_names: Map[str, str] = field(default_factory=Map)
    configs: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)
    features: Map[str, int] = field(default_factory=Map)
    next_producer_id: int = 0
    acls: Map[UUID, AccessControlEntry] = field(default_factory=Map)
    quotas: Map[tuple[QuotaEntity, ...], Map[str, float]] = field(default_factory=Map)
    credentials: Map[tuple[str, int], ScramCredential] = field(default_factory=Map)

    def topic(self, name: str) -> Topic | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: UUID, index: int) -> Partition | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def partitions(self) -> Iterator[tuple[Topic, int, Partition]]:
        """Every partition of the cluster, in no particular order."""
        for topic in self.topics.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def config(self, type: int, name: str) -> Map[str, str]:
        """The overrides of one resource, without defaults."""
        return self.configs.get(ConfigResource(type, name), NO_CONFIG)

    def topic_config(self, name: str) -> Map[str, str]:
        return self.config(ResourceType.TOPIC, name)

    def active(self, broker_id: int) -> bool:
        """Whether the broker may lead partitions and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def can_serve(self, partition: Partition, broker_id: int) -> bool:
        """Whether the broker is active and the directory of its replica is online."""
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.active:
            return False
        return not partition.directories or broker.has_online_directory(partition.directory(broker_id))


EMPTY = Image()


class PartitionChange(NamedTuple):
    """One partition that was created (`before` is None), changed or removed (`after` is None)."""

    topic: str
    topic_id: UUID
    partition: int
    before: Partition | None
    after: Partition | None

    @property
    def leader_changed(self) -> bool:
        """There is another leader, or the same one in a new epoch."""
        if self.before is None or self.after is None:
            return self.after is not None
        return self.before.leader_epoch != self.after.leader_epoch


@dataclass(frozen=True, slots=True)
class Changes:
    """From `before` to `after`. Everything is sorted (by id, by topic name and number), so that followers act
    in the same order everywhere. A name deleted and created anew is one removed and one created topic."""

    before: Image
    after: Image
    brokers: tuple[int, ...] = ()
    topics_created: tuple[Topic, ...] = ()
    topics_removed: tuple[Topic, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    configs: tuple[ConfigResource, ...] = ()
    acls: tuple[UUID, ...] = ()

    @property
    def quotas_changed(self) -> bool:
        return self.before.quotas is not self.after.quotas and self.before.quotas != self.after.quotas
