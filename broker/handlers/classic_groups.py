"""Membership of classic groups: JoinGroup (11), SyncGroup (14), Heartbeat (12), LeaveGroup (13)."""

from typing import Any

from rookery.broker.coordination.reply import Reply, coordinator_error
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.joining import Join, not_joined, not_synced
from rookery.broker.handlers.authorize import READ, check_group, group_denied
from rookery.broker.server.client import Call
from rookery.core.errors import CoordinatorLoadInProgressError, ErrorCode, InvalidGroupIdError, KafkaError
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse
from rookery.core.wire.apis.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from rookery.core.wire.apis.leave_group import LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse
from rookery.core.wire.apis.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupResponse
from rookery.core.wire.served import Served


class JoinGroupHandler:
    """Become, or stay, a member of a group; answered when the join phase of the rebalance ends."""

    served = Served(JOIN_GROUP, 0, 9)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: JoinGroupRequest, call: Call) -> Any:
        reply: Reply[JoinGroupResponse] = Reply(call, lambda code: not_joined(request.member_id, code))
        if not call.access.group(READ, request.group_id):
            reply.refuse(group_denied(READ))
            return reply.outcome()
        join = Join.of(request, call.version, call.client_id or "", f"/{call.client.address}", reply)
        self._groups.run(
            request.group_id, reply, lambda state, now: state.join(request.group_id, join, now), named=True
        )
        return reply.outcome()


class SyncGroupHandler:
    """The leader hands in the assignment, every member gets its own."""

    served = Served(SYNC_GROUP, 0, 5)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: SyncGroupRequest, call: Call) -> Any:
        reply: Reply[SyncGroupResponse] = Reply(call, not_synced)
        if not call.access.group(READ, request.group_id):
            reply.refuse(group_denied(READ))
            return reply.outcome()
        self._groups.run(
            request.group_id, reply, lambda state, now: state.sync(request, reply, now), named=True
        )
        return reply.outcome()


class HeartbeatHandler:
    """A member is alive, and learns whether the group rebalances. A coordinator that is still loading answers without
    an error: it will give every member a whole session when it has loaded."""

    served = Served(HEARTBEAT, 0, 4)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
        code = ErrorCode.NONE
        try:
            check_group(call, READ, request.group_id)
            if not request.group_id:
                raise InvalidGroupIdError("the group id is empty")
            self._groups.shard_of(request.group_id).groups.heartbeat(request, self._groups.now())
        except CoordinatorLoadInProgressError:
            pass
        except KafkaError as error:
            code = coordinator_error(error)
            call.error(code)
        return HeartbeatResponse(error_code=code)


SEVERAL_MEMBERS_FROM = 3


class LeaveGroupHandler:
    """Leave a group; from v3 on several members at once."""

    served = Served(LEAVE_GROUP, 0, 5)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: LeaveGroupRequest, call: Call) -> Any:
        reply: Reply[LeaveGroupResponse] = Reply(call, lambda code: LeaveGroupResponse(error_code=code))
        if not call.access.group(READ, request.group_id):
            reply.refuse(group_denied(READ))
            return reply.outcome()
        single = call.version < SEVERAL_MEMBERS_FROM
        self._groups.run(
            request.group_id, reply, lambda state, now: state.leave(request, reply, now, single=single), named=True
        )
        return reply.outcome()
