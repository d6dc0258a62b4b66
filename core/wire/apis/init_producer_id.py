"""InitProducerId (22): a producer id and epoch, for idempotence or for a transactional id.

v3 lets a producer ask for a bumped epoch of its own id; v6 prepares for two-phase commit.
"""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, field


class InitProducerIdRequest(Struct):
    transactional_id: str | None = field(String, nullable="0+", default=None)
    transaction_timeout_ms: int = field(Int32)
    producer_id: int = field(Int64, "3+", default=-1)
    producer_epoch: int = field(Int16, "3+", default=-1)
    enable2_pc: bool = field(Bool, "6+", default=False)
    keep_prepared_txn: bool = field(Bool, "6+", default=False)


class InitProducerIdResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    producer_id: int = field(Int64, default=-1)
    producer_epoch: int = field(Int16)
    ongoing_txn_producer_id: int = field(Int64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(Int16, "6+", default=-1)


INIT_PRODUCER_ID = Api(
    22, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse,
    versions="0-6", flexible="2+",
)
