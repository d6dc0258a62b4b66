"""DescribeLogDirs (35): what lies in a broker's directories, and how large.

v3 adds a top-level error, v4 the size of the volumes, v5 whether a directory is cordoned.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int16, Int32, Int64, String, Struct, field


class DescribableLogDirTopic(Struct):
    topic: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class DescribeLogDirsRequest(Struct):
    topics: Sequence[DescribableLogDirTopic] | None = field(
        Array(DescribableLogDirTopic), nullable="1+", default=None
    )


class DescribeLogDirsPartition(Struct):
    partition_index: int = field(Int32)
    partition_size: int = field(Int64)
    offset_lag: int = field(Int64)
    is_future_key: bool = field(Bool)


class DescribeLogDirsTopic(Struct):
    name: str = field(String)
    partitions: Sequence[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition))


class DescribeLogDirsResult(Struct):
    error_code: int = field(Int16, default=0)
    log_dir: str = field(String)
    topics: Sequence[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic))
    total_bytes: int = field(Int64, "4+", default=-1)
    usable_bytes: int = field(Int64, "4+", default=-1)
    is_cordoned: bool = field(Bool, "5+", default=False)


class DescribeLogDirsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, "3+", default=0)
    results: Sequence[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult))


DESCRIBE_LOG_DIRS = Api(
    35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse,
    versions="1-5", flexible="2+",
)
