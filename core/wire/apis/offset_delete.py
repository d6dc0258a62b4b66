"""OffsetDelete (47): forget a group's offsets of some partitions."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(Int32)


class OffsetDeleteRequestTopic(Struct):
    name: str = field(String)
    partitions: Sequence[OffsetDeleteRequestPartition] = field(Array(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Struct):
    group_id: str = field(String)
    topics: Sequence[OffsetDeleteRequestTopic] = field(Array(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)


class OffsetDeleteResponseTopic(Struct):
    name: str = field(String)
    partitions: Sequence[OffsetDeleteResponsePartition] = field(Array(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Struct):
    error_code: int = field(Int16, default=0)
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[OffsetDeleteResponseTopic] = field(Array(OffsetDeleteResponseTopic))


OFFSET_DELETE = Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, versions="0")
