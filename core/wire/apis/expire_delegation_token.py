"""ExpireDelegationToken (40): an earlier expiry for a token, or none left."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Bytes, Int16, Int32, Int64, Struct, field


class ExpireDelegationTokenRequest(Struct):
    hmac: bytes = field(Bytes)
    expiry_time_period_ms: int = field(Int64)


class ExpireDelegationTokenResponse(Struct):
    error_code: int = field(Int16, default=0)
    expiry_timestamp: int = field(Int64)
    throttle_time_ms: int = field(Int32, default=0)


EXPIRE_DELEGATION_TOKEN = Api(
    40, "ExpireDelegationToken", ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
    versions="1-2", flexible="2+",
)
