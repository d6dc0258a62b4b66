"""ElectLeaders (43): preferred or, from v1, unclean election; null means every partition."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class TopicPartitions(Struct):
    topic: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class ElectLeadersRequest(Struct):
    election_type: int = field(Int8, "1+", default=0)
    topic_partitions: Sequence[TopicPartitions] | None = field(
        Array(TopicPartitions), nullable="0+", default=None
    )
    timeout_ms: int = field(Int32, default=60000)


class PartitionResult(Struct):
    partition_id: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class ReplicaElectionResult(Struct):
    topic: str = field(String)
    partition_result: Sequence[PartitionResult] = field(Array(PartitionResult))


class ElectLeadersResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, "1+", default=0)
    replica_election_results: Sequence[ReplicaElectionResult] = field(Array(ReplicaElectionResult))


ELECT_LEADERS = Api(
    43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse,
    versions="0-2", flexible="2+",
)
