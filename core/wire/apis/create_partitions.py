"""CreatePartitions (37): more partitions for existing topics."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int16, Int32, String, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: Sequence[int] = field(Array(Int32))


class CreatePartitionsTopic(Struct):
    name: str = field(String)
    count: int = field(Int32)
    assignments: Sequence[CreatePartitionsAssignment] | None = field(
        Array(CreatePartitionsAssignment), nullable="0+", default=None
    )


class CreatePartitionsRequest(Struct):
    topics: Sequence[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(Int32)
    validate_only: bool = field(Bool)


class CreatePartitionsTopicResult(Struct):
    name: str = field(String)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


class CreatePartitionsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    results: Sequence[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult))


CREATE_PARTITIONS = Api(
    37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse,
    versions="0-3", flexible="2+",
)
