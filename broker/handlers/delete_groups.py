"""DeleteGroups (42): delete groups that have no members, with their offsets."""

from functools import partial
from typing import Any

from rookery.broker.coordination.gather import Gather, Part
from rookery.broker.coordination.reply import Reply
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.deleting import delete_group
from rookery.broker.groups.step import Receiver
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.delete_groups import (
    DELETE_GROUPS,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from rookery.core.wire.served import Served


class DeleteGroupsHandler:
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
