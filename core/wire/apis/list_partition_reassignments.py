"""ListPartitionReassignments (46): reassignments in progress; null means of every topic."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(String)
    partition_indexes: Sequence[int] = field(Array(Int32))


class ListPartitionReassignmentsRequest(Struct):
    timeout_ms: int = field(Int32, default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = field(
        Array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field(Int32)
    replicas: Sequence[int] = field(Array(Int32))
    adding_replicas: Sequence[int] = field(Array(Int32))
    removing_replicas: Sequence[int] = field(Array(Int32))


class OngoingTopicReassignment(Struct):
    name: str = field(String)
    partitions: Sequence[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    topics: Sequence[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment))


LIST_PARTITION_REASSIGNMENTS = Api(
    46, "ListPartitionReassignments", ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    versions="0", flexible="0+",
)
