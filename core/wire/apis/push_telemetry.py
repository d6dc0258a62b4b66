"""PushTelemetry (72): client metrics, as the subscription asked for them."""

from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Bool, Bytes, Int8, Int16, Int32, Struct, Uuid, field


class PushTelemetryRequest(Struct):
    client_instance_id: UUID = field(Uuid)
    subscription_id: int = field(Int32)
    terminating: bool = field(Bool)
    compression_type: int = field(Int8)
    metrics: bytes = field(Bytes)


class PushTelemetryResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)


PUSH_TELEMETRY = Api(
    72, "PushTelemetry", PushTelemetryRequest, PushTelemetryResponse,
    versions="0", flexible="0+",
)
