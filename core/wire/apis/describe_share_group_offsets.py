"""DescribeShareGroupOffsets (90): start offsets of share groups; v1 adds the lag."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, Uuid, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = field(String)
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = field(
        Array(DescribeShareGroupOffsetsRequestTopic), nullable="0+", default=None
    )


class DescribeShareGroupOffsetsRequest(Struct):
    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = field(
        Array(DescribeShareGroupOffsetsRequestGroup)
    )


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(Int32)
    start_offset: int = field(Int64)
    leader_epoch: int = field(Int32)
    lag: int = field(Int64, "1+", default=-1)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(String)
    topic_id: UUID = field(Uuid)
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = field(
        Array(DescribeShareGroupOffsetsResponsePartition)
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = field(String)
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = field(
        Array(DescribeShareGroupOffsetsResponseTopic)
    )
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = field(
        Array(DescribeShareGroupOffsetsResponseGroup)
    )


DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    90, "DescribeShareGroupOffsets", DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    versions="0-1", flexible="0+",
)
