"""OffsetForLeaderEpoch (23): where a leader epoch ended; v3 names the replica that asks."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32)


class OffsetForLeaderTopic(Struct):
    topic: str = field(String)
    partitions: Sequence[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Struct):
    replica_id: int = field(Int32, "3+", default=-2)
    topics: Sequence[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic))


class EpochEndOffset(Struct):
    error_code: int = field(Int16, default=0)
    partition: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(String)
    partitions: Sequence[EpochEndOffset] = field(Array(EpochEndOffset))


class OffsetForLeaderEpochResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult))


OFFSET_FOR_LEADER_EPOCH = Api(
    23, "OffsetForLeaderEpoch", OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    versions="2-4", flexible="4+",
)
