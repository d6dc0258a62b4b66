"""Leaders that the network loses, not the process: cut off without a word while librdkafka and our own client go on."""

from collections.abc import Iterator

import pytest

from tests.cluster.load import Load
from tests.cluster.local import wait_for
from tests.cluster.networked import NetworkedCluster, networked_cluster
from tests.cluster.own_load import OwnLoad
from tests.cluster.replicas import check_history_and_replicas

pytestmark = pytest.mark.alone

TOPIC = "orders"
OWN_TOPIC = "own-orders"
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
        for topic in (TOPIC, OWN_TOPIC):
            running.create_topic(topic, PARTITIONS, 3, {"min.insync.replicas": "2"})
        yield running


def others_lead(cluster: NetworkedCluster, victim: int) -> bool:
    return all(
        cluster.partition(topic, index).leader not in (victim, -1)
        for topic in (TOPIC, OWN_TOPIC)
        for index in range(PARTITIONS)
    )


def wait_in_sync(cluster: NetworkedCluster) -> None:
    for topic in (TOPIC, OWN_TOPIC):
        cluster.wait_in_sync(topic, PARTITIONS)


def go_on_everywhere(*loads: Load) -> None:
    for load in loads:
        load.go_on_everywhere(AFTER_FAULT)


@pytest.mark.row(11, 12, 17, 20, 63, 69, 79)
@pytest.mark.invariant("P1", "P4", "P11", "T1")
def test_a_leader_cut_off_loses_nothing_that_was_acknowledged(cluster: NetworkedCluster) -> None:
    """Once from the other nodes, so that clients still reach a leader that cannot acknowledge; once from everybody;
    and once the active controller, which leads a partition too. Our own clients make no more requests meanwhile."""
    with (
        Load(cluster, TOPIC, PARTITIONS, IMPATIENT) as load,
        OwnLoad(cluster, OWN_TOPIC, PARTITIONS) as own,
    ):
        go_on_everywhere(load, own)
        victims = [
            (cluster.leader(TOPIC, 0), cluster.cut_from_nodes),
            (cluster.leader(TOPIC, 1), cluster.cut_from_all),
        ]
        for victim, cut in victims:
            with own.calm():
                cut(victim)
                wait_for(lambda victim=victim: others_lead(cluster, victim), "other leaders", 60)  # type: ignore[misc]
                go_on_everywhere(load, own)
                cluster.heal()
            wait_in_sync(cluster)
            go_on_everywhere(load, own)
        controller = cluster.active_controller()
        with own.calm():
            cluster.cut_from_nodes(controller)
            wait_for(lambda: others_lead(cluster, controller), "other leaders", 60)
            go_on_everywhere(load, own)
            cluster.heal()
        wait_in_sync(cluster)
    check_history_and_replicas(cluster, load, TOPIC, PARTITIONS)
    check_history_and_replicas(cluster, own, OWN_TOPIC, PARTITIONS)
    truncated = sum(cluster.log(node_id).count("log.truncated") for node_id in cluster.ids)
    print(f"{load.acked} acknowledged; leaders that returned cut {truncated} times what nobody had acknowledged")
