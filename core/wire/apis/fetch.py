"""Fetch (1): read records from partitions, as a consumer or as a follower.

v5 log start offsets, v7 sessions, v9 leader epochs, v11 racks, v12 the last fetched epoch (truncation on
fetch), v13 topic ids instead of names, v15 the replica's state, v16 the new leader in the answer, v17 the
replica's directory, v18 the high watermark the replica knows.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID, Buffer
from rookery.core.wire.schema import Array, Int8, Int16, Int32, Int64, Records, String, Struct, Uuid, field


class ReplicaState(Struct):
    replica_id: int = field(Int32, default=-1)
    replica_epoch: int = field(Int64, default=-1)


class FetchPartition(Struct):
    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, "9+", default=-1)
    fetch_offset: int = field(Int64)
    last_fetched_epoch: int = field(Int32, "12+", default=-1)
    log_start_offset: int = field(Int64, "5+", default=-1)
    partition_max_bytes: int = field(Int32)
    replica_directory_id: UUID = field(Uuid, "17+", tag=0, default=NO_UUID)
    high_watermark: int = field(Int64, "18+", tag=1, default=2**63 - 1)


class FetchTopic(Struct):
    topic: str = field(String, "4-12", default="")
    topic_id: UUID = field(Uuid, "13+", default=NO_UUID)
    partitions: Sequence[FetchPartition] = field(Array(FetchPartition))


class ForgottenTopic(Struct):
    topic: str = field(String, "7-12", default="")
    topic_id: UUID = field(Uuid, "13+", default=NO_UUID)
    partitions: Sequence[int] = field(Array(Int32))


class FetchRequest(Struct):
    cluster_id: str | None = field(String, "12+", nullable="12+", tag=0, default=None)
    replica_id: int = field(Int32, "4-14", default=-1)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1, default=None)
    max_wait_ms: int = field(Int32)
    min_bytes: int = field(Int32)
    max_bytes: int = field(Int32, default=2**31 - 1)
    isolation_level: int = field(Int8, default=0)
    session_id: int = field(Int32, "7+", default=0)
    session_epoch: int = field(Int32, "7+", default=-1)
    topics: Sequence[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: Sequence[ForgottenTopic] = field(Array(ForgottenTopic), "7+", default=())
    rack_id: str = field(String, "11+", default="")


class EpochEndOffset(Struct):
    epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)


class SnapshotId(Struct):
    end_offset: int = field(Int64, default=-1)
    epoch: int = field(Int32, default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field(Int64)
    first_offset: int = field(Int64)


class PartitionData(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    high_watermark: int = field(Int64)
    last_stable_offset: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2, default=None)
    aborted_transactions: Sequence[AbortedTransaction] | None = field(
        Array(AbortedTransaction), nullable="4+", default=None
    )
    preferred_read_replica: int = field(Int32, "11+", default=-1)
    records: Buffer | None = field(Records, nullable="4+", default=None)


class FetchableTopicResponse(Struct):
    topic: str = field(String, "4-12", default="")
    topic_id: UUID = field(Uuid, "13+", default=NO_UUID)
    partitions: Sequence[PartitionData] = field(Array(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="16+", default=None)


class FetchResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, "7+", default=0)
    session_id: int = field(Int32, "7+", default=0)
    responses: Sequence[FetchableTopicResponse] = field(Array(FetchableTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = field(Array(NodeEndpoint), "16+", tag=0, default=())


FETCH = Api(1, "Fetch", FetchRequest, FetchResponse, versions="4-18", flexible="12+")
