"""DescribeProducers (61): the idempotent producers a partition's leader remembers."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, field


class TopicRequest(Struct):
    name: str = field(String)
    partition_indexes: Sequence[int] = field(Array(Int32))


class DescribeProducersRequest(Struct):
    topics: Sequence[TopicRequest] = field(Array(TopicRequest))


class ProducerState(Struct):
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int32)
    last_sequence: int = field(Int32, default=-1)
    last_timestamp: int = field(Int64, default=-1)
    coordinator_epoch: int = field(Int32)
    current_txn_start_offset: int = field(Int64, default=-1)


class PartitionResponse(Struct):
    partition_index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    active_producers: Sequence[ProducerState] = field(Array(ProducerState))


class TopicResponse(Struct):
    name: str = field(String)
    partitions: Sequence[PartitionResponse] = field(Array(PartitionResponse))


class DescribeProducersResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[TopicResponse] = field(Array(TopicResponse))


DESCRIBE_PRODUCERS = Api(
    61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse,
    versions="0", flexible="0+",
)
