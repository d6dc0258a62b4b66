"""AlterShareGroupOffsets (91): reset start offsets of an empty share group."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, Uuid, field


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = field(Int32)
    start_offset: int = field(Int64)


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(String)
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = field(
        Array(AlterShareGroupOffsetsRequestPartition)
    )


class AlterShareGroupOffsetsRequest(Struct):
    group_id: str = field(String)
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = field(Array(AlterShareGroupOffsetsRequestTopic))


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(String)
    topic_id: UUID = field(Uuid)
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = field(
        Array(AlterShareGroupOffsetsResponsePartition)
    )


class AlterShareGroupOffsetsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = field(
        Array(AlterShareGroupOffsetsResponseTopic)
    )


ALTER_SHARE_GROUP_OFFSETS = Api(
    91, "AlterShareGroupOffsets", AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse,
    versions="0", flexible="0+",
)
