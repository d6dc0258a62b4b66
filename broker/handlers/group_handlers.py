"""The handlers of the group coordinator."""

from rookery.broker.coordination.internal_topic import CoordinatorFinder
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.handlers.classic_groups import (
    HeartbeatHandler,
    JoinGroupHandler,
    LeaveGroupHandler,
    SyncGroupHandler,
)
from rookery.broker.handlers.find_coordinator import GROUP, FindCoordinatorHandler
from rookery.broker.handlers.group_admin import (
    DeleteGroupsHandler,
    DescribeGroupsHandler,
    ListGroupsHandler,
    OffsetDeleteHandler,
)
from rookery.broker.handlers.offset_commit import OffsetCommitHandler
from rookery.broker.handlers.offset_fetch import OffsetFetchHandler
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.handlers.txn_offset_commit import TxnOffsetCommitHandler
from rookery.broker.server.dispatch import Handler, StartTask
from rookery.broker.transactions.verification import Verification


def group_handlers(
    groups: GroupCoordinator,
    cluster: ClusterPort,
    controller: ControllerPort,
    verification: Verification,
    start_task: StartTask,
) -> list[Handler]:
    finder = CoordinatorFinder(groups.topic, cluster, controller, start_task)
    return [
        FindCoordinatorHandler({GROUP: finder}),
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
    ]
