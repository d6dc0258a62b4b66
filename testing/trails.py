"""When each replica of a partition got how far, noted as it happens. Of nodes in this process only."""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import ANYTHING, Waiters
from rookery.core.metadata.topic_names import INTERNAL
from rookery.core.types import TopicPartition
from rookery.testing.timeline import Timeline

STEPS_MAX = 10_000
"""Of one replica; the oldest go first."""
REPLICAS_MAX = 10_000


class Step(NamedTuple):
    """From `at_s` of the timeline on the replica's log ended at `log_end`, and it knew this `high_watermark`."""

    at_s: float
    log_end: int
    high_watermark: int


class Trail:
    """The steps of one replica, over all lives of its node."""

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.steps: deque[Step] = deque(maxlen=STEPS_MAX)

    def held_since(self, offset: int) -> float | None:
        """When the log grew past `offset` for the last time; None if it does not hold it, or got it before the first
        step that is known."""
        since = None
        for before, step in self._pairs():
            if step.log_end <= offset:
                since = None
            elif before.log_end <= offset:
                since = step.at_s
        return since

    def committed_since(self, offset: int) -> float | None:
        """When this replica first knew that `offset` is committed."""
        for before, step in self._pairs():
            if before.high_watermark <= offset < step.high_watermark:
                return step.at_s
        return None

    def _pairs(self) -> Iterable[tuple[Step, Step]]:
        return pairwise(self.steps)


class Trails:
    """Of all replicas of a cluster. For the nodes' loop."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._trails: dict[tuple[str, int, int], Trail] = {}
        self._committed: dict[TopicPartition, tuple[UUID, int]] = {}

    def watch(self, node_id: int, waiters: Waiters[Partition]) -> None:
        """Note what the partitions of a new node do. They wake the requests that wait for them after each step."""
        wake = waiters.wake

        def noted(partition: Partition, what: int = ANYTHING) -> None:
            self._note(node_id, partition)
            wake(partition, what)

        waiters.wake = noted  # type: ignore[method-assign, assignment]

    def _note(self, node_id: int, partition: Partition) -> None:
        place = (partition.topic, partition.index, node_id)
        trail = self._trails.get(place)
        if trail is None or trail.topic_id != partition.topic_id:
            if len(self._trails) >= REPLICAS_MAX:
                oldest = next(iter(self._trails))
                del self._trails[oldest]
                self._committed.pop(TopicPartition(*oldest[:2]), None)
            trail = self._trails[place] = Trail(partition.topic_id)
        log = partition.log
        step = Step(self._timeline.now_s, log.end_offset, log.high_watermark)
        if trail.steps and trail.steps[-1][1:] == step[1:]:
            return
        trail.steps.append(step)
        if partition.leading is not None and partition.topic not in INTERNAL:
            self._report_committed(node_id, partition, step.high_watermark)

    def _report_committed(self, node_id: int, partition: Partition, high_watermark: int) -> None:
        """Put what a leader has committed on the timeline, once."""
        known = self._committed.get(partition.topic_partition)
        before = known[1] if known is not None and known[0] == partition.topic_id else partition.log.start_offset
        if high_watermark > before:
            self._committed[partition.topic_partition] = (partition.topic_id, high_watermark)
            self._timeline.committed(f"node-{node_id}", str(partition.topic_partition), before, high_watermark)

    def of(self, topic: str, partition: int, nodes: list[int]) -> dict[int, Trail]:
        """By node, of those that have a trail."""
        found = ((node_id, self._trails.get((topic, partition, node_id))) for node_id in nodes)
        return {node_id: trail for node_id, trail in found if trail is not None}
