"""AlterPartitionReassignments (45): start, replace or (null replicas) cancel a reassignment."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int16, Int32, String, Struct, field


class ReassignablePartition(Struct):
    partition_index: int = field(Int32)
    replicas: Sequence[int] | None = field(Array(Int32), nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = field(String)
    partitions: Sequence[ReassignablePartition] = field(Array(ReassignablePartition))


class AlterPartitionReassignmentsRequest(Struct):
    timeout_ms: int = field(Int32, default=60000)
    allow_replication_factor_change: bool = field(Bool, "1+", default=True)
    topics: Sequence[ReassignableTopic] = field(Array(ReassignableTopic))


class ReassignablePartitionResponse(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class ReassignableTopicResponse(Struct):
    name: str = field(String)
    partitions: Sequence[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    allow_replication_factor_change: bool = field(Bool, "1+", default=True)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    responses: Sequence[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse))


ALTER_PARTITION_REASSIGNMENTS = Api(
    45, "AlterPartitionReassignments", AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    versions="0-1", flexible="0+",
)
