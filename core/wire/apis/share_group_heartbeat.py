"""ShareGroupHeartbeat (76): membership and assignment of a share group."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, Uuid, field


class ShareGroupHeartbeatRequest(Struct):
    group_id: str = field(String)
    member_id: str = field(String)
    member_epoch: int = field(Int32)
    rack_id: str | None = field(String, nullable="1+", default=None)
    subscribed_topic_names: Sequence[str] | None = field(Array(String), nullable="1+", default=None)


class TopicPartitions(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[int] = field(Array(Int32))


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field(Array(TopicPartitions))


class ShareGroupHeartbeatResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    member_id: str | None = field(String, nullable="1+", default=None)
    member_epoch: int = field(Int32)
    heartbeat_interval_ms: int = field(Int32)
    assignment: Assignment | None = field(Assignment, nullable="1+", default=None)


SHARE_GROUP_HEARTBEAT = Api(
    76, "ShareGroupHeartbeat", ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
    versions="1", flexible="1+",
)
