"""TxnOffsetCommit (28): offsets that become visible when the transaction commits.

v2 adds leader epochs, v3 the member and generation, v5 lets a transaction grow without AddOffsetsToTxn.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, "2+", default=-1)
    committed_metadata: str | None = field(String, nullable="0+", default=None)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(String)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = field(Array(TxnOffsetCommitRequestPartition))


class TxnOffsetCommitRequest(Struct):
    transactional_id: str = field(String)
    group_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    generation_id: int = field(Int32, "3+", default=-1)
    member_id: str = field(String, "3+", default="")
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(String)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = field(Array(TxnOffsetCommitResponsePartition))


class TxnOffsetCommitResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic))


TXN_OFFSET_COMMIT = Api(
    28, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse,
    versions="0-5", flexible="3+",
)
