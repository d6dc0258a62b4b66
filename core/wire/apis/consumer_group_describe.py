"""ConsumerGroupDescribe (69): groups of the new consumer protocol; v1 adds the member's type."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, Uuid, field


class ConsumerGroupDescribeRequest(Struct):
    group_ids: Sequence[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool)


class TopicPartitions(Struct):
    topic_id: UUID = field(Uuid)
    topic_name: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field(Array(TopicPartitions))


class Member(Struct):
    member_id: str = field(String)
    instance_id: str | None = field(String, nullable="0+", default=None)
    rack_id: str | None = field(String, nullable="0+", default=None)
    member_epoch: int = field(Int32)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: Sequence[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(String, nullable="0+", default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(Int8, "1+", default=-1)


class DescribedGroup(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    group_id: str = field(String)
    group_state: str = field(String)
    group_epoch: int = field(Int32)
    assignment_epoch: int = field(Int32)
    assignor_name: str = field(String)
    members: Sequence[Member] = field(Array(Member))
    authorized_operations: int = field(Int32, default=-(2**31))


class ConsumerGroupDescribeResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    groups: Sequence[DescribedGroup] = field(Array(DescribedGroup))


CONSUMER_GROUP_DESCRIBE = Api(
    69, "ConsumerGroupDescribe", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
    versions="0-1", flexible="0+",
)
