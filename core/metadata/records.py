"""The records of the metadata log as values.

A record says what changed, never how the change was decided: replaying the same records gives the same image
on every node. Fields with a default of None mean "unchanged" in a change record, "not set" elsewhere. The
bytes are codec.py's business; proto/metadata.proto has the same names.
"""

from dataclasses import dataclass, field
from uuid import UUID

from rookery.core.metadata.image import Endpoint, FeatureRange, QuotaEntity

NodeIds = tuple[int, ...]
Uuids = tuple[UUID, ...]

OFFSET_IS_EPOCH = -1
"""Broker epoch of a registration in the log: the offset of the record itself."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the metadata log. Its versions are declared in features.py."""


@dataclass(frozen=True, slots=True)
class NoOpRecord(Record):
    """Moves the log forward and nothing else."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord(Record):
    broker_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: Uuids = ()
    broker_epoch: int = OFFSET_IS_EPOCH


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord(Record):
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord(Record):
    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: Uuids | None = None


@dataclass(frozen=True, slots=True)
class TopicRecord(Record):
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord(Record):
    topic_id: UUID
    partition: int
    replicas: NodeIds
    isr: NodeIds
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: Uuids = ()
    leader_recovery_state: int = 0
    removing_replicas: NodeIds = ()
    adding_replicas: NodeIds = ()
    elr: NodeIds = ()
    last_known_elr: NodeIds = ()


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord(Record):
    """Raises the partition epoch by one, and the leader epoch by one where it names a leader."""

    topic_id: UUID
    partition: int
    isr: NodeIds | None = None
    leader: int | None = None
    replicas: NodeIds | None = None
    removing_replicas: NodeIds | None = None
    adding_replicas: NodeIds | None = None
    leader_recovery_state: int | None = None
    directories: Uuids | None = None
    elr: NodeIds | None = None
    last_known_elr: NodeIds | None = None


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord(Record):
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class ConfigRecord(Record):
    resource_type: int
    resource_name: str
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(Record):
    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord(Record):
    name: str
    level: int


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord(Record):
    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord(Record):
    id: UUID


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord(Record):
    entity: tuple[QuotaEntity, ...]
    key: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord(Record):
    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord(Record):
    name: str
    mechanism: int
