"""CreateTopics (19): new topics, with counts or with a replica assignment, and configs.

-1 partitions or replicas ask for the broker's default. v5 answers with the result, v7 with the topic id.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, Uuid, field


class CreatableReplicaAssignment(Struct):
    partition_index: int = field(Int32)
    broker_ids: Sequence[int] = field(Array(Int32))


class CreatableTopicConfig(Struct):
    name: str = field(String)
    value: str | None = field(String, nullable="2+", default=None)


class CreatableTopic(Struct):
    name: str = field(String)
    num_partitions: int = field(Int32)
    replication_factor: int = field(Int16)
    assignments: Sequence[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment))
    configs: Sequence[CreatableTopicConfig] = field(Array(CreatableTopicConfig))


class CreateTopicsRequest(Struct):
    topics: Sequence[CreatableTopic] = field(Array(CreatableTopic))
    timeout_ms: int = field(Int32, default=60000)
    validate_only: bool = field(Bool, default=False)


class CreatableTopicConfigs(Struct):
    name: str = field(String)
    value: str | None = field(String, nullable="5+", default=None)
    read_only: bool = field(Bool)
    config_source: int = field(Int8, default=-1)
    is_sensitive: bool = field(Bool)


class CreatableTopicResult(Struct):
    name: str = field(String)
    topic_id: UUID = field(Uuid, "7+", default=NO_UUID)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="2+", default=None)
    topic_config_error_code: int = field(Int16, "5+", tag=0, default=0)
    num_partitions: int = field(Int32, "5+", default=-1)
    replication_factor: int = field(Int16, "5+", default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = field(
        Array(CreatableTopicConfigs), "5+", nullable="5+", default=()
    )


class CreateTopicsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    topics: Sequence[CreatableTopicResult] = field(Array(CreatableTopicResult))


CREATE_TOPICS = Api(
    19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse,
    versions="2-7", flexible="5+",
)
