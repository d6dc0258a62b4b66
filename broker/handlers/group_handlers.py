"""The handlers of the group coordinator."""

from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.handlers.classic_groups import (
    HeartbeatHandler,
    JoinGroupHandler,
    LeaveGroupHandler,
    SyncGroupHandler,
)
from rookery.broker.handlers.consumer_groups import (
    ConsumerGroupDescribeHandler,
    ConsumerGroupHeartbeatHandler,
)
from rookery.broker.handlers.group_admin import (
    DeleteGroupsHandler,
    DescribeGroupsHandler,
    ListGroupsHandler,
    OffsetDeleteHandler,
)
from rookery.broker.handlers.offset_commit import OffsetCommitHandler
from rookery.broker.handlers.offset_fetch import OffsetFetchHandler
from rookery.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from rookery.broker.server.dispatch import Handler, StartTask
from rookery.broker.transactions.verification import Verification


def group_handlers(groups: GroupCoordinator, verification: Verification, start_task: StartTask) -> list[Handler]:
    return [
        JoinGroupHandler(groups),
        SyncGroupHandler(groups),
        HeartbeatHandler(groups),
        LeaveGroupHandler(groups),
        OffsetCommitHandler(groups),
        OffsetFetchHandler(groups),
        TxnOffsetCommitHandler(groups, verification, start_task),
        OffsetDeleteHandler(groups),
        DeleteGroupsHandler(groups),
        DescribeGroupsHandler(groups),
        ListGroupsHandler(groups),
        ConsumerGroupHeartbeatHandler(groups),
        ConsumerGroupDescribeHandler(groups),
    ]
