"""The groups of one partition of `__consumer_offsets`, with the alarms that their deadlines need."""

from collections.abc import Callable
from typing import Any

from rookery.broker.coordination.alarms import Alarms
from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.shard import ProducerTransaction, Shard, instant
from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.records import GroupsRecord, encode
from rookery.broker.groups.state import AnyGroup, GroupsState
from rookery.broker.groups.step import Step
from rookery.broker.replication.partition import Partition
from rookery.core.clock import Clock, Scheduler
from rookery.core.event_logging import get_logger

_log = get_logger("broker.groups")


class GroupShard(Shard[GroupsRecord]):
    """`groups` is what the log says; use it to decide, then `run_for`."""

    def __init__(
        self,
        partition: Partition,
        epoch: int,
        groups: GroupsState,
        commits: CommitQueue,
        clock: Clock,
        scheduler: Scheduler,
        *,
        codec: int,
        on_lost: Callable[[Shard[Any]], None],
        on_rebalances: Callable[[int], None],
    ) -> None:
        super().__init__(partition, epoch, groups, encode, commits, clock, codec=codec, on_lost=on_lost)
        self.groups = groups
        self._time = clock
        self._on_rebalances = on_rebalances
        self._alarms: Alarms[str] = Alarms(scheduler, self._ring)

    def run_for(self, group_id: str, step: Step, within: ProducerTransaction | None = None) -> None:
        """Carry out a step of one group."""
        before = self.groups.groups.get(group_id)
        rebalances = _rebalances(before)
        self.run(step, within)
        if before is not None:
            _log_history(before)  # it may be of another protocol by now
        now = self.groups.groups.get(group_id)
        self._on_rebalances(_rebalances(now) - (rebalances if now is before else 0))
        self._arm(group_id)

    def _arm(self, group_id: str) -> None:
        group = self.groups.groups.get(group_id)
        if group is not None and not self.closed:
            now = instant(self._time)
            group.settle(now)
            _log_history(group)
            self._alarms.set(group_id, group.due, now.ms)

    def _ring(self, group_id: str) -> None:
        self.run_for(group_id, self.groups.on_time(group_id, instant(self._time)))

    def arm_all(self) -> None:
        for group_id in self.groups.groups:
            self._arm(group_id)

    def run_for_each(self, decide: Callable[[AnyGroup], Step]) -> None:
        """Carry out a step of every group that has anything to write."""
        for group in list(self.groups.groups.values()):
            step = decide(group)
            if step.records and not self.closed:
                self.run(step)

    def close(self) -> None:
        self._alarms.clear()
        super().close()


def _rebalances(group: AnyGroup | None) -> int:
    return group.rebalances if isinstance(group, ConsumerGroup) else 0


def _log_history(group: AnyGroup) -> None:
    """The history of the group goes to the log, one event for each thing that happened."""
    for event in group.history.take():
        log = _log.debug if event.is_detail else _log.info
        log(
            "group.rebalance", group=group.id, what=event.what, member=event.member, why=event.why,
            epoch=group.epoch, members=len(group.members), **event.more,
        )  # fmt: skip
