"""DeleteRecords (21): raise a partition's log start offset; -1 means to the high watermark."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, field


class DeleteRecordsPartition(Struct):
    partition_index: int = field(Int32)
    offset: int = field(Int64)


class DeleteRecordsTopic(Struct):
    name: str = field(String)
    partitions: Sequence[DeleteRecordsPartition] = field(Array(DeleteRecordsPartition))


class DeleteRecordsRequest(Struct):
    topics: Sequence[DeleteRecordsTopic] = field(Array(DeleteRecordsTopic))
    timeout_ms: int = field(Int32)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field(Int32)
    low_watermark: int = field(Int64)
    error_code: int = field(Int16, default=0)


class DeleteRecordsTopicResult(Struct):
    name: str = field(String)
    partitions: Sequence[DeleteRecordsPartitionResult] = field(Array(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[DeleteRecordsTopicResult] = field(Array(DeleteRecordsTopicResult))


DELETE_RECORDS = Api(
    21, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse,
    versions="0-2", flexible="2+",
)
