"""ListGroups (16): the groups this broker coordinates; v4 filters by state, v5 by type."""

from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.listing import listed
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest, ListGroupsResponse
from rookery.core.wire.served import Served


class ListGroupsHandler:
    served = Served(LIST_GROUPS, 0, 5)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
        groups = self._groups
        code = ErrorCode.NONE
        if groups.loading:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            call.error(code)
        return ListGroupsResponse(
            error_code=code,
            groups=[
                group
                for shard in groups.shards
                for group in listed(shard.groups, request.states_filter, request.types_filter)
            ],
        )
