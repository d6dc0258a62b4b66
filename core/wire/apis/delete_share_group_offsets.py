"""DeleteShareGroupOffsets (92): forget the topics of an empty share group."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, Uuid, field


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = field(String)


class DeleteShareGroupOffsetsRequest(Struct):
    group_id: str = field(String)
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = field(Array(DeleteShareGroupOffsetsRequestTopic))


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = field(String)
    topic_id: UUID = field(Uuid)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = field(
        Array(DeleteShareGroupOffsetsResponseTopic)
    )


DELETE_SHARE_GROUP_OFFSETS = Api(
    92, "DeleteShareGroupOffsets", DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse,
    versions="0", flexible="0+",
)
