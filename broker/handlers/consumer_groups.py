"""Groups of the consumer protocol: ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69)."""

from typing import Any

from rookery.broker.coordination.reply import Reply, coordinator_error
from rookery.broker.groups.consumer.group import Client
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.listing import described_consumer
from rookery.broker.handlers.group_admin import ALL_GROUP_OPERATIONS
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.wire.apis.consumer_group_describe import (
    CONSUMER_GROUP_DESCRIBE,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from rookery.core.wire.apis.consumer_group_heartbeat import (
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rookery.core.wire.served import Served


class ConsumerGroupHeartbeatHandler:
    """A member joins, stays, leaves, and hears what it may read."""

    served = Served(CONSUMER_GROUP_HEARTBEAT, 0, 1)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: ConsumerGroupHeartbeatRequest, call: Call) -> Any:
        reply = _WithReason(call)
        try:
            self._groups.check_consumer_protocol()
        except KafkaError as error:
            reply.refuse(error)
            return reply.outcome()
        client = Client(call.client_id or "", f"/{call.client.address}")
        self._groups.run(
            request.group_id,
            reply,
            lambda state, now: state.consumer_heartbeat(request, call.version, client, reply, now),
        )
        return reply.outcome(blocks=False)


class _WithReason(Reply[ConsumerGroupHeartbeatResponse]):
    """Says in words what is wrong: clients show it to their users."""

    def __init__(self, call: Call) -> None:
        super().__init__(call, _refusal)

    def refuse(self, error: KafkaError) -> None:
        code = coordinator_error(error)
        self._call.error(code)
        self.complete(_refusal(code, error.message))


def _refusal(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


class ConsumerGroupDescribeHandler:
    """Epochs, members and assignments."""

    served = Served(CONSUMER_GROUP_DESCRIBE, 0, 1)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: ConsumerGroupDescribeRequest, call: Call) -> ConsumerGroupDescribeResponse:
        groups = [self._describe(name, call) for name in request.group_ids]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = ALL_GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    def _describe(self, name: str, call: Call) -> DescribedGroup:
        try:
            self._groups.check_consumer_protocol()
            return described_consumer(self._groups.shard_of(name).groups, name)
        except KafkaError as error:
            code = coordinator_error(error)
            call.error(code)
            return DescribedGroup(
                error_code=code,
                error_message=error.message,
                group_id=name,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=(),
            )
