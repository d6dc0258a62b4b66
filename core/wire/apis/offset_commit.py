"""OffsetCommit (8): store how far a group has read.

v5 dropped the retention time, v6 adds leader epochs, v7 static members, v9 serves the new group protocol,
v10 has topic ids instead of names.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, Uuid, field


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, "6+", default=-1)
    committed_metadata: str | None = field(String, nullable="2+", default=None)


class OffsetCommitRequestTopic(Struct):
    name: str = field(String, "2-9", default="")
    topic_id: UUID = field(Uuid, "10+", default=NO_UUID)
    partitions: Sequence[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Struct):
    group_id: str = field(String)
    generation_id_or_member_epoch: int = field(Int32, default=-1)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "7+", nullable="7+", default=None)
    retention_time_ms: int = field(Int64, "2-4", default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)


class OffsetCommitResponseTopic(Struct):
    name: str = field(String, "2-9", default="")
    topic_id: UUID = field(Uuid, "10+", default=NO_UUID)
    partitions: Sequence[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Struct):
    throttle_time_ms: int = field(Int32, "3+", default=0)
    topics: Sequence[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic))


OFFSET_COMMIT = Api(
    8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse,
    versions="2-10", flexible="8+",
)
