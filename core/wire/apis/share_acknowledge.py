"""ShareAcknowledge (79): accept, release or reject acquired records; v2 can renew their locks."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, Int64, String, Struct, Uuid, field


class AcknowledgementBatch(Struct):
    first_offset: int = field(Int64)
    last_offset: int = field(Int64)
    acknowledge_types: Sequence[int] = field(Array(Int8))


class AcknowledgePartition(Struct):
    partition_index: int = field(Int32)
    acknowledgement_batches: Sequence[AcknowledgementBatch] = field(Array(AcknowledgementBatch))


class AcknowledgeTopic(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[AcknowledgePartition] = field(Array(AcknowledgePartition))


class ShareAcknowledgeRequest(Struct):
    group_id: str | None = field(String, nullable="1+", default=None)
    member_id: str | None = field(String, nullable="1+", default=None)
    share_session_epoch: int = field(Int32)
    is_renew_ack: bool = field(Bool, "2+", default=False)
    topics: Sequence[AcknowledgeTopic] = field(Array(AcknowledgeTopic))


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32)


class PartitionData(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[PartitionData] = field(Array(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="1+", default=None)


class ShareAcknowledgeResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = field(Int32, "2+", default=0)
    responses: Sequence[ShareAcknowledgeTopicResponse] = field(Array(ShareAcknowledgeTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = field(Array(NodeEndpoint))


SHARE_ACKNOWLEDGE = Api(
    79, "ShareAcknowledge", ShareAcknowledgeRequest, ShareAcknowledgeResponse,
    versions="1-2", flexible="1+",
)
