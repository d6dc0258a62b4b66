"""Groups of the consumer protocol with real clients: they join, leave, crash and return while topics change."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewPartitions

from rookery import Admin
from rookery.client.admin.types import ResourceType
from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.group_members import JOIN_S, MemberProcess, members, start, wait_for_shares
from tests.interop.java import toolchain

CLIENTS = ("java", "confluent", "franz-go")
SESSION_S = 6.0
SILENT = "no heartbeat within the session timeout"
STREAMS = Path(__file__).parent / "streams"


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
@pytest.mark.parametrize("client", [*CLIENTS, "rookery"])
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
    if not needs.aimed_at_kafka():
        wait_for(lambda: is_recorded(cluster, group), "the events of the node")


def is_recorded(cluster: LocalCluster, group: str) -> bool:
    """Three members joined, one left, one was removed; what moved when the second came, and how long that took."""
    page = json.loads(cluster.http(1, f"/events?event=group.rebalance&group={group}&limit=1000"))
    found = [event["fields"] for event in page["events"]]
    members = [(fields["what"], fields["why"]) for fields in found if fields["member"]]
    joined = [why for what, why in members if what == "joined"]
    removed = [why for what, why in members if what == "removed"]
    moved = [fields["moved"] for fields in found if fields["what"] == "assigned"]
    took = [fields["ms"] for fields in found if fields["what"] == "stable"]
    return len(joined) == 3 and removed[:2] == ["left", SILENT] and 3 in moved and min(took, default=-1) >= 0


@pytest.mark.row(88, 95)
def test_topics_and_partitions_that_are_added(cluster: LocalCluster) -> None:
    """Java and librdkafka leave the matching to the broker, franz-go matches by itself. Each has a group of its own."""
    for client in CLIENTS:
        cluster.create_topic(f"grown-{client}-1", 2)
    each = [member(client, cluster, f"grown-{client}", f"^grown-{client}-.*") for client in CLIENTS]
    with members(*each) as all_of:
        wait_for(lambda: [len(one.assigned) for one in all_of] == [2, 2, 2], "the first topic", JOIN_S)
        for client in CLIENTS:
            topic = f"grown-{client}-1"
            cluster.admin().create_partitions([NewPartitions(topic, 4)])[topic].result(30)
        wait_for(lambda: [len(one.assigned) for one in all_of] == [4, 4, 4], "two more partitions", JOIN_S)
        for client in CLIENTS:
            cluster.create_topic(f"grown-{client}-2", 3)
        wait_for(lambda: [len(one.assigned) for one in all_of] == [7, 7, 7], "a topic that matches", JOIN_S)


@pytest.mark.row(95)
@pytest.mark.invariant("G14")
@pytest.mark.parametrize("client", ["java", "confluent"])
def test_a_static_member_restarts_without_moving_anything(cluster: LocalCluster, client: str) -> None:
    """It gets what it had, and the other does not notice. franz-go 1.22 leaves its instance id out when it leaves for a
    while, which Kafka and this broker refuse."""
    topic = group = f"static-{client}"
    asyncio.run(stays_for(cluster, group, session_ms=45_000))  # however long a restart takes
    cluster.create_topic(topic, 4)
    first, second = (member(client, cluster, group, topic, instance=name) for name in "ab")
    with members(first, second) as group_of:
        wait_for_shares(group_of, [2, 2])
        had, changes = first.assigned, second.assignments
        first.stop()
        group_of.append(member(client, cluster, group, topic, instance="a"))
        wait_for(lambda: group_of[-1].assigned == had, "what it had", JOIN_S)
        assert second.assignments == changes


async def stays_for(cluster: LocalCluster, group: str, session_ms: int) -> None:
    """An option of this group alone."""
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.alter_config(ResourceType.GROUP_CONFIG, group, {"consumer.session.timeout.ms": str(session_ms)})


@pytest.mark.row(95)
def test_a_rolling_restart_of_all_members(cluster: LocalCluster) -> None:
    topic = group = "rolling"
    cluster.create_topic(topic, 8)
    everybody = [*CLIENTS, "rookery"]
    with members(*(member(client, cluster, group, topic) for client in everybody)) as group_of:
        wait_for_shares(group_of, [2, 2, 2, 2])
        for client in everybody:
            group_of.pop(0).stop()
            group_of.append(member(client, cluster, group, topic))
            wait_for_shares(group_of, [2, 2, 2, 2])


@pytest.mark.row(90, 95)
@pytest.mark.invariant("G7")
def test_a_group_changes_its_protocol_member_by_member_and_back(cluster: LocalCluster) -> None:
    """Each member is restarted with the other protocol while the others read on, first all one way, then all back."""
    topic = group = "changing"
    cluster.create_topic(topic, 6)
    with members(*(start(client, cluster.bootstrap, group, topic) for client in CLIENTS)) as everyone:
        wait_for_shares(everyone, [2, 2, 2])
        for protocol, kinds in (("consumer", ["CONSUMER"] * 3), ("classic", ["CONSUMER", "CONSUMER", "CLASSIC"])):
            for client, kind in zip(CLIENTS, kinds, strict=True):
                everyone[-3].stop()
                everyone.append(start(client, cluster.bootstrap, group, topic, protocol=protocol))
                wait_for_shares(everyone[-3:], [2, 2, 2])
                wait_for_kind(cluster, group, kind)
                text = f"{client} speaks {protocol}"
                produce(cluster, topic, 6, text)
                wait_for_text(everyone[-3:], text, 6)


def wait_for_kind(cluster: LocalCluster, group: str, kind: str) -> None:
    wait_for(lambda: kind_of(cluster, group) == (kind, "STABLE"), f"a stable group of type {kind}")


def wait_for_text(group: list[MemberProcess], text: str, partitions: int) -> None:
    """Wait until it was read from all partitions."""

    def is_read() -> bool:
        return {number for one in group for number, _, read in one.records if read == text} == set(range(partitions))

    wait_for(is_read, f"{text!r} from {partitions} partitions", JOIN_S)


def test_an_application_of_the_streams_protocol_learns_what_to_set(cluster: LocalCluster, tmp_path: Path) -> None:
    needs.own_server("Kafka serves the protocol")
    cluster.create_topic("lines")
    words = [*toolchain.command("StreamsProtocol", STREAMS), cluster.bootstrap, "lines", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=90)
    assert "set group.protocol=classic" in done.stdout, done.stdout + done.stderr
