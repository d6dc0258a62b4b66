"""Groups as tools see them: ListGroups (16), DescribeGroups (15), DeleteGroups (42), OffsetDelete (47)."""

from functools import partial
from typing import Any

from rookery.broker.coordination.reply import Gather, Part, Reply, coordinator_error
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.deleting import delete_group, delete_offsets
from rookery.broker.groups.listing import described, listed
from rookery.broker.groups.step import Receiver
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.delete_groups import (
    DELETE_GROUPS,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from rookery.core.wire.apis.describe_groups import (
    DESCRIBE_GROUPS,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest, ListGroupsResponse
from rookery.core.wire.apis.offset_delete import OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse
from rookery.core.wire.served import Served


class ListGroupsHandler:
    """The groups this broker coordinates; v4 filters by state, v5 by type."""

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


ALL_GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, Delete, Describe, DescribeConfigs and AlterConfigs: what one may do to a group when nothing is
forbidden."""


class DescribeGroupsHandler:
    """State and members of classic groups."""

    served = Served(DESCRIBE_GROUPS, 0, 6)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
        groups = [self._describe(name, call) for name in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                group.authorized_operations = ALL_GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    def _describe(self, name: str, call: Call) -> DescribedGroup:
        try:
            return described(self._groups.shard_of(name).groups, name, call.version)
        except KafkaError as error:
            code = coordinator_error(error)
            call.error(code)
            return DescribedGroup(
                error_code=code, group_id=name, group_state="", protocol_type="", protocol_data="", members=()
            )


class DeleteGroupsHandler:
    """Delete groups that have no members, with their offsets."""

    served = Served(DELETE_GROUPS, 0, 2)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: DeleteGroupsRequest, call: Call) -> Any:
        names = list(dict.fromkeys(request.groups_names))
        reply: Reply[DeleteGroupsResponse] = Reply(call, lambda code: DeleteGroupsResponse(results=()))
        gather: Gather[DeletableGroupResult] = Gather(
            len(names), lambda results: reply.complete(DeleteGroupsResponse(results=results))
        )
        for index, name in enumerate(names):
            self._delete(name, Part(gather, index, call, partial(_result, name)))
        return reply.outcome()

    def _delete(self, name: str, to: Receiver) -> None:
        self._groups.run(name, to, lambda state, now: delete_group(state, name, to))


def _result(name: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=name, error_code=code)


class OffsetDeleteHandler:
    """Forget a group's offsets of some partitions."""

    served = Served(OFFSET_DELETE, 0, 0)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: OffsetDeleteRequest, call: Call) -> Any:
        groups = self._groups
        reply: Reply[OffsetDeleteResponse] = Reply(
            call, lambda code: OffsetDeleteResponse(error_code=code, topics=())
        )
        groups.run(
            request.group_id, reply, lambda state, now: delete_offsets(state, request, reply, groups.topic_id_of)
        )
        return reply.outcome()
