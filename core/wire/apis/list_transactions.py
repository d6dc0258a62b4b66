"""ListTransactions (66): transactions a coordinator knows; v1 filters by age, v2 by pattern."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, Int64, String, Struct, field


class ListTransactionsRequest(Struct):
    state_filters: Sequence[str] = field(Array(String))
    producer_id_filters: Sequence[int] = field(Array(Int64))
    duration_filter: int = field(Int64, "1+", default=-1)
    transactional_id_pattern: str | None = field(String, "2+", nullable="2+", default=None)


class TransactionState(Struct):
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    transaction_state: str = field(String)


class ListTransactionsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    unknown_state_filters: Sequence[str] = field(Array(String))
    transaction_states: Sequence[TransactionState] = field(Array(TransactionState))


LIST_TRANSACTIONS = Api(
    66, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse,
    versions="0-2", flexible="0+",
)
