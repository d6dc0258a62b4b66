"""ConsumerGroupHeartbeat (68): membership, subscription and assignment of the new consumer protocol.

Fields that did not change since the last heartbeat are null. v1 adds subscription by regular expression.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, Uuid, field


class TopicPartitions(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[int] = field(Array(Int32))


class ConsumerGroupHeartbeatRequest(Struct):
    group_id: str = field(String)
    member_id: str = field(String)
    member_epoch: int = field(Int32)
    instance_id: str | None = field(String, nullable="0+", default=None)
    rack_id: str | None = field(String, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(Int32, default=-1)
    subscribed_topic_names: Sequence[str] | None = field(Array(String), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(String, "1+", nullable="1+", default=None)
    server_assignor: str | None = field(String, nullable="0+", default=None)
    topic_partitions: Sequence[TopicPartitions] | None = field(
        Array(TopicPartitions), nullable="0+", default=None
    )


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field(Array(TopicPartitions))


class ConsumerGroupHeartbeatResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    member_id: str | None = field(String, nullable="0+", default=None)
    member_epoch: int = field(Int32)
    heartbeat_interval_ms: int = field(Int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


CONSUMER_GROUP_HEARTBEAT = Api(
    68, "ConsumerGroupHeartbeat", ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    versions="0-1", flexible="0+",
)
