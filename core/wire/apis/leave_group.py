"""LeaveGroup (13): leave a classic group; from v3 several members at once, v5 gives reasons."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, field


class MemberIdentity(Struct):
    member_id: str = field(String)
    group_instance_id: str | None = field(String, nullable="3+", default=None)
    reason: str | None = field(String, "5+", nullable="5+", default=None)


class LeaveGroupRequest(Struct):
    group_id: str = field(String)
    member_id: str = field(String, "0-2", default="")
    members: Sequence[MemberIdentity] = field(Array(MemberIdentity), "3+", default=())


class MemberResponse(Struct):
    member_id: str = field(String)
    group_instance_id: str | None = field(String, nullable="3+", default=None)
    error_code: int = field(Int16, default=0)


class LeaveGroupResponse(Struct):
    throttle_time_ms: int = field(Int32, "1+", default=0)
    error_code: int = field(Int16, default=0)
    members: Sequence[MemberResponse] = field(Array(MemberResponse), "3+", default=())


LEAVE_GROUP = Api(13, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse, versions="0-5", flexible="4+")
