"""AlterReplicaLogDirs (34): move replicas to other directories of one broker."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class AlterReplicaLogDir(Struct):
    path: str = field(String)
    topics: Sequence[AlterReplicaLogDirTopic] = field(Array(AlterReplicaLogDirTopic))


class AlterReplicaLogDirsRequest(Struct):
    dirs: Sequence[AlterReplicaLogDir] = field(Array(AlterReplicaLogDir))


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(String)
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = field(Array(AlterReplicaLogDirPartitionResult))


class AlterReplicaLogDirsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    results: Sequence[AlterReplicaLogDirTopicResult] = field(Array(AlterReplicaLogDirTopicResult))


ALTER_REPLICA_LOG_DIRS = Api(
    34, "AlterReplicaLogDirs", AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
    versions="1-2", flexible="2+",
)
