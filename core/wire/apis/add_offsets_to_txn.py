"""AddOffsetsToTxn (25): a transaction is about to commit offsets of this group."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Int16, Int32, Int64, String, Struct, field


class AddOffsetsToTxnRequest(Struct):
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    group_id: str = field(String)


class AddOffsetsToTxnResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)


ADD_OFFSETS_TO_TXN = Api(
    25, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse,
    versions="0-4", flexible="3+",
)
