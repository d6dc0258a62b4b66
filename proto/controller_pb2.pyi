from rookery.proto import metadata_pb2 as _metadata_pb2
from rookery.proto import raft_pb2 as _raft_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Failure(_message.Message):
    __slots__ = ("code", "message", "leader")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    leader: _raft_pb2.Leader
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., leader: _Optional[_Union[_raft_pb2.Leader, _Mapping]] = ...) -> None: ...

class RegisterBrokerRequest(_message.Message):
    __slots__ = ("caller", "cluster_id", "broker_id", "incarnation_id", "endpoints", "features", "rack", "log_dirs", "previous_broker_epoch")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_ID_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    cluster_id: str
    broker_id: int
    incarnation_id: bytes
    endpoints: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.Endpoint]
    features: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.FeatureRange]
    rack: str
    log_dirs: _containers.RepeatedScalarFieldContainer[bytes]
    previous_broker_epoch: int
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., incarnation_id: _Optional[bytes] = ..., endpoints: _Optional[_Iterable[_Union[_metadata_pb2.Endpoint, _Mapping]]] = ..., features: _Optional[_Iterable[_Union[_metadata_pb2.FeatureRange, _Mapping]]] = ..., rack: _Optional[str] = ..., log_dirs: _Optional[_Iterable[bytes]] = ..., previous_broker_epoch: _Optional[int] = ...) -> None: ...

class RegisterBrokerReply(_message.Message):
    __slots__ = ("failure", "broker_epoch")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    broker_epoch: int
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("caller", "broker_id", "broker_epoch", "metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    METADATA_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WANT_FENCE_FIELD_NUMBER: _ClassVar[int]
    WANT_SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_LOG_DIRS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., metadata_offset: _Optional[int] = ..., want_fence: _Optional[bool] = ..., want_shut_down: _Optional[bool] = ..., offline_log_dirs: _Optional[_Iterable[bytes]] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("failure", "caught_up", "fenced", "should_shut_down")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    FENCED_FIELD_NUMBER: _ClassVar[int]
    SHOULD_SHUT_DOWN_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    caught_up: bool
    fenced: bool
    should_shut_down: bool
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., caught_up: _Optional[bool] = ..., fenced: _Optional[bool] = ..., should_shut_down: _Optional[bool] = ...) -> None: ...

class HoldSessionRequest(_message.Message):
    __slots__ = ("caller", "broker_id", "broker_epoch")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    broker_id: int
    broker_epoch: int
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class HoldSessionReply(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class UnregisterBrokerRequest(_message.Message):
    __slots__ = ("caller", "broker_id")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    broker_id: int
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., broker_id: _Optional[int] = ...) -> None: ...

class UnregisterBrokerReply(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class AllocateProducerIdsRequest(_message.Message):
    __slots__ = ("caller", "broker_id", "broker_epoch")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    broker_id: int
    broker_epoch: int
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class AllocateProducerIdsReply(_message.Message):
    __slots__ = ("failure", "first", "count")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    first: int
    count: int
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class IsrMember(_message.Message):
    __slots__ = ("broker_id", "broker_epoch")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ...) -> None: ...

class IsrChange(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "partition_epoch", "new_isr", "leader_recovery_state")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NEW_ISR_FIELD_NUMBER: _ClassVar[int]
    LEADER_RECOVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: _containers.RepeatedCompositeFieldContainer[IsrMember]
    leader_recovery_state: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., partition_epoch: _Optional[int] = ..., new_isr: _Optional[_Iterable[_Union[IsrMember, _Mapping]]] = ..., leader_recovery_state: _Optional[int] = ...) -> None: ...

class PartitionAnswer(_message.Message):
    __slots__ = ("topic_id", "partition", "error")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    error: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., error: _Optional[int] = ...) -> None: ...

class AlterPartitionRequest(_message.Message):
    __slots__ = ("caller", "broker_id", "broker_epoch", "partitions")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[IsrChange]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[IsrChange, _Mapping]]] = ...) -> None: ...

class AlterPartitionReply(_message.Message):
    __slots__ = ("failure", "partitions")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionAnswer, _Mapping]]] = ...) -> None: ...

class DirectoryAssignment(_message.Message):
    __slots__ = ("topic_id", "partition", "directory")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    directory: bytes
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., directory: _Optional[bytes] = ...) -> None: ...

class AssignReplicasToDirsRequest(_message.Message):
    __slots__ = ("caller", "broker_id", "broker_epoch", "assignments")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    broker_id: int
    broker_epoch: int
    assignments: _containers.RepeatedCompositeFieldContainer[DirectoryAssignment]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[DirectoryAssignment, _Mapping]]] = ...) -> None: ...

class AssignReplicasToDirsReply(_message.Message):
    __slots__ = ("failure", "partitions")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[PartitionAnswer, _Mapping]]] = ...) -> None: ...

class NamedPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class NamedPartitionAnswer(_message.Message):
    __slots__ = ("topic", "partition", "error", "message")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    error: int
    message: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("caller", "election_type", "partitions", "all_partitions")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ELECTION_TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    election_type: int
    partitions: _containers.RepeatedCompositeFieldContainer[NamedPartition]
    all_partitions: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., election_type: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[NamedPartition, _Mapping]]] = ..., all_partitions: _Optional[bool] = ...) -> None: ...

class ElectLeadersReply(_message.Message):
    __slots__ = ("failure", "partitions")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    partitions: _containers.RepeatedCompositeFieldContainer[NamedPartitionAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[NamedPartitionAnswer, _Mapping]]] = ...) -> None: ...

class Reassignment(_message.Message):
    __slots__ = ("topic", "partition", "replicas")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    replicas: _metadata_pb2.NodeIds
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Union[_metadata_pb2.NodeIds, _Mapping]] = ...) -> None: ...

class ReassignPartitionsRequest(_message.Message):
    __slots__ = ("caller", "partitions", "allow_replication_factor_change")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_REPLICATION_FACTOR_CHANGE_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    partitions: _containers.RepeatedCompositeFieldContainer[Reassignment]
    allow_replication_factor_change: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[Reassignment, _Mapping]]] = ..., allow_replication_factor_change: _Optional[bool] = ...) -> None: ...

class ReassignPartitionsReply(_message.Message):
    __slots__ = ("failure", "partitions")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    partitions: _containers.RepeatedCompositeFieldContainer[NamedPartitionAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[NamedPartitionAnswer, _Mapping]]] = ...) -> None: ...

class ListReassignmentsRequest(_message.Message):
    __slots__ = ("caller", "partitions", "all_partitions")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    partitions: _containers.RepeatedCompositeFieldContainer[NamedPartition]
    all_partitions: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[NamedPartition, _Mapping]]] = ..., all_partitions: _Optional[bool] = ...) -> None: ...

class OngoingReassignment(_message.Message):
    __slots__ = ("topic", "partition", "replicas", "adding_replicas", "removing_replicas")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    ADDING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REMOVING_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    adding_replicas: _containers.RepeatedScalarFieldContainer[int]
    removing_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., adding_replicas: _Optional[_Iterable[int]] = ..., removing_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class ListReassignmentsReply(_message.Message):
    __slots__ = ("failure", "partitions")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    partitions: _containers.RepeatedCompositeFieldContainer[OngoingReassignment]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[OngoingReassignment, _Mapping]]] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("partition", "replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class ConfigEntry(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class NewTopic(_message.Message):
    __slots__ = ("name", "partitions", "replication_factor", "assignments", "configs", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    replication_factor: int
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    configs: _containers.RepeatedCompositeFieldContainer[ConfigEntry]
    topic_id: bytes
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., configs: _Optional[_Iterable[_Union[ConfigEntry, _Mapping]]] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class TopicAnswer(_message.Message):
    __slots__ = ("name", "topic_id", "error", "message", "partitions", "replication_factor")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FACTOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    error: int
    message: str
    partitions: int
    replication_factor: int
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., partitions: _Optional[int] = ..., replication_factor: _Optional[int] = ...) -> None: ...

class CreateTopicsRequest(_message.Message):
    __slots__ = ("caller", "topics", "validate_only")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    topics: _containers.RepeatedCompositeFieldContainer[NewTopic]
    validate_only: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[NewTopic, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class CreateTopicsReply(_message.Message):
    __slots__ = ("failure", "topics")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    topics: _containers.RepeatedCompositeFieldContainer[TopicAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicAnswer, _Mapping]]] = ...) -> None: ...

class TopicReference(_message.Message):
    __slots__ = ("name", "topic_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    topic_id: bytes
    def __init__(self, name: _Optional[str] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class DeleteTopicsRequest(_message.Message):
    __slots__ = ("caller", "topics")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    topics: _containers.RepeatedCompositeFieldContainer[TopicReference]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicReference, _Mapping]]] = ...) -> None: ...

class DeleteTopicsReply(_message.Message):
    __slots__ = ("failure", "topics")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    topics: _containers.RepeatedCompositeFieldContainer[TopicAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicAnswer, _Mapping]]] = ...) -> None: ...

class TopicGrowth(_message.Message):
    __slots__ = ("name", "count", "assignments")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ...) -> None: ...

class CreatePartitionsRequest(_message.Message):
    __slots__ = ("caller", "topics", "validate_only")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    topics: _containers.RepeatedCompositeFieldContainer[TopicGrowth]
    validate_only: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicGrowth, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class CreatePartitionsReply(_message.Message):
    __slots__ = ("failure", "topics")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    topics: _containers.RepeatedCompositeFieldContainer[TopicAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[TopicAnswer, _Mapping]]] = ...) -> None: ...

class ConfigChange(_message.Message):
    __slots__ = ("name", "op", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    op: int
    value: str
    def __init__(self, name: _Optional[str] = ..., op: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...

class ConfigAlteration(_message.Message):
    __slots__ = ("resource_type", "resource_name", "changes")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    changes: _containers.RepeatedCompositeFieldContainer[ConfigChange]
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[ConfigChange, _Mapping]]] = ...) -> None: ...

class ConfigAnswer(_message.Message):
    __slots__ = ("resource_type", "resource_name", "error", "message")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    error: int
    message: str
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class AlterConfigsRequest(_message.Message):
    __slots__ = ("caller", "resources", "validate_only", "replace")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    resources: _containers.RepeatedCompositeFieldContainer[ConfigAlteration]
    validate_only: bool
    replace: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[ConfigAlteration, _Mapping]]] = ..., validate_only: _Optional[bool] = ..., replace: _Optional[bool] = ...) -> None: ...

class AlterConfigsReply(_message.Message):
    __slots__ = ("failure", "resources")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    resources: _containers.RepeatedCompositeFieldContainer[ConfigAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., resources: _Optional[_Iterable[_Union[ConfigAnswer, _Mapping]]] = ...) -> None: ...

class FeatureUpdate(_message.Message):
    __slots__ = ("name", "level", "upgrade_type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    UPGRADE_TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    level: int
    upgrade_type: int
    def __init__(self, name: _Optional[str] = ..., level: _Optional[int] = ..., upgrade_type: _Optional[int] = ...) -> None: ...

class FeatureAnswer(_message.Message):
    __slots__ = ("name", "error", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: int
    message: str
    def __init__(self, name: _Optional[str] = ..., error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class UpdateFeaturesRequest(_message.Message):
    __slots__ = ("caller", "updates", "validate_only")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    updates: _containers.RepeatedCompositeFieldContainer[FeatureUpdate]
    validate_only: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., updates: _Optional[_Iterable[_Union[FeatureUpdate, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class UpdateFeaturesReply(_message.Message):
    __slots__ = ("failure", "features")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    features: _containers.RepeatedCompositeFieldContainer[FeatureAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., features: _Optional[_Iterable[_Union[FeatureAnswer, _Mapping]]] = ...) -> None: ...

class QuotaChange(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: float
    def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class QuotaAlteration(_message.Message):
    __slots__ = ("entity", "changes")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    entity: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.QuotaEntity]
    changes: _containers.RepeatedCompositeFieldContainer[QuotaChange]
    def __init__(self, entity: _Optional[_Iterable[_Union[_metadata_pb2.QuotaEntity, _Mapping]]] = ..., changes: _Optional[_Iterable[_Union[QuotaChange, _Mapping]]] = ...) -> None: ...

class QuotaAnswer(_message.Message):
    __slots__ = ("entity", "error", "message")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    entity: _containers.RepeatedCompositeFieldContainer[_metadata_pb2.QuotaEntity]
    error: int
    message: str
    def __init__(self, entity: _Optional[_Iterable[_Union[_metadata_pb2.QuotaEntity, _Mapping]]] = ..., error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class AlterClientQuotasRequest(_message.Message):
    __slots__ = ("caller", "alterations", "validate_only")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ALTERATIONS_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    alterations: _containers.RepeatedCompositeFieldContainer[QuotaAlteration]
    validate_only: bool
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., alterations: _Optional[_Iterable[_Union[QuotaAlteration, _Mapping]]] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class AlterClientQuotasReply(_message.Message):
    __slots__ = ("failure", "entries")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    entries: _containers.RepeatedCompositeFieldContainer[QuotaAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[QuotaAnswer, _Mapping]]] = ...) -> None: ...

class AccessControlEntry(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ...) -> None: ...

class AclFilter(_message.Message):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    RESOURCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_NAME_FIELD_NUMBER: _ClassVar[int]
    PATTERN_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(self, resource_type: _Optional[int] = ..., resource_name: _Optional[str] = ..., pattern_type: _Optional[int] = ..., principal: _Optional[str] = ..., host: _Optional[str] = ..., operation: _Optional[int] = ..., permission_type: _Optional[int] = ...) -> None: ...

class AclAnswer(_message.Message):
    __slots__ = ("error", "message")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class CreateAclsRequest(_message.Message):
    __slots__ = ("caller", "acls")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    acls: _containers.RepeatedCompositeFieldContainer[AccessControlEntry]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., acls: _Optional[_Iterable[_Union[AccessControlEntry, _Mapping]]] = ...) -> None: ...

class CreateAclsReply(_message.Message):
    __slots__ = ("failure", "acls")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    ACLS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    acls: _containers.RepeatedCompositeFieldContainer[AclAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., acls: _Optional[_Iterable[_Union[AclAnswer, _Mapping]]] = ...) -> None: ...

class AclDeletion(_message.Message):
    __slots__ = ("acls", "error", "message")
    ACLS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    acls: _containers.RepeatedCompositeFieldContainer[AccessControlEntry]
    error: int
    message: str
    def __init__(self, acls: _Optional[_Iterable[_Union[AccessControlEntry, _Mapping]]] = ..., error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class DeleteAclsRequest(_message.Message):
    __slots__ = ("caller", "filters")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    filters: _containers.RepeatedCompositeFieldContainer[AclFilter]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., filters: _Optional[_Iterable[_Union[AclFilter, _Mapping]]] = ...) -> None: ...

class DeleteAclsReply(_message.Message):
    __slots__ = ("failure", "filters")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    filters: _containers.RepeatedCompositeFieldContainer[AclDeletion]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., filters: _Optional[_Iterable[_Union[AclDeletion, _Mapping]]] = ...) -> None: ...

class ScramUpsertion(_message.Message):
    __slots__ = ("name", "mechanism", "iterations", "salt", "stored_key", "server_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    def __init__(self, name: _Optional[str] = ..., mechanism: _Optional[int] = ..., iterations: _Optional[int] = ..., salt: _Optional[bytes] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class ScramDeletion(_message.Message):
    __slots__ = ("name", "mechanism")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    name: str
    mechanism: int
    def __init__(self, name: _Optional[str] = ..., mechanism: _Optional[int] = ...) -> None: ...

class ScramAnswer(_message.Message):
    __slots__ = ("name", "error", "message")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: int
    message: str
    def __init__(self, name: _Optional[str] = ..., error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class AlterUserScramCredentialsRequest(_message.Message):
    __slots__ = ("caller", "deletions", "upsertions")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    DELETIONS_FIELD_NUMBER: _ClassVar[int]
    UPSERTIONS_FIELD_NUMBER: _ClassVar[int]
    caller: _raft_pb2.Caller
    deletions: _containers.RepeatedCompositeFieldContainer[ScramDeletion]
    upsertions: _containers.RepeatedCompositeFieldContainer[ScramUpsertion]
    def __init__(self, caller: _Optional[_Union[_raft_pb2.Caller, _Mapping]] = ..., deletions: _Optional[_Iterable[_Union[ScramDeletion, _Mapping]]] = ..., upsertions: _Optional[_Iterable[_Union[ScramUpsertion, _Mapping]]] = ...) -> None: ...

class AlterUserScramCredentialsReply(_message.Message):
    __slots__ = ("failure", "users")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    users: _containers.RepeatedCompositeFieldContainer[ScramAnswer]
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ..., users: _Optional[_Iterable[_Union[ScramAnswer, _Mapping]]] = ...) -> None: ...
