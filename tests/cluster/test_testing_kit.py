"""The testing kit over real processes: the same interface, and a reason where a process cannot do it."""

from collections.abc import Iterator

import pytest

from rookery.testing import Cluster, UnsupportedFault
from tests.unit.testing.clients import Sender


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, processes=True) as running:
        running.create_topic("t", replication_factor=3)
        yield running


@pytest.mark.parametrize("fault", ["kill", "stop_node"])
def test_writes_go_on_without_the_leader(cluster: Cluster, fault: str) -> None:
    sender = Sender(cluster, "t")
    leader = cluster.leader("t")
    with getattr(cluster, fault)(leader):
        assert not cluster.nodes.is_up(leader)
        assert sender.send() == 10
    cluster.wait_in_sync("t")
    assert cluster.nodes.is_up(leader)
    assert {record.value for record in cluster.records("t")} >= set(sender.history.acked[0].values())


def test_a_paused_process_is_replaced(cluster: Cluster) -> None:
    leader = cluster.leader("t")
    with cluster.pause(leader):
        cluster.wait_for(lambda: cluster.leader("t") != leader, "another leader")
    cluster.wait_in_sync("t")


@pytest.mark.parametrize(
    ("fault", "arguments"),
    [
        ("partition", ([1], [2, 3])),
        ("slow", (1, 10)),
        ("disk_full", (1,)),
        ("clock_jump", (1, 1000)),
        ("lose_power", (1,)),
        ("drop_answers", ("Produce",)),
    ],
)
def test_what_processes_cannot_do_is_refused_with_the_reason(
    cluster: Cluster, fault: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises(UnsupportedFault, match="use nodes in this process"):
        getattr(cluster, fault)(*arguments)
