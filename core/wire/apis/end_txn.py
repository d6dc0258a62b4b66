"""EndTxn (26): commit or abort; v5 answers with the bumped epoch of the producer."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, field


class EndTxnRequest(Struct):
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    committed: bool = field(Bool)


class EndTxnResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    producer_id: int = field(Int64, "5+", default=-1)
    producer_epoch: int = field(Int16, "5+", default=-1)


END_TXN = Api(26, "EndTxn", EndTxnRequest, EndTxnResponse, versions="0-5", flexible="3+")
