"""Leaders that the network loses, not the process: cut off without a word while clients go on."""

from collections.abc import Iterator

import pytest

from tests.cluster.load import Load
from tests.cluster.local import wait_for
from tests.cluster.networked import NetworkedCluster, networked_cluster
from tests.cluster.replicas import check_history_and_replicas

pytestmark = pytest.mark.alone

TOPIC = "orders"
PARTITIONS = 3
AFTER_FAULT = 50
IMPATIENT = {"socket.timeout.ms": 4000, "topic.metadata.refresh.interval.ms": 1000}
"""Clients that do not wait long for a node that says nothing."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[NetworkedCluster]:
    with networked_cluster(
        3,
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
        replica__lag__time__max__ms="2000",
    ) as running:
        running.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2"})
        yield running


def others_lead(cluster: NetworkedCluster, victim: int) -> bool:
    return all(cluster.partition(TOPIC, index).leader not in (victim, -1) for index in range(PARTITIONS))


@pytest.mark.row(11, 12, 63, 69, 79)
@pytest.mark.invariant("P1", "P4", "P11")
def test_a_leader_cut_off_loses_nothing_that_was_acknowledged(cluster: NetworkedCluster) -> None:
    """Once from the other nodes, so that clients still reach a leader that cannot acknowledge; once from everybody;
    and once the active controller, which leads a partition too."""
    with Load(cluster, TOPIC, PARTITIONS, IMPATIENT) as load:
        load.go_on_everywhere(AFTER_FAULT)
        victims = [
            (cluster.leader(TOPIC, 0), cluster.cut_from_nodes),
            (cluster.leader(TOPIC, 1), cluster.cut_from_all),
        ]
        for victim, cut in victims:
            cut(victim)
            wait_for(lambda victim=victim: others_lead(cluster, victim), "other leaders", 60)  # type: ignore[misc]
            load.go_on_everywhere(AFTER_FAULT)
            cluster.heal()
            cluster.wait_in_sync(TOPIC, PARTITIONS)
            load.go_on_everywhere(AFTER_FAULT)
        controller = cluster.active_controller()
        cluster.cut_from_nodes(controller)
        wait_for(lambda: others_lead(cluster, controller), "other leaders", 60)
        load.go_on_everywhere(AFTER_FAULT)
        cluster.heal()
        cluster.wait_in_sync(TOPIC, PARTITIONS)
    check_history_and_replicas(cluster, load, TOPIC, PARTITIONS)
    truncated = sum(cluster.log(node_id).count("log.truncated") for node_id in cluster.ids)
    print(f"{load.acked} acknowledged; leaders that returned cut {truncated} times what nobody had acknowledged")
