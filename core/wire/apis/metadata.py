"""Metadata (3): brokers, topics, partitions, leaders and replicas.

No topics means all of them: an empty list in v0, null from v1 on. v4 asks whether topics may be created,
v7 adds leader epochs, v8 authorized operations, v10 topic ids, v12 lookup by id, v13 a top-level error.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.schema import Array, Bool, Int16, Int32, String, Struct, Uuid, field


class MetadataRequestTopic(Struct):
    topic_id: UUID = field(Uuid, "10+", default=NO_UUID)
    name: str | None = field(String, nullable="10+")


class MetadataRequest(Struct):
    topics: Sequence[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(Bool, "4+", default=True)
    include_cluster_authorized_operations: bool = field(Bool, "8-10", default=False)
    include_topic_authorized_operations: bool = field(Bool, "8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, "1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = field(Int16, default=0)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, "7+", default=-1)
    replica_nodes: Sequence[int] = field(Array(Int32))
    isr_nodes: Sequence[int] = field(Array(Int32))
    offline_replicas: Sequence[int] = field(Array(Int32), "5+", default=())


class MetadataResponseTopic(Struct):
    error_code: int = field(Int16, default=0)
    name: str | None = field(String, nullable="12+")
    topic_id: UUID = field(Uuid, "10+", default=NO_UUID)
    is_internal: bool = field(Bool, "1+", default=False)
    partitions: Sequence[MetadataResponsePartition] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(Int32, "8+", default=-(2**31))


class MetadataResponse(Struct):
    throttle_time_ms: int = field(Int32, "3+", default=0)
    brokers: Sequence[MetadataResponseBroker] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(String, "2+", nullable="2+", default=None)
    controller_id: int = field(Int32, "1+", default=-1)
    topics: Sequence[MetadataResponseTopic] = field(Array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(Int32, "8-10", default=-(2**31))
    error_code: int = field(Int16, "13+", default=0)


METADATA = Api(3, "Metadata", MetadataRequest, MetadataResponse, versions="0-13", flexible="9+")
