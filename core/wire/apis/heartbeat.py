"""Heartbeat (12): a member of a classic group is alive; v3 adds static members."""

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Int16, Int32, String, Struct, field


class HeartbeatRequest(Struct):
    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "3+", nullable="3+", default=None)


class HeartbeatResponse(Struct):
    throttle_time_ms: int = field(Int32, "1+", default=0)
    error_code: int = field(Int16, default=0)


HEARTBEAT = Api(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse, versions="0-4", flexible="4+")
