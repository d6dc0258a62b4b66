"""SaslHandshake (17) and SaslAuthenticate (36) on a listener without SASL: as in Kafka they are known, but refused.
Connections of listeners with SASL answer them before any handler is asked."""

from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.sasl_authenticate import (
    SASL_AUTHENTICATE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from rookery.core.wire.apis.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse
from rookery.core.wire.served import Served

CODE = ErrorCode.ILLEGAL_SASL_STATE
WHY = "this listener does not use SASL: set security.protocol to PLAINTEXT or SSL, or use another listener"


class SaslHandshakeHandler:
    served = Served(SASL_HANDSHAKE, 0, 1)

    def handle(self, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
        call.error(CODE)
        return SaslHandshakeResponse(error_code=CODE, mechanisms=())


class SaslAuthenticateHandler:
    served = Served(SASL_AUTHENTICATE, 0, 2)

    def handle(self, request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
        call.error(CODE)
        return SaslAuthenticateResponse(error_code=CODE, error_message=WHY, auth_bytes=b"")
