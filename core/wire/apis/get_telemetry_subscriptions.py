"""GetTelemetrySubscriptions (71): which client metrics the broker wants, how often, how packed."""

from collections.abc import Sequence
from uuid import UUID

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, Uuid, field


class GetTelemetrySubscriptionsRequest(Struct):
    client_instance_id: UUID = field(Uuid)


class GetTelemetrySubscriptionsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    client_instance_id: UUID = field(Uuid)
    subscription_id: int = field(Int32)
    accepted_compression_types: Sequence[int] = field(Array(Int8))
    push_interval_ms: int = field(Int32)
    telemetry_max_bytes: int = field(Int32)
    delta_temporality: bool = field(Bool)
    requested_metrics: Sequence[str] = field(Array(String))


GET_TELEMETRY_SUBSCRIPTIONS = Api(
    71, "GetTelemetrySubscriptions", GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
    versions="0", flexible="0+",
)
