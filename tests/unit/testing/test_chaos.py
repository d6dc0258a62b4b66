"""Random faults are drawn from the seed alone."""

import time
from typing import Any, cast

import pytest

from rookery.testing.chaos import KINDS, MORE_KINDS, Chaos
from rookery.testing.cluster import Cluster
from rookery.testing.faults import Fault, UnsupportedFault

DRAWS = 30


class Noting:
    """Has three nodes, and takes every fault that it can."""

    ids = (1, 2, 3)

    def __init__(self, cannot: tuple[str, ...] = ()) -> None:
        self._cannot = cannot
        self.undone: list[str] = []

    def __getattr__(self, kind: str) -> Any:
        def fault(*arguments: object, **more: object) -> Fault:
            if kind in self._cannot:
                raise UnsupportedFault(kind)
            what = f"{kind} {arguments} {more}"
            return Fault(what, lambda: self.undone.append(what))

        return fault


def drawn(seed: int, cluster: Noting, kinds: tuple[str, ...] = KINDS) -> list[str]:
    quick = (0.0, 0.0)
    with Chaos(cast(Cluster, cluster), seed, kinds=kinds, lasting_s=quick, between_s=quick) as chaos:
        while len(chaos.faults) < DRAWS and chaos._thread.is_alive():
            time.sleep(0.001)
    assert cluster.undone == chaos.faults
    return chaos.faults[:DRAWS]


def test_the_same_seed_draws_the_same_faults_and_each_is_undone() -> None:
    first = drawn(7, Noting())
    assert drawn(7, Noting()) == first
    assert drawn(8, Noting()) != first
    assert {fault.split()[0] for fault in first} == {"kill", "stop_node", "pause", "partition", "slow", "drop_answers"}
    more = drawn(7, Noting(), MORE_KINDS)
    assert {fault.split()[0] for fault in more} == {"disk_full", "clock_jump", "lose_power"}


def test_what_a_cluster_cannot_do_is_not_drawn_again() -> None:
    found = drawn(7, Noting(cannot=("partition", "slow", "drop_answers")))
    assert {fault.split()[0] for fault in found} == {"kill", "stop_node", "pause"}


def test_a_cluster_that_can_do_none_of_them_is_reported() -> None:
    quick = (0.0, 0.0)
    cluster = cast(Cluster, Noting(cannot=("slow",)))
    chaos = Chaos(cluster, 7, kinds=("slow",), lasting_s=quick, between_s=quick)
    with pytest.raises(UnsupportedFault), chaos:
        chaos._thread.join(60)
