"""Produce (0): append one batch of records to each of some partitions.

v8 explains errors record by record, v10 names the new leader in the answer, v12 lets a transaction grow
without AddPartitionsToTxn, v13 has topic ids instead of names.
"""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.primitives import NO_UUID, Buffer
from rookery.core.wire.schema import Array, Int16, Int32, Int64, Records, String, Struct, Uuid, field


class PartitionProduceData(Struct):
    index: int = field(Int32)
    records: Buffer | None = field(Records, nullable="3+", default=None)


class TopicProduceData(Struct):
    name: str = field(String, "3-12", default="")
    topic_id: UUID = field(Uuid, "13+", default=NO_UUID)
    partition_data: Sequence[PartitionProduceData] = field(Array(PartitionProduceData))


class ProduceRequest(Struct):
    transactional_id: str | None = field(String, nullable="3+", default=None)
    acks: int = field(Int16)
    timeout_ms: int = field(Int32)
    topic_data: Sequence[TopicProduceData] = field(Array(TopicProduceData))


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(Int32)
    batch_index_error_message: str | None = field(String, nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)


class PartitionProduceResponse(Struct):
    index: int = field(Int32)
    error_code: int = field(Int16, default=0)
    base_offset: int = field(Int64)
    log_append_time_ms: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, "5+", default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(
        Array(BatchIndexAndErrorMessage), "8+", default=()
    )
    error_message: str | None = field(String, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0, default=None)


class TopicProduceResponse(Struct):
    name: str = field(String, "3-12", default="")
    topic_id: UUID = field(Uuid, "13+", default=NO_UUID)
    partition_responses: Sequence[PartitionProduceResponse] = field(Array(PartitionProduceResponse))


class NodeEndpoint(Struct):
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="10+", default=None)


class ProduceResponse(Struct):
    responses: Sequence[TopicProduceResponse] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(Int32, default=0)
    node_endpoints: Sequence[NodeEndpoint] = field(Array(NodeEndpoint), "10+", tag=0, default=())


PRODUCE = Api(0, "Produce", ProduceRequest, ProduceResponse, versions="3-13", flexible="9+")
