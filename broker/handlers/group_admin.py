"""Groups as tools see them: ListGroups (16), DescribeGroups (15), DeleteGroups (42), OffsetDelete (47)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from rookery.broker.coordination.reply import Converted, Gather, Part, Reply, coordinator_error
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.deleting import delete_group, delete_offsets
from rookery.broker.groups.listing import described, listed
from rookery.broker.groups.step import Receiver
from rookery.broker.handlers.authorize import (
    DELETE,
    DESCRIBE,
    READ,
    check_group,
    cluster_shows,
    group_denied,
    split_topics,
)
from rookery.broker.server.access import GROUP
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
from rookery.core.wire.apis.offset_delete import (
    OFFSET_DELETE,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
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
        access = call.access
        sees_all = not access.restricted or cluster_shows(access, DESCRIBE)
        return ListGroupsResponse(
            error_code=code,
            groups=[
                group
                for shard in groups.shards
                for group in listed(shard.groups, request.states_filter, request.types_filter)
                if sees_all or access.shows(DESCRIBE, GROUP, group.group_id)
            ],
        )


class DescribeGroupsHandler:
    """State and members of classic groups."""

    served = Served(DESCRIBE_GROUPS, 0, 6)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
        groups = [self._describe(name, call) for name in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
                    group.authorized_operations = call.access.operations(GROUP, group.group_id)
        return DescribeGroupsResponse(groups=groups)

    def _describe(self, name: str, call: Call) -> DescribedGroup:
        try:
            check_group(call, DESCRIBE, name)
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
            part = Part(gather, index, call, partial(_result, name))
            if call.access.group(DELETE, name):
                self._delete(name, part)
            else:
                part.refuse(group_denied(DELETE))
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
        if not call.access.group(DELETE, request.group_id):
            reply.refuse(group_denied(DELETE))
            return reply.outcome()
        request.topics, denied = split_topics(call, READ, request.topics)
        to: Receiver = Converted(reply, lambda response: _with_denied(response, denied, call)) if denied else reply
        groups.run(
            request.group_id, to, lambda state, now: delete_offsets(state, request, to, groups.topic_id_of)
        )
        return reply.outcome()


def _with_denied(
    response: OffsetDeleteResponse, denied: Sequence[OffsetDeleteRequestTopic], call: Call
) -> OffsetDeleteResponse:
    """With the topics that the client may not read."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    call.error(code)
    hidden = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
                for each in topic.partitions
            ],
        )
        for topic in denied
    ]
    return OffsetDeleteResponse(error_code=response.error_code, topics=[*response.topics, *hidden])
