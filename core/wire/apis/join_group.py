"""JoinGroup (11): become, or stay, a member of a classic consumer group.

v1 adds the rebalance timeout, v4 hands out a member id first, v5 static members, v7 the protocol type,
v8 a reason, v9 lets the leader skip the assignment.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Bytes, Int16, Int32, String, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: str = field(String)
    metadata: bytes = field(Bytes)


class JoinGroupRequest(Struct):
    group_id: str = field(String)
    session_timeout_ms: int = field(Int32)
    rebalance_timeout_ms: int = field(Int32, "1+", default=-1)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "5+", nullable="5+", default=None)
    protocol_type: str = field(String)
    protocols: Sequence[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(String, "8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "5+", nullable="5+", default=None)
    metadata: bytes = field(Bytes)


class JoinGroupResponse(Struct):
    throttle_time_ms: int = field(Int32, "2+", default=0)
    error_code: int = field(Int16, default=0)
    generation_id: int = field(Int32, default=-1)
    protocol_type: str | None = field(String, "7+", nullable="7+", default=None)
    protocol_name: str | None = field(String, nullable="7+")
    leader: str = field(String)
    skip_assignment: bool = field(Bool, "9+", default=False)
    member_id: str = field(String)
    members: Sequence[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember))


JOIN_GROUP = Api(11, "JoinGroup", JoinGroupRequest, JoinGroupResponse, versions="0-9", flexible="6+")
