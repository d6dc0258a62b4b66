"""A takeover is timed from the last answer of the leader before."""

from uuid import UUID

import pytest

from rookery.broker.node.partition_metrics import Failovers
from rookery.core.metadata.image import EMPTY, Changes, Partition, PartitionChange
from rookery.core.metrics import Metrics
from rookery.core.testing.clock import ManualClock

TOPIC = UUID(int=7)
ME, OTHER = 1, 2


class Watched:
    """A broker that follows one partition, or does not."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answered: float | None = None
        self.metrics = Metrics()
        self._failovers = Failovers(self.metrics, ME, self.clock.monotonic, lambda *_: self.answered)
        self._epoch = 0

    def lead(self, before: int | None, after: int | None) -> None:
        """The partition's leader changes; None is a partition that is not there."""
        old, new = self._partition(before), self._partition(after)
        change = PartitionChange("orders", TOPIC, 0, old, new)
        self._failovers.publish(Changes(EMPTY, EMPTY, partitions=(change,)))

    def _partition(self, leader: int | None) -> Partition | None:
        self._epoch += 1
        if leader is None:
            return None
        return Partition(replicas=(ME, OTHER), isr=(ME, OTHER), leader=leader, leader_epoch=self._epoch)

    @property
    def seen(self) -> tuple[float, float]:
        """How many, and how long in all."""
        count = self.metrics.value("rookery_failover_seconds_count")
        total = self.metrics.value("rookery_failover_seconds_sum")
        return count or 0.0, total or 0.0


@pytest.mark.row(65, 152)
def test_the_new_leader_reports_how_long_the_old_one_was_silent() -> None:
    watched = Watched()
    watched.answered = watched.clock.monotonic()
    watched.clock.advance(0.75)
    watched.lead(OTHER, ME)
    assert watched.seen == pytest.approx((1, 0.75))


def test_the_time_without_any_leader_counts() -> None:
    watched = Watched()
    watched.answered = watched.clock.monotonic()
    watched.clock.advance(2)
    watched.lead(OTHER, -1)
    watched.answered = None  # nobody is followed any more
    watched.clock.advance(3)
    watched.lead(-1, ME)
    assert watched.seen == pytest.approx((1, 5))


def test_what_others_take_over_is_not_counted_here() -> None:
    watched = Watched()
    watched.answered = watched.clock.monotonic()
    watched.lead(OTHER, 3)
    watched.lead(None, ME)
    assert watched.seen == (0, 0)


def test_a_partition_that_was_deleted_meanwhile_is_forgotten() -> None:
    watched = Watched()
    watched.answered = watched.clock.monotonic()
    watched.lead(OTHER, -1)
    watched.lead(-1, None)
    watched.answered = None
    watched.lead(-1, ME)
    assert watched.seen == (0, 0)
