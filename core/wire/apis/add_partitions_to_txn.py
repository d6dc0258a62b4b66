"""AddPartitionsToTxn (24): partitions a transaction is about to write to.

Up to v3 one transaction, from a client; from v4 a batch of transactions, from a broker that verifies them.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int16, Int32, Int64, String, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    verify_only: bool = field(Bool, default=False)
    topics: Sequence[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic))


class AddPartitionsToTxnRequest(Struct):
    transactions: Sequence[AddPartitionsToTxnTransaction] = field(
        Array(AddPartitionsToTxnTransaction), "4+", default=()
    )
    v3_and_below_transactional_id: str = field(String, "0-3", default="")
    v3_and_below_producer_id: int = field(Int64, "0-3", default=0)
    v3_and_below_producer_epoch: int = field(Int16, "0-3", default=0)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = field(
        Array(AddPartitionsToTxnTopic), "0-3", default=()
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(Int32)
    partition_error_code: int = field(Int16)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(String)
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = field(
        Array(AddPartitionsToTxnPartitionResult)
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(String)
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = field(Array(AddPartitionsToTxnTopicResult))


class AddPartitionsToTxnResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, "4+", default=0)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = field(
        Array(AddPartitionsToTxnResult), "4+", default=()
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), "0-3", default=()
    )


ADD_PARTITIONS_TO_TXN = Api(
    24, "AddPartitionsToTxn", AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    versions="0-5", flexible="3+",
)
