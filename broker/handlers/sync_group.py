"""SyncGroup (14): the leader hands in the assignment, every member gets its own."""

from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.joining import not_synced
from rookery.broker.server.client import Call
from rookery.core.wire.apis.sync_group import SYNC_GROUP, SyncGroupRequest, SyncGroupResponse
from rookery.core.wire.served import Served


class SyncGroupHandler:
    served = Served(SYNC_GROUP, 0, 5)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: SyncGroupRequest, call: Call) -> Any:
        reply: Reply[SyncGroupResponse] = Reply(call, not_synced)
        self._groups.run(
            request.group_id, reply, lambda state, now: state.sync(request, reply, now), named=True
        )
        return reply.outcome()
