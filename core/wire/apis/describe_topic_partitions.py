"""DescribeTopicPartitions (75): topics and partitions in pages, with a cursor."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int16, Int32, String, Struct, Uuid, field


class TopicRequest(Struct):
    name: str = field(String)


class Cursor(Struct):
    topic_name: str = field(String)
    partition_index: int = field(Int32)


class DescribeTopicPartitionsRequest(Struct):
    topics: Sequence[TopicRequest] = field(Array(TopicRequest))
    response_partition_limit: int = field(Int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field(Int16, default=0)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    replica_nodes: Sequence[int] = field(Array(Int32))
    isr_nodes: Sequence[int] = field(Array(Int32))
    eligible_leader_replicas: Sequence[int] | None = field(Array(Int32), nullable="0+", default=None)
    last_known_elr: Sequence[int] | None = field(Array(Int32), nullable="0+", default=None)
    offline_replicas: Sequence[int] = field(Array(Int32))


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field(Int16, default=0)
    name: str | None = field(String, nullable="0+", default=None)
    topic_id: UUID = field(Uuid)
    is_internal: bool = field(Bool, default=False)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = field(
        Array(DescribeTopicPartitionsResponsePartition)
    )
    topic_authorized_operations: int = field(Int32, default=-(2**31))


class DescribeTopicPartitionsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = field(
        Array(DescribeTopicPartitionsResponseTopic)
    )
    next_cursor: Cursor | None = field(Cursor, nullable="0+", default=None)


DESCRIBE_TOPIC_PARTITIONS = Api(
    75, "DescribeTopicPartitions", DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    versions="0", flexible="0+",
)
