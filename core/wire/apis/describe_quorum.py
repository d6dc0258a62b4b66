"""DescribeQuorum (55): leader, voters and observers of the metadata quorum.

v1 adds times of the last fetch, v2 directory ids and the endpoints of the nodes.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, UInt16, Uuid, field


class PartitionData(Struct):
    partition_index: int = field(Int32)


class TopicData(Struct):
    topic_name: str = field(String)
    partitions: Sequence[PartitionData] = field(Array(PartitionData))


class DescribeQuorumRequest(Struct):
    topics: Sequence[TopicData] = field(Array(TopicData))


class ReplicaState(Struct):
    replica_id: int = field(Int32)
    replica_directory_id: UUID = field(Uuid, "2+", default=NO_UUID)
    log_end_offset: int = field(Int64)
    last_fetch_timestamp: int = field(Int64, "1+", default=-1)
    last_caught_up_timestamp: int = field(Int64, "1+", default=-1)


class PartitionQuorum(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, "2+", nullable="2+", default=None)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32)
    high_watermark: int = field(Int64)
    current_voters: Sequence[ReplicaState] = field(Array(ReplicaState))
    observers: Sequence[ReplicaState] = field(Array(ReplicaState))


class TopicQuorum(Struct):
    topic_name: str = field(String)
    partitions: Sequence[PartitionQuorum] = field(Array(PartitionQuorum))


class Listener(Struct):
    name: str = field(String)
    host: str = field(String)
    port: int = field(UInt16)


class Node(Struct):
    node_id: int = field(Int32)
    listeners: Sequence[Listener] = field(Array(Listener))


class DescribeQuorumResponse(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, "2+", nullable="2+", default=None)
    topics: Sequence[TopicQuorum] = field(Array(TopicQuorum))
    nodes: Sequence[Node] = field(Array(Node), "2+", default=())


DESCRIBE_QUORUM = Api(
    55, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse,
    versions="0-2", flexible="0+",
)
