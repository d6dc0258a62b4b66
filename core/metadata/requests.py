"""What brokers ask of the active controller, and its answers. proto/controller.proto has the same names.

A request as a whole fails with an error (`KafkaError`); a request about several things answers for each of
them with an error code, 0 meaning done. An answer is sent only after the change it reports is committed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Generic, Self, TypeVar
from uuid import UUID

from rookery.core.metadata.acls import AclFilter
from rookery.core.metadata.image import (
    AccessControlEntry,
    Endpoint,
    FeatureRange,
    LeaderRecoveryState,
    QuotaEntity,
)
from rookery.core.types import NO_TOPIC_ID

UNKNOWN_EPOCH = -1
R = TypeVar("R")


class Request(Generic[R]):
    """Answered with an `R`. Asked again when no controller answers within seconds."""

    __slots__ = ()

    def identified(self, new_id: Callable[[], UUID]) -> Self:
        """The request with the ids that must be the same in all of its attempts."""
        return self


class Change(Request[R]):
    """What a user asked for. Its answer is waited for: a repeated request would mostly be refused, because its change
    was made already."""

    __slots__ = ()


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class ConfigOp(IntEnum):
    """How an option is changed, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


# -- brokers


@dataclass(frozen=True, slots=True)
class RegisterBrokerRequest(Request["RegisterBrokerReply"]):
    """`previous_broker_epoch` is what the clean-shutdown marker holds; -1 where there is none."""

    cluster_id: str
    broker_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    previous_broker_epoch: int = UNKNOWN_EPOCH


@dataclass(frozen=True, slots=True)
class RegisterBrokerReply:
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class HeartbeatRequest(Request["HeartbeatReply"]):
    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    caught_up: bool
    fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True)
class HoldSessionRequest(Request["HoldSessionReply"]):
    """Stays unanswered while the broker is connected: when it breaks off, the broker is gone."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class HoldSessionReply:
    """This node leads no longer: look for the new active controller."""


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRequest(Change["UnregisterBrokerReply"]):
    broker_id: int


@dataclass(frozen=True, slots=True)
class UnregisterBrokerReply:
    """Done."""


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsRequest(Request["AllocateProducerIdsReply"]):
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsReply:
    """Ids from `first` on, `count` of them, are this broker's to give away."""

    first: int
    count: int


# -- partitions


@dataclass(frozen=True, slots=True)
class IsrMember:
    broker_id: int
    broker_epoch: int = UNKNOWN_EPOCH


@dataclass(frozen=True, slots=True)
class IsrChange:
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    topic_id: UUID
    partition: int
    error: int = 0


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest(Request["AlterPartitionReply"]):
    broker_id: int
    broker_epoch: int
    partitions: tuple[IsrChange, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionReply:
    partitions: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class DirectoryAssignment:
    topic_id: UUID
    partition: int
    directory: UUID


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsReply"]):
    broker_id: int
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsReply:
    partitions: tuple[PartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class NamedPartition:
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class NamedPartitionAnswer:
    topic: str
    partition: int
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest(Change["ElectLeadersReply"]):
    election_type: ElectionType
    partitions: tuple[NamedPartition, ...] = ()
    all_partitions: bool = False


@dataclass(frozen=True, slots=True)
class ElectLeadersReply:
    partitions: tuple[NamedPartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class Reassignment:
    """`replicas` None cancels the one under way."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignPartitionsRequest(Change["ReassignPartitionsReply"]):
    partitions: tuple[Reassignment, ...]
    allow_replication_factor_change: bool = True


@dataclass(frozen=True, slots=True)
class ReassignPartitionsReply:
    partitions: tuple[NamedPartitionAnswer, ...]


@dataclass(frozen=True, slots=True)
class ListReassignmentsRequest(Request["ListReassignmentsReply"]):
    partitions: tuple[NamedPartition, ...] = ()
    all_partitions: bool = True


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ListReassignmentsReply:
    partitions: tuple[OngoingReassignment, ...]


# -- topics


@dataclass(frozen=True, slots=True)
class Assignment:
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 takes the cluster's default; with `assignments` both numbers must be -1. `topic_id` is drawn by the broker
    that asks: by it a repeated request recognises the topic that it created itself."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[Assignment, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    name: str
    topic_id: UUID = NO_TOPIC_ID
    error: int = 0
    message: str | None = None
    partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest(Change["CreateTopicsReply"]):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False

    def identified(self, new_id: Callable[[], UUID]) -> Self:
        """When the answer to an attempt is lost, the next attempt is answered for the topics that it made."""
        return replace(self, topics=tuple(replace(topic, topic_id=new_id()) for topic in self.topics))


@dataclass(frozen=True, slots=True)
class CreateTopicsReply:
    topics: tuple[TopicAnswer, ...]


@dataclass(frozen=True, slots=True)
class TopicReference:
    """A topic by name or by id."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest(Change["DeleteTopicsReply"]):
    topics: tuple[TopicReference, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopicsReply:
    topics: tuple[TopicAnswer, ...]


@dataclass(frozen=True, slots=True)
class TopicGrowth:
    """`count` is the number of partitions in all; `assignments` are those of the new ones, in order."""

    name: str
    count: int
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest(Change["CreatePartitionsReply"]):
    topics: tuple[TopicGrowth, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class CreatePartitionsReply:
    topics: tuple[TopicAnswer, ...]


# -- configuration


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    op: ConfigOp
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """Changes to one resource, all or none of them."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True)
class ConfigAnswer:
    resource_type: int
    resource_name: str
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest(Change["AlterConfigsReply"]):
    """With `replace`, options that are not named return to their defaults (the older AlterConfigs API)."""

    resources: tuple[ConfigAlteration, ...]
    validate_only: bool = False
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigsReply:
    resources: tuple[ConfigAnswer, ...]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """Level 0 removes the feature."""

    name: str
    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureAnswer:
    name: str
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateFeaturesRequest(Change["UpdateFeaturesReply"]):
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class UpdateFeaturesReply:
    features: tuple[FeatureAnswer, ...]


# -- client quotas


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """`value` None removes the limit."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """Changes to one entity, all or none of them."""

    entity: tuple[QuotaEntity, ...]
    changes: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True)
class QuotaAnswer:
    entity: tuple[QuotaEntity, ...]
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterClientQuotasRequest(Change["AlterClientQuotasReply"]):
    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AlterClientQuotasReply:
    entries: tuple[QuotaAnswer, ...]


# -- ACLs


@dataclass(frozen=True, slots=True)
class AclAnswer:
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreateAclsRequest(Change["CreateAclsReply"]):
    acls: tuple[AccessControlEntry, ...]


@dataclass(frozen=True, slots=True)
class CreateAclsReply:
    """One answer for each ACL; creating one that exists succeeds."""

    acls: tuple[AclAnswer, ...]


@dataclass(frozen=True, slots=True)
class AclDeletion:
    """What a filter found, and what was deleted."""

    acls: tuple[AccessControlEntry, ...] = ()
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteAclsRequest(Change["DeleteAclsReply"]):
    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True)
class DeleteAclsReply:
    filters: tuple[AclDeletion, ...]


# -- SCRAM credentials


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """Keys as the broker derived them; passwords do not come this far."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramAnswer:
    name: str
    error: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsRequest(Change["AlterUserScramCredentialsReply"]):
    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsReply:
    """One answer for each user."""

    users: tuple[ScramAnswer, ...]


# -- the quorum


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or an observer. Times are wall clock milliseconds; -1 stands for unknown or never."""

    id: int
    directory_id: UUID
    endpoint: str
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumView:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
