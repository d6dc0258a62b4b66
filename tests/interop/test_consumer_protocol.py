"""Groups of the consumer protocol with real clients: they join, leave, crash and return while topics change."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.group_members import MemberProcess, members, start, wait_for_shares

CLIENTS = ("java", "confluent")
SESSION_S = 6.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(
        1,
        group__consumer__session__timeout__ms=str(int(SESSION_S * 1000)),
        group__consumer__min__session__timeout__ms="1000",
        group__consumer__heartbeat__interval__ms="300",
        group__consumer__min__heartbeat__interval__ms="100",
        group__consumer__assignment__interval__ms="100",
        group__initial__rebalance__delay__ms="300",
        offsets__topic__num__partitions="4",
    ) as running:
        yield running


def member(client: str, cluster: LocalCluster, group: str, topic: str, **options: Any) -> MemberProcess:
    return start(client, cluster.bootstrap, group, topic, protocol="consumer", **options)


def produce(cluster: LocalCluster, topic: str, partitions: int, text: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for partition in range(partitions):
        producer.produce(topic, text.encode(), partition=partition)
    assert producer.flush(30) == 0


def kind_of(cluster: LocalCluster, group: str) -> tuple[str, str]:
    """Type and state of a group."""
    listed = cluster.admin().list_consumer_groups().result(30).valid
    return next(((each.type.name, each.state.name) for each in listed if each.group_id == group), ("", ""))


@pytest.mark.row(87, 90, 107)
@pytest.mark.invariant("G7", "G13")
@pytest.mark.parametrize("client", CLIENTS)
def test_members_join_leave_and_crash(cluster: LocalCluster, client: str) -> None:
    topic = group = f"shared-{client}"
    cluster.create_topic(topic, 6)
    with members(member(client, cluster, group, topic)) as group_of:
        wait_for_shares(group_of, [6])
        group_of.append(member(client, cluster, group, topic))
        wait_for_shares(group_of, [3, 3])
        assert kind_of(cluster, group) == ("CONSUMER", "STABLE")
        produce(cluster, topic, 6, "first")
        wait_for(lambda: sum(len(each.records) for each in group_of) == 6, "six records")
        group_of.append(member(client, cluster, group, topic))
        wait_for_shares(group_of, [2, 2, 2])
        group_of.pop(0).stop()
        wait_for_shares(group_of, [3, 3], SESSION_S - 1)
        group_of.pop(0).kill()
        wait_for_shares(group_of, [6], 3 * SESSION_S)
        produce(cluster, topic, 6, "second")
        wait_for(lambda: len([1 for *_, text in group_of[0].records if text == "second"]) == 6, "what came later")


@pytest.mark.row(88, 95)
@pytest.mark.parametrize("client", ["confluent"])
def test_topics_and_partitions_that_are_added(cluster: LocalCluster, client: str) -> None:
    group = f"grown-{client}"
    cluster.create_topic(f"{group}-1", 2)
    with members(member(client, cluster, group, f"^{group}-.*")) as (only,):
        wait_for(lambda: len(only.assigned) == 2, "the first topic")
        cluster.admin().create_partitions([NewPartitions(f"{group}-1", 4)])[f"{group}-1"].result(30)
        wait_for(lambda: len(only.assigned) == 4, "two more partitions", 30)
        cluster.create_topic(f"{group}-2", 3)
        wait_for(lambda: len(only.assigned) == 7, "a topic that matches", 30)


@pytest.mark.row(95)
@pytest.mark.invariant("G14")
@pytest.mark.parametrize("client", ["confluent"])
def test_a_static_member_restarts_without_moving_anything(cluster: LocalCluster, client: str) -> None:
    topic = group = f"static-{client}"
    cluster.create_topic(topic, 4)
    first, second = (member(client, cluster, group, topic, instance=name) for name in "ab")
    with members(first, second) as group_of:
        wait_for_shares(group_of, [2, 2])
        had, changes = first.assigned, second.assignments
        first.stop()
        time.sleep(1)  # it stays away for a while
        group_of.append(member(client, cluster, group, topic, instance="a"))
        wait_for(lambda: group_of[-1].assigned == had, "what it had")
        assert second.assignments == changes


@pytest.mark.row(95)
def test_a_rolling_restart_of_all_members(cluster: LocalCluster) -> None:
    topic = group = "rolling"
    cluster.create_topic(topic, 6)
    with members(*(member(CLIENTS[number % 2], cluster, group, topic) for number in range(3))) as group_of:
        wait_for_shares(group_of, [2, 2, 2])
        for number in range(3):
            group_of.pop(0).stop()
            group_of.append(member(CLIENTS[number % 2], cluster, group, topic))
            wait_for_shares(group_of, [2, 2, 2])
