"""SaslAuthenticate (36): one step of a SASL exchange; v1 adds the session's lifetime."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Bytes, Int16, Int64, String, Struct, field


class SaslAuthenticateRequest(Struct):
    auth_bytes: bytes = field(Bytes)


class SaslAuthenticateResponse(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    auth_bytes: bytes = field(Bytes)
    session_lifetime_ms: int = field(Int64, "1+", default=0)


SASL_AUTHENTICATE = Api(
    36, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse,
    versions="0-2", flexible="2+",
)
