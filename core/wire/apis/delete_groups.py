"""DeleteGroups (42): delete groups that have no members."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int16, Int32, String, Struct, field


class DeleteGroupsRequest(Struct):
    groups_names: Sequence[str] = field(Array(String))


class DeletableGroupResult(Struct):
    group_id: str = field(String)
    error_code: int = field(Int16, default=0)


class DeleteGroupsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    results: Sequence[DeletableGroupResult] = field(Array(DeletableGroupResult))


DELETE_GROUPS = Api(
    42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse,
    versions="0-2", flexible="2+",
)
