"""DescribeGroups (15): state and members of classic groups.

v3 adds authorized operations, v4 static members, v6 an error for an unknown group (before: a dead one).
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Bytes, Int16, Int32, String, Struct, field


class DescribeGroupsRequest(Struct):
    groups: Sequence[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool, "3+", default=False)


class DescribedGroupMember(Struct):
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "4+", nullable="4+", default=None)
    client_id: str = field(String)
    client_host: str = field(String)
    member_metadata: bytes = field(Bytes)
    member_assignment: bytes = field(Bytes)


class DescribedGroup(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, "6+", nullable="6+", default=None)
    group_id: str = field(String)
    group_state: str = field(String)
    protocol_type: str = field(String)
    protocol_data: str = field(String)
    members: Sequence[DescribedGroupMember] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(Int32, "3+", default=-(2**31))


class DescribeGroupsResponse(Struct):
    throttle_time_ms: int = field(Int32, "1+", default=0)
    groups: Sequence[DescribedGroup] = field(Array(DescribedGroup))


DESCRIBE_GROUPS = Api(
    15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse,
    versions="0-6", flexible="5+",
)
