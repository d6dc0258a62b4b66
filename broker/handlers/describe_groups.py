"""DescribeGroups (15): state and members of classic groups."""

from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.listing import described
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError
from rookery.core.wire.apis.describe_groups import (
    DESCRIBE_GROUPS,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from rookery.core.wire.served import Served

ALL_GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""Read, Delete, Describe, DescribeConfigs and AlterConfigs: what one may do to a group when nothing is
forbidden."""


class DescribeGroupsHandler:
    served = Served(DESCRIBE_GROUPS, 0, 6)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
        groups = [self._describe(name, call) for name in request.groups]
        if request.include_authorized_operations:
            for group in groups:
                group.authorized_operations = ALL_GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    def _describe(self, name: str, call: Call) -> DescribedGroup:
        try:
            return described(self._groups.shard_of(name).groups, name, call.version)
        except KafkaError as error:
            code = coordinator_error(error)
            call.error(code)
            return DescribedGroup(
                error_code=code, group_id=name, group_state="", protocol_type="", protocol_data="", members=()
            )
