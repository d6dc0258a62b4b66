"""ListOffsets (2): the offset for a timestamp, or for one of the special timestamps.

-1 latest, -2 earliest, -3 of the largest timestamp (v7), -4 earliest on local disk (v8), -5 latest tiered
(v9), -6 first not yet tiered (v11). v4 adds leader epochs, v10 a timeout for remote lookups.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, Int64, String, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: int = field(Int32)
    current_leader_epoch: int = field(Int32, "4+", default=-1)
    timestamp: int = field(Int64)


class ListOffsetsTopic(Struct):
    name: str = field(String)
    partitions: Sequence[ListOffsetsPartition] = field(Array(ListOffsetsPartition))


class ListOffsetsRequest(Struct):
    replica_id: int = field(Int32)
    isolation_level: int = field(Int8, "2+", default=0)
    topics: Sequence[ListOffsetsTopic] = field(Array(ListOffsetsTopic))
    timeout_ms: int = field(Int32, "10+", default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    timestamp: int = field(Int64, default=-1)
    offset: int = field(Int64, default=-1)
    leader_epoch: int = field(Int32, "4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(String)
    partitions: Sequence[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Struct):
    throttle_time_ms: int = field(Int32, "2+", default=0)
    topics: Sequence[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse))


LIST_OFFSETS = Api(2, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse, versions="1-11", flexible="6+")
