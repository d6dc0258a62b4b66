"""StreamsGroupHeartbeat (88): membership and tasks of an application in Kafka Streams' own protocol (KIP-1071)."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, Int64, String, Struct, UInt16, field


class KeyValue(Struct):
    key: str = field(String)
    value: str = field(String)


class TopicInfo(Struct):
    name: str = field(String)
    partitions: int = field(Int32)
    replication_factor: int = field(Int16)
    topic_configs: Sequence[KeyValue] = field(Array(KeyValue))


class CopartitionGroup(Struct):
    source_topics: Sequence[int] = field(Array(Int16))
    source_topic_regex: Sequence[int] = field(Array(Int16))
    repartition_source_topics: Sequence[int] = field(Array(Int16))


class Subtopology(Struct):
    subtopology_id: str = field(String)
    source_topics: Sequence[str] = field(Array(String))
    source_topic_regex: Sequence[str] = field(Array(String))
    state_changelog_topics: Sequence[TopicInfo] = field(Array(TopicInfo))
    repartition_sink_topics: Sequence[str] = field(Array(String))
    repartition_source_topics: Sequence[TopicInfo] = field(Array(TopicInfo))
    copartition_groups: Sequence[CopartitionGroup] = field(Array(CopartitionGroup))


class Topology(Struct):
    epoch: int = field(Int32)
    subtopologies: Sequence[Subtopology] = field(Array(Subtopology))


class Endpoint(Struct):
    host: str = field(String)
    port: int = field(UInt16)


class TaskIds(Struct):
    subtopology_id: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class TaskOffset(Struct):
    subtopology_id: str = field(String)
    partition: int = field(Int32)
    offset: int = field(Int64)


class StreamsGroupHeartbeatRequest(Struct):
    group_id: str = field(String)
    member_id: str = field(String)
    member_epoch: int = field(Int32)
    endpoint_information_epoch: int = field(Int32)
    instance_id: str | None = field(String, nullable="0+", default=None)
    rack_id: str | None = field(String, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(Int32, default=-1)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    active_tasks: Sequence[TaskIds] | None = field(Array(TaskIds), nullable="0+", default=None)
    standby_tasks: Sequence[TaskIds] | None = field(Array(TaskIds), nullable="0+", default=None)
    warmup_tasks: Sequence[TaskIds] | None = field(Array(TaskIds), nullable="0+", default=None)
    process_id: str | None = field(String, nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: Sequence[KeyValue] | None = field(Array(KeyValue), nullable="0+", default=None)
    task_offsets: Sequence[TaskOffset] | None = field(Array(TaskOffset), nullable="0+", default=None)
    task_end_offsets: Sequence[TaskOffset] | None = field(Array(TaskOffset), nullable="0+", default=None)
    shutdown_application: bool = field(Bool, default=False)


class Status(Struct):
    status_code: int = field(Int8)
    status_detail: str = field(String)


class TopicPartition(Struct):
    topic: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(Endpoint)
    active_partitions: Sequence[TopicPartition] = field(Array(TopicPartition))
    standby_partitions: Sequence[TopicPartition] = field(Array(TopicPartition))


class StreamsGroupHeartbeatResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    member_id: str = field(String)
    member_epoch: int = field(Int32)
    heartbeat_interval_ms: int = field(Int32)
    acceptable_recovery_lag: int = field(Int32)
    task_offset_interval_ms: int = field(Int32)
    status: Sequence[Status] | None = field(Array(Status), nullable="0+", default=None)
    active_tasks: Sequence[TaskIds] | None = field(Array(TaskIds), nullable="0+", default=None)
    standby_tasks: Sequence[TaskIds] | None = field(Array(TaskIds), nullable="0+", default=None)
    warmup_tasks: Sequence[TaskIds] | None = field(Array(TaskIds), nullable="0+", default=None)
    endpoint_information_epoch: int = field(Int32, default=0)
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = field(
        Array(EndpointToPartitions), nullable="0+", default=None
    )


STREAMS_GROUP_HEARTBEAT = Api(
    88, "StreamsGroupHeartbeat", StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    versions="0", flexible="0+",
)  # fmt: skip
