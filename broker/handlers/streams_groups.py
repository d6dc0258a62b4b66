"""Groups of Kafka Streams' own protocol (KIP-1071) are not served: StreamsGroupHeartbeat (88) is answered so that the
application ends with a sentence that says what to set.

Without an answer of ours the Java client says only that the cluster does not support the protocol. It shows the text of
an INVALID_REQUEST, and not that of an UNSUPPORTED_VERSION.
"""

from rookery.broker.handlers.authorize import READ, check_group
from rookery.broker.server.client import Call
from rookery.core.errors import InvalidRequestError, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.wire.apis.streams_group_heartbeat import (
    STREAMS_GROUP_HEARTBEAT,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from rookery.core.wire.served import Served

WHAT_TO_SET = "groups of the protocol 'streams' (KIP-1071) are not served here: set group.protocol=classic"
_log = get_logger("broker.groups")


class StreamsGroupHeartbeatHandler:
    served = Served(STREAMS_GROUP_HEARTBEAT, 0, 0)

    def handle(self, request: StreamsGroupHeartbeatRequest, call: Call) -> StreamsGroupHeartbeatResponse:
        try:
            check_group(call, READ, request.group_id)
            raise InvalidRequestError(f"group {request.group_id!r}: {WHAT_TO_SET}")
        except KafkaError as error:
            call.error(error.code)
            _log.debug("group.streams.refused", group=request.group_id, client=call.client_id, why=error.message)
            return StreamsGroupHeartbeatResponse(
                error_code=error.code,
                error_message=error.message,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                heartbeat_interval_ms=0,
                acceptable_recovery_lag=0,
                task_offset_interval_ms=0,
            )
