"""Heartbeat (12): a member is alive, and hears whether the group rebalances.

A coordinator that is still loading answers well: it will give every member a whole session when it has
loaded.
"""

from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.server.client import Call
from rookery.core.errors import CoordinatorLoadInProgressError, ErrorCode, InvalidGroupIdError, KafkaError
from rookery.core.wire.apis.heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse
from rookery.core.wire.served import Served


class HeartbeatHandler:
    served = Served(HEARTBEAT, 0, 4)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
        code = ErrorCode.NONE
        try:
            if not request.group_id:
                raise InvalidGroupIdError("the group id is empty")
            self._groups.shard_of(request.group_id).groups.heartbeat(request, self._groups.now())
        except CoordinatorLoadInProgressError:
            pass
        except KafkaError as error:
            code = coordinator_error(error)
            call.error(code)
        return HeartbeatResponse(error_code=code)
