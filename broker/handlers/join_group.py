"""JoinGroup (11): become, or stay, a member of a group; answered when the join phase of the rebalance
ends."""

from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.joining import Join, not_joined
from rookery.broker.server.client import Call
from rookery.core.wire.apis.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from rookery.core.wire.served import Served


class JoinGroupHandler:
    served = Served(JOIN_GROUP, 0, 9)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: JoinGroupRequest, call: Call) -> Any:
        reply: Reply[JoinGroupResponse] = Reply(call, lambda code: not_joined(request.member_id, code))
        join = Join.of(request, call.version, call.client_id or "", f"/{call.client.address}", reply)
        self._groups.run(
            request.group_id, reply, lambda state, now: state.join(request.group_id, join, now), named=True
        )
        return reply.outcome()
