"""UnregisterBroker (64): forget a broker that will not come back."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Int16, Int32, String, Struct, field


class UnregisterBrokerRequest(Struct):
    broker_id: int = field(Int32)


class UnregisterBrokerResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)


UNREGISTER_BROKER = Api(
    64, "UnregisterBroker", UnregisterBrokerRequest, UnregisterBrokerResponse,
    versions="0", flexible="0+",
)
