"""ListGroups (16): the groups a broker coordinates; v4 filters by state, v5 by type."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, field


class ListGroupsRequest(Struct):
    states_filter: Sequence[str] = field(Array(String), "4+", default=())
    types_filter: Sequence[str] = field(Array(String), "5+", default=())


class ListedGroup(Struct):
    group_id: str = field(String)
    protocol_type: str = field(String)
    group_state: str = field(String, "4+", default="")
    group_type: str = field(String, "5+", default="")


class ListGroupsResponse(Struct):
    throttle_time_ms: int = field(Int32, "1+", default=0)
    error_code: int = field(Int16, default=0)
    groups: Sequence[ListedGroup] = field(Array(ListedGroup))


LIST_GROUPS = Api(16, "ListGroups", ListGroupsRequest, ListGroupsResponse, versions="0-5", flexible="3+")
