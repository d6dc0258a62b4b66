"""What the admin client takes and returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from rookery.client.types import TopicPartition
from rookery.core.metadata.acl_codes import AclOperation as AclOperation
from rookery.core.metadata.acl_codes import AclPermission
from rookery.core.metadata.acl_codes import PatternType as PatternType

Permission = AclPermission


class ResourceType(IntEnum):
    """What configurations and ACLs belong to."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    """For configurations. In ACLs the same number stands for the cluster."""
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP_CONFIG = 32


class ConfigSource(IntEnum):
    """Where the value of an option comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigEntry(NamedTuple):
    """One option of a topic, broker or group."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT


class PartitionDescription(NamedTuple):
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    id: UUID
    internal: bool
    partitions: Sequence[PartitionDescription]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)


class BrokerDescription(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: Sequence[BrokerDescription]


class GroupListing(NamedTuple):
    group_id: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    client_id: str
    host: str
    group_instance_id: str | None = None
    assignment: Sequence[TopicPartition] = ()
    target_assignment: Sequence[TopicPartition] | None = None
    """What the member is to have; None in the classic protocol."""
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: Sequence[MemberDescription]
    epoch: int | None = None
    """None in the classic protocol."""


class ListedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class RecordDescription(NamedTuple):
    """One record as its leader has it, with what its batch says."""

    offset: int
    timestamp: int
    log_append_time: bool
    """Whether `timestamp` is the leader's time, not the producer's."""
    leader_epoch: int
    base_offset: int
    last_offset: int
    producer_id: int
    transactional: bool
    control: bool
    key: bytes | None
    value_bytes: int


class Reassignment(NamedTuple):
    """A change of replicas that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaSize(NamedTuple):
    size: int
    offset_lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaSize]
    error: Exception | None = None


class TransactionListing(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    """-1 while none is open."""
    partitions: Sequence[TopicPartition]
    coordinator: int


class ProducerDescription(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int
    """-1 while none is open."""


class Acl(NamedTuple):
    """One rule: what `principal`, such as ``User:alice``, may do from `host`."""

    principal: str
    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    permission: Permission = Permission.ALLOW
    pattern_type: PatternType = PatternType.LITERAL
    host: str = "*"


class AclFilter(NamedTuple):
    """Which rules are meant; without arguments all of them."""

    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    permission: Permission = Permission.ANY
    pattern_type: PatternType = PatternType.ANY
    host: str | None = None


class ScramUser(NamedTuple):
    """A user's mechanisms, each with its iterations."""

    name: str
    credentials: Mapping[str, int]


QuotaEntity = Mapping[str, str | None]
"""Such as ``{"user": "alice", "client-id": None}``; None means the default of that kind."""


@dataclass(frozen=True, slots=True)
class Quota:
    entity: QuotaEntity
    values: Mapping[str, float]


class QuorumReplica(NamedTuple):
    id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumReplica]
    observers: Sequence[QuorumReplica]


@dataclass(frozen=True, slots=True)
class Features:
    """Levels of the cluster's features: those in force, and what the node asked can do."""

    finalized: Mapping[str, int] = field(default_factory=dict[str, int])
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
