"""Groups of the consumer protocol: ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69)."""

from functools import partial
from typing import Any

from rookery.broker.coordination.reply import Reply, coordinator_error
from rookery.broker.groups.consumer.request import Client, Sees, everything
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.listing import described_consumer
from rookery.broker.handlers.authorize import DESCRIBE, READ, check_group, described_topics, topic_denied
from rookery.broker.server.access import GROUP, TOPIC, Access
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError, TopicAuthorizationFailedError
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
    """A member joins, stays, leaves, and receives its assignment."""

    served = Served(CONSUMER_GROUP_HEARTBEAT, 0, 1)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: ConsumerGroupHeartbeatRequest, call: Call) -> Any:
        reply = _WithReason(call)
        try:
            self._groups.check_consumer_protocol()
            check_group(call, READ, request.group_id)
            if not described_topics(call.access, request.subscribed_topic_names or ()):
                raise topic_denied(DESCRIBE)
        except KafkaError as error:
            reply.refuse(error)
            return reply.outcome()
        client = Client(call.client_id or "", f"/{call.client.address}", _sees(call.client.access))
        self._groups.run(
            request.group_id,
            reply,
            lambda state, now: state.consumer_heartbeat(request, call.version, client, reply, now),
        )
        return reply.outcome(blocks=False)


def _sees(access: Access) -> Sees:
    return partial(access.shows, DESCRIBE, TOPIC) if access.restricted else everything


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


def _assigned(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


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
                    group.authorized_operations = call.access.operations(GROUP, group.group_id)
        return ConsumerGroupDescribeResponse(groups=groups)

    def _describe(self, name: str, call: Call) -> DescribedGroup:
        try:
            self._groups.check_consumer_protocol()
            check_group(call, DESCRIBE, name)
            group = described_consumer(self._groups.shard_of(name).groups, name)
            if call.access.restricted and not described_topics(call.access, _assigned(group)):
                raise TopicAuthorizationFailedError("the group has topics for which this needs DESCRIBE")
            return group
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
