"""LeaveGroup (13): leave a group; from v3 on several members at once."""

from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.server.client import Call
from rookery.core.wire.apis.leave_group import LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse
from rookery.core.wire.served import Served

SEVERAL_MEMBERS_FROM = 3


class LeaveGroupHandler:
    served = Served(LEAVE_GROUP, 0, 5)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: LeaveGroupRequest, call: Call) -> Any:
        reply: Reply[LeaveGroupResponse] = Reply(call, lambda code: LeaveGroupResponse(error_code=code))
        single = call.version < SEVERAL_MEMBERS_FROM
        self._groups.run(
            request.group_id, reply, lambda state, now: state.leave(request, reply, now, single=single), named=True
        )
        return reply.outcome()
