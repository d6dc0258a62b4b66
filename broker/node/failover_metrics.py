"""How long partitions were without a leader that answers, told by the broker that took over."""

from collections.abc import Callable
from uuid import UUID

from rookery.core.metadata.image import Changes, Partition
from rookery.core.metrics import Metrics

Key = tuple[UUID, int]
AnsweredAt = Callable[[UUID, int], float | None]
BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)


class Failovers:
    """Hears of changes before those who carry them out: it has to ask whom this broker followed until now."""

    def __init__(
        self, metrics: Metrics, node_id: int, time: Callable[[], float], answered_at: AnsweredAt
    ) -> None:
        """`answered_at` says when the leader of a partition last answered this broker."""
        self._node_id = node_id
        self._time = time
        self._answered_at = answered_at
        self._leaderless: dict[Key, float] = {}
        self._seconds = metrics.histogram(
            "rookery_failover_seconds",
            "From the last answer of a partition's old leader to the moment this broker took over.",
            buckets=BUCKETS_S,
        )

    def publish(self, changes: Changes) -> None:
        for change in changes.partitions:
            if change.after is None:
                self._leaderless.pop((change.topic_id, change.partition), None)
            elif change.before is not None and change.leader_changed:
                self._changed((change.topic_id, change.partition), change.after)

    def _changed(self, key: Key, after: Partition) -> None:
        since = self._leaderless.pop(key, None)
        if since is None:
            since = self._answered_at(*key)
        if since is None:
            return  # of partitions that this broker did not follow others tell
        if after.leader == self._node_id:
            self._seconds.observe(max(0.0, self._time() - since))
        elif not after.has_leader:
            self._leaderless[key] = since
