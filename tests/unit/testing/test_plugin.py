"""Clusters of a session are given to the next test only if they are whole."""

from typing import Any, cast

import pytest

from rookery.testing.cluster import Cluster
from rookery.testing.plugin import Clusters


class Sample:
    """A cluster as far as the plugin cares."""

    ids = (1, 2)

    def __init__(self, down: int = 0, failure: Exception | None = None) -> None:
        self._down = down
        self._failure = failure
        self.stopped = False
        self.nodes = self

    def undo_all(self) -> None:
        if self._failure is not None:
            raise self._failure

    def is_up(self, node_id: int) -> bool:
        return node_id != self._down

    def stop(self) -> None:
        self.stopped = True


def shared(cluster: Sample) -> tuple[Clusters, Cluster]:
    clusters = Clusters()
    clusters._running["shape"] = cast(Any, cluster)
    return clusters, cast(Cluster, cluster)


def test_a_whole_cluster_stays() -> None:
    clusters, cluster = shared(sample := Sample())
    clusters.give_back(cluster)
    assert clusters._running
    assert not sample.stopped
    clusters.stop()
    assert sample.stopped


def test_one_with_a_node_down_goes() -> None:
    clusters, cluster = shared(sample := Sample(down=2))
    clusters.give_back(cluster)
    assert not clusters._running
    assert sample.stopped


def test_one_whose_faults_cannot_be_undone_goes_and_the_test_says_so() -> None:
    clusters, cluster = shared(sample := Sample(failure=OSError("no room")))
    with pytest.raises(OSError, match="no room"):
        clusters.give_back(cluster)
    assert not clusters._running
    assert sample.stopped
