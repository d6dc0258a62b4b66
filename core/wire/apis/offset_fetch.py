"""OffsetFetch (9): how far groups have read.

Null topics mean all of the group's (v2). v7 can insist on stable offsets, v8 asks for several groups at once,
v9 names the member, v10 has topic ids instead of names.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Bool, Int16, Int32, Int64, String, Struct, Uuid, field


class OffsetFetchRequestTopic(Struct):
    name: str = field(String)
    partition_indexes: Sequence[int] = field(Array(Int32))


class OffsetFetchRequestTopics(Struct):
    name: str = field(String, "8-9", default="")
    topic_id: UUID = field(Uuid, "10+", default=NO_UUID)
    partition_indexes: Sequence[int] = field(Array(Int32))


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(String)
    member_id: str | None = field(String, "9+", nullable="9+", default=None)
    member_epoch: int = field(Int32, "9+", default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = field(
        Array(OffsetFetchRequestTopics), nullable="8+", default=None
    )


class OffsetFetchRequest(Struct):
    group_id: str = field(String, "1-7", default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = field(
        Array(OffsetFetchRequestTopic), "1-7", nullable="2-7", default=()
    )
    groups: Sequence[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), "8+", default=())
    require_stable: bool = field(Bool, "7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, "5-7", default=-1)
    metadata: str | None = field(String, nullable="1-7", default=None)
    error_code: int = field(Int16, default=0)


class OffsetFetchResponseTopic(Struct):
    name: str = field(String)
    partitions: Sequence[OffsetFetchResponsePartition] = field(Array(OffsetFetchResponsePartition))


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, default=-1)
    metadata: str | None = field(String, nullable="8+", default=None)
    error_code: int = field(Int16, default=0)


class OffsetFetchResponseTopics(Struct):
    name: str = field(String, "8-9", default="")
    topic_id: UUID = field(Uuid, "10+", default=NO_UUID)
    partitions: Sequence[OffsetFetchResponsePartitions] = field(Array(OffsetFetchResponsePartitions))


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(String)
    topics: Sequence[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics))
    error_code: int = field(Int16, default=0)


class OffsetFetchResponse(Struct):
    throttle_time_ms: int = field(Int32, "3+", default=0)
    topics: Sequence[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), "1-7", default=())
    error_code: int = field(Int16, "2-7", default=0)
    groups: Sequence[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), "8+", default=())


OFFSET_FETCH = Api(9, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse, versions="1-10", flexible="6+")
