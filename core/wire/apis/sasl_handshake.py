"""SaslHandshake (17): choose a SASL mechanism; after v1 tokens travel in SaslAuthenticate."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, String, Struct, field


class SaslHandshakeRequest(Struct):
    mechanism: str = field(String)


class SaslHandshakeResponse(Struct):
    error_code: int = field(Int16, default=0)
    mechanisms: Sequence[str] = field(Array(String))


SASL_HANDSHAKE = Api(17, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse, versions="0-1")
