"""ShareFetch (78): acquire records of share partitions, and acknowledge earlier ones on the way.

v1 asks for a batch size, v2 for an acquire mode and whether locks may be renewed.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Struct,
    Uuid,
    field,
)


class AcknowledgementBatch(Struct):
    first_offset: int = field(Int64)
    last_offset: int = field(Int64)
    acknowledge_types: Sequence[int] = field(Array(Int8))


class FetchPartition(Struct):
    partition_index: int = field(Int32)
    acknowledgement_batches: Sequence[AcknowledgementBatch] = field(Array(AcknowledgementBatch))


class FetchTopic(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[FetchPartition] = field(Array(FetchPartition))


class ForgottenTopic(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[int] = field(Array(Int32))


class ShareFetchRequest(Struct):
    group_id: str | None = field(String, nullable="1+", default=None)
    member_id: str | None = field(String, nullable="1+", default=None)
    share_session_epoch: int = field(Int32)
    max_wait_ms: int = field(Int32)
    min_bytes: int = field(Int32)
    max_bytes: int = field(Int32, default=2**31 - 1)
    max_records: int = field(Int32)
    batch_size: int = field(Int32)
    share_acquire_mode: int = field(Int8, "2+", default=0)
    is_renew_ack: bool = field(Bool, "2+", default=False)
    topics: Sequence[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: Sequence[ForgottenTopic] = field(Array(ForgottenTopic))


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32)


class AcquiredRecords(Struct):
    first_offset: int = field(Int64)
    last_offset: int = field(Int64)
    delivery_count: int = field(Int16)


class PartitionData(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    acknowledge_error_code: int = field(Int16)
    acknowledge_error_message: str | None = field(String, nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)
    records: Buffer = field(Records, default=b"")
    acquired_records: Sequence[AcquiredRecords] = field(Array(AcquiredRecords))


class ShareFetchableTopicResponse(Struct):
    topic_id: UUID = field(Uuid)
    partitions: Sequence[PartitionData] = field(Array(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="1+", default=None)


class ShareFetchResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = field(Int32)
    responses: Sequence[ShareFetchableTopicResponse] = field(Array(ShareFetchableTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = field(Array(NodeEndpoint))


SHARE_FETCH = Api(78, "ShareFetch", ShareFetchRequest, ShareFetchResponse, versions="1-2", flexible="1+")
