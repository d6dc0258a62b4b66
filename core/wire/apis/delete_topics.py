"""DeleteTopics (20): delete topics by name, from v6 on also by id; v5 adds messages."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, Uuid, field


class DeleteTopicState(Struct):
    name: str | None = field(String, nullable="6+", default=None)
    topic_id: UUID = field(Uuid)


class DeleteTopicsRequest(Struct):
    topics: Sequence[DeleteTopicState] = field(Array(DeleteTopicState), "6+", default=())
    topic_names: Sequence[str] = field(Array(String), "1-5", default=())
    timeout_ms: int = field(Int32)


class DeletableTopicResult(Struct):
    name: str | None = field(String, nullable="6+")
    topic_id: UUID = field(Uuid, "6+", default=NO_UUID)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, "5+", nullable="5+", default=None)


class DeleteTopicsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    responses: Sequence[DeletableTopicResult] = field(Array(DeletableTopicResult))


DELETE_TOPICS = Api(
    20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse,
    versions="1-6", flexible="4+",
)
