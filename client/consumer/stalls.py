"""Finds partitions that stand still: they should be read, and for a while no record came and no leader said that there
is none. Nothing is done about it here, since whatever can be done is being done: somebody should know."""

from collections.abc import Mapping
from typing import NamedTuple

from rookery.client.consumer.partition import Partition, Phase
from rookery.core.types import TopicPartition

AFTER_S = 30.0
_WAITS = {
    Phase.COMMITTED: "looks up the group's committed offset",
    Phase.RESET: "asks the leader for the offset to begin at",
    Phase.VALIDATE: "asks the new leader whether it has the records that were read",
    Phase.FETCH: "fetches",
}


def doing(partition: Partition, *, has_leader: bool) -> str:
    """What is done for a partition now, in words."""
    if partition.problem is not None:
        return f"stopped: {partition.problem}"
    if partition.paused:
        return "paused"
    if partition.revoking:
        return "is given up"
    return _WAITS[partition.phase] if has_leader else "waits for a leader"


class _Seen(NamedTuple):
    """Where a partition stood, and since when."""

    at: float
    where: tuple[int, int]


class Stalls:
    """`since`: the partitions that stand still, and the moment when they were seen to go on for the last time."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._seen: dict[TopicPartition, _Seen] = {}
        self.since: dict[TopicPartition, float] = {}

    def nothing_new(self, partition: Partition, now: float) -> None:
        """The leader answered, and there is nothing to be read: that is in order."""
        self._seen[partition.place] = _Seen(now, _where(partition))

    def look(
        self, partitions: Mapping[TopicPartition, Partition], now: float
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The partitions that stand still and did not at the last look, and those that go on again."""
        for tp in self._seen.keys() - partitions.keys():
            del self._seen[tp]
        for tp, partition in partitions.items():
            seen = self._seen.get(tp)
            if seen is None or seen.where != _where(partition) or _rests(partition):
                self._seen[tp] = _Seen(now, _where(partition))
        still = {tp: seen.at for tp, seen in self._seen.items() if now - seen.at > self._after_s}
        begun, over = sorted(still.keys() - self.since.keys()), sorted(self.since.keys() - still.keys())
        self.since = still
        return begun, over


def _where(partition: Partition) -> tuple[int, int]:
    return partition.incarnation, partition.fetch_offset


def _rests(partition: Partition) -> bool:
    """Nobody wants more of it now, or what is wrong has been reported."""
    return partition.paused or partition.revoking or partition.unread or partition.problem is not None
