"""RenewDelegationToken (39): a later expiry for a token."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Bytes, Int16, Int32, Int64, Struct, field


class RenewDelegationTokenRequest(Struct):
    hmac: bytes = field(Bytes)
    renew_period_ms: int = field(Int64)


class RenewDelegationTokenResponse(Struct):
    error_code: int = field(Int16, default=0)
    expiry_timestamp: int = field(Int64)
    throttle_time_ms: int = field(Int32, default=0)


RENEW_DELEGATION_TOKEN = Api(
    39, "RenewDelegationToken", RenewDelegationTokenRequest, RenewDelegationTokenResponse,
    versions="1-2", flexible="2+",
)
