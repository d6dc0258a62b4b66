"""DescribeTransactions (65): state, producer and partitions of transactions."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, field


class DescribeTransactionsRequest(Struct):
    transactional_ids: Sequence[str] = field(Array(String))


class TopicData(Struct):
    topic: str = field(String)
    partitions: Sequence[int] = field(Array(Int32))


class TransactionState(Struct):
    error_code: int = field(Int16, default=0)
    transactional_id: str = field(String)
    transaction_state: str = field(String)
    transaction_timeout_ms: int = field(Int32)
    transaction_start_time_ms: int = field(Int64)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    topics: Sequence[TopicData] = field(Array(TopicData))


class DescribeTransactionsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    transaction_states: Sequence[TransactionState] = field(Array(TransactionState))


DESCRIBE_TRANSACTIONS = Api(
    65, "DescribeTransactions", DescribeTransactionsRequest, DescribeTransactionsResponse,
    versions="0", flexible="0+",
)
