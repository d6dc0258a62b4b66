"""Containers are killed, paused, cut off and restarted while clients outside go on: nothing acknowledged is lost."""

import time

import pytest

from tests.cluster.load import Load
from tests.cluster.local import wait_for
from tests.containers.cluster import ContainerCluster
from tests.containers.report import tell

pytestmark = pytest.mark.alone

TOPIC = "faults"
PARTITIONS = 3
AFTER_FAULT = 300
"""Acknowledgements that must come after each fault before the next."""
REST_S = 1.0


@pytest.fixture(scope="module", autouse=True)
def _topic(cluster: ContainerCluster) -> None:
    cluster.create_topic(TOPIC, PARTITIONS)
    cluster.wait_in_sync(TOPIC, PARTITIONS)


def at_rest(load: Load) -> int:
    """How much was acknowledged in all, once nothing is any more: answers that were on their way have come in."""
    seen: list[int] = []

    def same_for_a_second() -> bool:
        time.sleep(REST_S)
        seen.append(load.acked)
        return len(seen) > 1 and seen[-1] == seen[-2]

    wait_for(same_for_a_second, "acknowledgements to stop", 60)
    return seen[-1]


def whole(cluster: ContainerCluster) -> None:
    cluster.wait_in_sync(TOPIC, PARTITIONS)
    cluster.wait_healthy()


def check(load: Load) -> None:
    assert load.errors == []
    assert load.history.anomalies() == []


def tell_gap(what: str, load: Load, begun: float) -> None:
    tell(f"{what}: longest gap {load.longest_gap_s(begun):.2f} s, {load.acked} acknowledged in all")


@pytest.mark.row(152, 156)
def test_the_compose_file_brings_up_a_healthy_cluster(cluster: ContainerCluster) -> None:
    whole(cluster)
    for name, total in (("kafka_controller_kafkacontroller_activecontrollercount", 1), ("kafka_brokers", 3)):
        wait_for(
            lambda name=name, total=total: sum(cluster.metric(n, name) for n in cluster.ids) == total,  # type: ignore[misc]
            f"{total} as the sum of {name}",
        )
    described = cluster.partition(TOPIC, 0)
    assert len(described.replicas) == 3
    assert cluster.compose("exec", cluster.service(1), "id", "-u").strip() == "1000"
    inside = cluster.compose(
        "exec", cluster.service(2), "rookery", "topic", "list", "-o", "name", "--bootstrap", "kafka-3:19092"
    )
    assert TOPIC in inside.split()
    tell("memory per idle node: " + ", ".join(f"{cluster.memory_mb(n):.0f} MB" for n in cluster.ids))


@pytest.mark.row(63, 65, 67)
@pytest.mark.invariant("P1", "P4")
def test_a_leader_is_killed(mended: ContainerCluster) -> None:
    with Load(mended, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = mended.leader(TOPIC, 0)
        begun = time.monotonic()
        mended.kill(victim)
        load.go_on(AFTER_FAULT)
        tell_gap(f"kill of node {victim}, a leader", load, begun)
        mended.start(victim)
        whole(mended)
    check(load)


@pytest.mark.row(74, 79)
@pytest.mark.invariant("P4", "M2")
def test_the_active_controller_is_killed(mended: ContainerCluster) -> None:
    with Load(mended, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = mended.active_controller()
        begun = time.monotonic()
        mended.kill(victim)
        load.go_on(AFTER_FAULT)
        assert mended.active_controller() != victim
        tell_gap(f"kill of node {victim}, the active controller", load, begun)
        mended.start(victim)
        whole(mended)
    check(load)


@pytest.mark.row(103)
@pytest.mark.invariant("P4", "P13")
def test_two_of_three_are_killed_and_come_back(mended: ContainerCluster) -> None:
    """Nothing is acknowledged meanwhile: one replica is fewer than min.insync.replicas."""
    with Load(mended, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        begun = time.monotonic()
        for victim in (1, 2):
            mended.kill(victim)
        wait_for(lambda: not mended.active_controllers(), "the last node to be no controller")
        stalled = at_rest(load)
        assert at_rest(load) == stalled
        mended.start(1, 2)
        load.go_on(AFTER_FAULT)
        tell_gap("kill of two nodes of three, until they were back", load, begun)
        whole(mended)
    check(load)


@pytest.mark.row(69)
@pytest.mark.invariant("P4", "P11")
def test_a_leader_is_paused(mended: ContainerCluster) -> None:
    with Load(mended, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = mended.leader(TOPIC, 0)
        begun = time.monotonic()
        mended.pause(victim)
        wait_for(lambda: mended.partition(TOPIC, 0).leader not in (victim, -1), "another leader")
        load.go_on(AFTER_FAULT)
        tell_gap(f"pause of node {victim}, a leader", load, begun)
        mended.resume(victim)
        load.go_on(AFTER_FAULT)
        whole(mended)
    check(load)


@pytest.mark.row(69)
@pytest.mark.invariant("P4", "P11")
def test_a_leader_is_cut_off_from_everybody(mended: ContainerCluster) -> None:
    with Load(mended, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        victim = mended.leader(TOPIC, 0)
        begun = time.monotonic()
        mended.disconnect(victim)
        wait_for(lambda: mended.partition(TOPIC, 0).leader not in (victim, -1), "another leader")
        load.go_on(AFTER_FAULT)
        tell_gap(f"node {victim}, a leader, cut off", load, begun)
        mended.reconnect(victim)
        load.go_on(AFTER_FAULT)
        whole(mended)
    check(load)


@pytest.mark.row(77, 150)
@pytest.mark.invariant("P4")
def test_a_rolling_restart(mended: ContainerCluster) -> None:
    with Load(mended, TOPIC, PARTITIONS) as load:
        load.go_on(AFTER_FAULT)
        for node_id in mended.ids:
            begun = time.monotonic()
            mended.stop(node_id)
            assert '"event": "broker.left"' in mended.log(node_id)
            load.go_on(AFTER_FAULT)
            tell_gap(f"controlled stop of node {node_id}", load, begun)
            mended.start(node_id)
            whole(mended)
    check(load)
