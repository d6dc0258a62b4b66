"""OffsetDelete (47): forget a group's offsets of some partitions."""

from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.deleting import delete_offsets
from rookery.broker.server.client import Call
from rookery.core.wire.apis.offset_delete import OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse
from rookery.core.wire.served import Served


class OffsetDeleteHandler:
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
