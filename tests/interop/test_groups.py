"""Consumer groups of every client, alone and mixed, on a cluster of real processes that are killed."""

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.cimpl import NewPartitions

from rookery.broker.coordination.internal_topic import partition_for
from tests.cluster.commits import commit
from tests.cluster.load import closes
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.go_programs import go_program
from tests.interop.group_members import MemberProcess, members, start, wait_for_shares
from tests.interop.java import toolchain

OFFSETS = "__consumer_offsets"
OFFSETS_PARTITIONS = 6
SESSION_S = 6.0
NEW_PROTOCOL = ("java", "confluent", "franz-go")
"""Clients with `group.protocol=consumer`."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(
        3,
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
        group__initial__rebalance__delay__ms="300",
        group__consumer__heartbeat__interval__ms="500",
        group__consumer__min__heartbeat__interval__ms="500",
        offsets__topic__num__partitions=str(OFFSETS_PARTITIONS),
        rookery__group__lag__interval__ms="500",
        auto__leader__rebalance__enable="false",  # no coordinator moves but where a test has it move
    ) as running:
        yield running


def consumer(cluster: LocalCluster, group: str, **options: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
    )


def produce(cluster: LocalCluster, topic: str, count: int, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"v{number}", partition=number % partitions)
    assert producer.flush(30) == 0


MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)
"""A coordinator moves or loads. librdkafka tries twice or not at all, and hands it to its caller."""


def committed(cluster: LocalCluster, group: str, topic: str, partitions: int) -> list[int]:
    """What the coordinator says."""
    asking = consumer(cluster, group)
    asked = [TopicPartition(topic, index) for index in range(partitions)]

    def answer() -> list[int] | None:
        try:
            return [each.offset for each in asking.committed(asked, timeout=30)]
        except KafkaException as refused:
            if refused.args[0].code() not in MOVING:
                raise
            return None

    try:
        return list(wait_for(answer, f"the coordinator of {group} to answer"))
    finally:
        asking.close()


def state(cluster: LocalCluster, group: str) -> str:
    described = cluster.admin().describe_consumer_groups([group])[group].result(30)
    return str(described.state.name)


def read_so_far(cluster: LocalCluster, group: str, topic: str, partitions: int) -> int:
    """Records before the committed offsets; what nobody committed counts as nothing."""
    return sum(max(0, offset) for offset in committed(cluster, group, topic, partitions))


def requests(cluster: LocalCluster, api: str) -> float:
    """How many of them all nodes have served."""
    prefix = "kafka_network_requestmetrics_requests_total{"
    lines = [line for node in cluster.ids for line in cluster.http(node, "/metrics").splitlines()]
    return sum(
        float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix) and f'request="{api}"' in line
    )


def coordinator(cluster: LocalCluster, group: str) -> int:
    return cluster.leader(OFFSETS, partition_for(group, OFFSETS_PARTITIONS))


class Pollers:
    """Many consumers of this process, each used by a thread of its own."""

    def __init__(self, make: Callable[[], Consumer], size: int, topic: str) -> None:
        self.owned: list[list[TopicPartition]] = [[] for _ in range(size)]
        self._make = make
        self._topic = topic
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._poll, args=(number,)) for number in range(size)]
        for thread in self._threads:
            thread.start()

    def _poll(self, number: int) -> None:
        one = self._make()
        one.subscribe([self._topic])
        while not self._stop.is_set():
            one.poll(0.1)
            self.owned[number] = one.assignment()
        one.close()

    @property
    def shares(self) -> list[int]:
        return [len(each) for each in self.owned]

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)


@pytest.mark.row(83, 87, 90, 92, 94, 97)
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_twenty_members_share_a_hundred_partitions(cluster: LocalCluster, strategy: str) -> None:
    topic = f"hundred-{strategy}"
    cluster.create_topic(topic, 100, 1)
    pollers = Pollers(
        lambda: consumer(cluster, f"twenty-{strategy}", partition_assignment_strategy=strategy), 20, topic
    )
    try:
        wait_for(lambda: pollers.shares == [5] * 20, "5 partitions for each of 20 members", 90)
        owned = [(each.topic, each.partition) for one in pollers.owned for each in one]
        assert len(set(owned)) == 100
    finally:
        pollers.close()


@pytest.mark.row(90, 93, 95, 97)
@pytest.mark.invariant("G2")
def test_all_clients_share_one_group(cluster: LocalCluster) -> None:
    """The range strategy is the one they all speak. With more members than partitions, some idle."""
    cluster.create_topic("mixed", 5, 3)
    kinds = ["confluent", "aiokafka", "kafka-python", "java", "rookery"]
    with members(*(start(kind, cluster.bootstrap, "mixed", "mixed") for kind in kinds)) as group:
        wait_for_shares(group, [1, 1, 1, 1, 1], 90)
        produce(cluster, "mixed", 400, 5)
        wait_for(lambda: len({record for one in group for record in one.records}) == 400, "400 records")
        group.append(start("confluent", cluster.bootstrap, "mixed", "mixed"))
        wait_for_shares(group, [0, 1, 1, 1, 1, 1], 60)
        group[3].stop()
        wait_for_shares([*group[:3], *group[4:]], [1, 1, 1, 1, 1], 60)


@pytest.mark.row(98, 99, 107)
def test_a_killed_members_partitions_move_when_its_session_ends(cluster: LocalCluster) -> None:
    """With the cooperative strategy the others keep theirs meanwhile."""
    cluster.create_topic("killed", 6, 3)
    options = {"strategy": "cooperative-sticky"}
    with members(*(start("confluent", cluster.bootstrap, "killed", "killed", **options) for _ in range(3))) as group:
        wait_for_shares(group, [2, 2, 2], 60)
        kept = [set(one.assigned) for one in group[:2]]
        group[2].kill()
        wait_for_shares(group[:2], [3, 3], 4 * SESSION_S)
        for before, one in zip(kept, group[:2], strict=True):
            since = [said for said in one.said if "assigned" in said][-2:]
            assert all(before <= {(topic, index) for topic, index in said["assigned"]} for said in since)


@pytest.mark.invariant("G1")
@pytest.mark.parametrize("client", ["confluent", "java"])
def test_a_static_member_restarts_without_a_rebalance(cluster: LocalCluster, client: str) -> None:
    topic = f"static-{client}"
    cluster.create_topic(topic, 4, 3)

    def begin(instance: str) -> MemberProcess:
        return start(client, cluster.bootstrap, topic, topic, instance=instance, session_ms=45_000)

    with members(begin("a"), begin("b")) as group:
        wait_for_shares(group, [2, 2], 60)
        before = [sorted(one.assigned) for one in group]
        changes = group[0].assignments
        group[1].kill()
        group[1] = begin("b")
        wait_for(lambda: sorted(group[1].assigned) == before[1], "the same partitions", 60)
        assert sorted(group[0].assigned) == before[0]
        assert group[0].assignments == changes, "the other member noticed"


@pytest.mark.row(101, 103, 104, 105)
@pytest.mark.invariant("G3", "G5")
def test_commits_survive_the_coordinators_death_and_a_full_restart(cluster: LocalCluster) -> None:
    cluster.create_topic("durable", 3, 3)
    produce(cluster, "durable", 30, 3)
    group = "durable"
    asking = consumer(cluster, group)
    commit(asking, *(TopicPartition("durable", index, 10) for index in range(3)))
    newest = 10
    for _ in range(2):
        victim = coordinator(cluster, group)
        cluster.kill(victim)
        assert committed(cluster, group, "durable", 3) == [newest] * 3
        newest += 1
        commit(asking, *(TopicPartition("durable", index, newest) for index in range(3)))
        cluster.up()
        cluster.wait_in_sync(OFFSETS, OFFSETS_PARTITIONS)
    asking.close()
    for node in cluster.ids:
        cluster.kill(node)
    cluster.up()
    assert committed(cluster, group, "durable", 3) == [newest] * 3
    cluster.wait_in_sync(OFFSETS, OFFSETS_PARTITIONS)


@pytest.mark.row(90, 101)
@pytest.mark.invariant("G5", "G7")
def test_members_of_the_consumer_protocol_outlive_their_coordinator(cluster: LocalCluster) -> None:
    """They keep what they have and read on. The next coordinator knows them, and assigns when another one joins."""
    topic = group = "outlive"
    cluster.create_topic(topic, 6, 3)
    started = (start(client, cluster.bootstrap, group, topic, protocol="consumer") for client in NEW_PROTOCOL)
    with members(*started) as everyone:
        wait_for_shares(everyone, [2, 2, 2], 60)
        cluster.wait_in_sync(OFFSETS, OFFSETS_PARTITIONS)
        had = [sorted(member.assigned) for member in everyone]
        cluster.kill(coordinator(cluster, group))
        try:
            produce(cluster, topic, 60, 6)
            wait_for(lambda: [len(member.records) for member in everyone] == [20, 20, 20], "each to read its share", 60)
            assert [sorted(member.assigned) for member in everyone] == had
            everyone.append(start("confluent", cluster.bootstrap, group, topic, protocol="consumer"))
            wait_for_shares(everyone, [1, 1, 2, 2], 60)
        finally:
            cluster.up()
            cluster.wait_in_sync(OFFSETS, OFFSETS_PARTITIONS)


@pytest.mark.invariant("G3", "G5")
def test_a_coordinator_that_was_stopped_for_a_while_changes_nothing(cluster: LocalCluster) -> None:
    """It takes itself for the coordinator until it hears of its successor."""
    cluster.create_topic("paused", 1, 3)
    asking = consumer(cluster, "paused", socket_timeout_ms=3000)
    commit(asking, TopicPartition("paused", 0, 1))
    victim = coordinator(cluster, "paused")
    cluster.pause(victim)
    try:
        commit(asking, TopicPartition("paused", 0, 2))
    finally:
        cluster.resume(victim)
    wait_for(lambda: committed(cluster, "paused", "paused", 1) == [2], "the newest commit")
    cluster.wait_in_sync(OFFSETS, OFFSETS_PARTITIONS)
    assert committed(cluster, "paused", "paused", 1) == [2]
    asking.close()


@pytest.mark.row(108)
def test_heartbeats_come_at_their_interval(cluster: LocalCluster) -> None:
    cluster.create_topic("beats", 1, 3)
    with members(start("confluent", cluster.bootstrap, "beats", "beats")) as group:
        wait_for_shares(group, [1], 60)
        began, before = time.monotonic(), requests(cluster, "Heartbeat")
        wait_for(lambda: requests(cluster, "Heartbeat") - before >= 6, "six heartbeats")
        assert time.monotonic() - began > 2.0, "twice a second was asked for"


@pytest.mark.row(105)
@pytest.mark.parametrize("client", ["confluent", "aiokafka", "kafka-python", "java"])
def test_a_killed_consumer_goes_on_where_it_committed(cluster: LocalCluster, client: str) -> None:
    topic = f"resume-{client}"
    cluster.create_topic(topic, 1, 3)
    produce(cluster, topic, 50, 1)
    with members(start(client, cluster.bootstrap, topic, topic)) as group:
        wait_for(lambda: len(group[0].records) == 50, "50 records", 60)
        wait_for(lambda: committed(cluster, topic, topic, 1) == [50], "the commit of 50")
        group[0].kill()
        produce(cluster, topic, 10, 1)
        group.append(start(client, cluster.bootstrap, topic, topic))
        wait_for(lambda: len(group[1].records) == 10, "the 10 that are new", 60)
        assert [offset for _, offset, _ in group[1].records] == list(range(50, 60))


@pytest.mark.row(109)
@pytest.mark.invariant("G4")
def test_a_zombies_commit_is_refused(cluster: LocalCluster) -> None:
    """It stops polling: after max.poll.interval.ms its client leaves, and the group goes on without it."""
    cluster.create_topic("zombie", 1, 3)
    zombie = consumer(cluster, "zombie", max_poll_interval_ms=6000)
    zombie.subscribe(["zombie"])

    def assigned() -> list[TopicPartition]:
        zombie.poll(0.1)
        return zombie.assignment()

    wait_for(assigned, "an assignment")
    with members(start("confluent", cluster.bootstrap, "zombie", "zombie")) as group:
        wait_for(lambda: group[0].assigned, "the partition to move to the new member", 60)
        with pytest.raises(KafkaException):
            zombie.commit(offsets=[TopicPartition("zombie", 0, 99)], asynchronous=False)
        assert committed(cluster, "zombie", "zombie", 1) == [-1001]
    closes(zombie)  # librdkafka may wait for itself for ever when it leaves a group that it was late for


@pytest.mark.row(88, 89)
@pytest.mark.parametrize("client", ["confluent", "aiokafka", "kafka-python", "java"])
def test_a_new_topic_that_matches_a_pattern_is_picked_up(cluster: LocalCluster, client: str) -> None:
    name = client.replace("-", "")
    cluster.create_topic(f"{name}.one", 2, 1)
    with members(start(client, cluster.bootstrap, f"pattern-{client}", f"^{name}\\..*")) as group:
        wait_for_shares(group, [2], 60)
        cluster.create_topic(f"{name}.two", 3, 1)
        wait_for_shares(group, [5], 60)


@pytest.mark.row(95, 96)
def test_more_partitions_are_picked_up_and_fewer_are_refused(cluster: LocalCluster) -> None:
    cluster.create_topic("grows", 2, 1)
    with members(start("confluent", cluster.bootstrap, "grows", "grows")) as group:
        wait_for_shares(group, [2], 60)
        cluster.admin().create_partitions([NewPartitions("grows", 5)])["grows"].result(30)
        wait_for_shares(group, [5], 60)
    with pytest.raises(KafkaException, match="INVALID_PARTITIONS"):
        cluster.admin().create_partitions([NewPartitions("grows", 3)])["grows"].result(30)


@pytest.mark.row(85, 91)
def test_groups_are_independent(cluster: LocalCluster) -> None:
    cluster.create_topic("both", 2, 1)
    produce(cluster, "both", 100, 2)
    starting = [start("confluent", cluster.bootstrap, group, "both") for group in ("one", "two")]
    with members(*starting) as groups:
        wait_for(lambda: [len(each.records) for each in groups] == [100, 100], "both groups to read all", 60)


@pytest.mark.row(102)
def test_the_coordinator_is_where_java_says(cluster: LocalCluster) -> None:
    draw = random.Random(5)
    alphabet = "abcdefghijklmnopqrstuvwxyz-._0123456789äßλ漢😀"
    groups = ["".join(draw.choices(alphabet, k=draw.randint(0, 40))) for _ in range(1000)]
    groups.append("polygenelubricants")  # its hash is the one number without a positive twin
    done = subprocess.run(
        [*toolchain.command("Coordinators"), "50"],
        input="".join(f"{group.encode().hex()}\n" for group in groups),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert [int(line) for line in done.stdout.split()] == [partition_for(group, 50) for group in groups]


@pytest.mark.row(161, 162, 163, 164)
def test_kafka_gos_reader(cluster: LocalCluster) -> None:
    cluster.create_topic("gopher", 2, 3)
    produce(cluster, "gopher", 60, 2)
    program = go_program("readers")

    def run(mode: str, group: str, count: int = 0) -> MemberProcess:
        member = MemberProcess([program, mode, cluster.bootstrap, group, "gopher", str(count)])
        member.ended(90)
        assert member.said[-1] == {"closed": True}
        return member

    limits = run("limits", "go-limits").said[0]
    assert "unavailable when GroupID is set" in limits["set_offset"]
    assert "unavailable when GroupID is set" in limits["read_lag"]
    assert (limits["offset"], limits["lag"], limits["partition"]) == (-1, -1, "-1")
    assert len(run("read", "go", 20).records) == 20
    assert read_so_far(cluster, "go", "gopher", 2) == 20, "ReadMessage commits"
    assert len(run("fetch", "go", 20).records) == 20
    assert read_so_far(cluster, "go", "gopher", 2) == 40, "the newest commits all before it"
    began, before = time.monotonic(), requests(cluster, "OffsetCommit")
    rest = run("interval", "go", 20)
    assert requests(cluster, "OffsetCommit") - before <= time.monotonic() - began + 1, "one commit a second at most"
    assert read_so_far(cluster, "go", "gopher", 2) == 60
    assert len(set(rest.records)) == 20


@pytest.mark.row(90, 161)
def test_kafka_gos_readers_share_a_group(cluster: LocalCluster) -> None:
    """Among themselves: what they send as version 1 of a subscription lacks a field, so other leaders pass them by."""
    cluster.create_topic("gophers", 2, 3)
    with members(*(start("kafka-go", cluster.bootstrap, "gophers", "gophers") for _ in range(2))) as group:

        def partitions(one: MemberProcess) -> set[int]:
            return {partition for partition, _, _ in one.records}

        def both_read() -> bool:
            produce(cluster, "gophers", 2, 2)
            return all(partitions(one) for one in group)

        wait_for(both_read, "both to read", 60)
        before = len(group[0].records)
        group[1].stop()
        assert group[1].said[-1] == {"closed": True}

        def takes_over() -> bool:
            produce(cluster, "gophers", 2, 2)
            return {partition for partition, _, _ in group[0].records[before:]} == {0, 1}

        wait_for(takes_over, "the other to take over", 60)


def lag(cluster: LocalCluster, group: str) -> float:
    name = "kafka_consumergroup_lag"
    total = 0.0
    for node in cluster.ids:
        lines = cluster.http(node, "/metrics").splitlines()
        total += sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(name + "{") and f'consumergroup="{group}"' in line
        )
    return total


@pytest.mark.row(104)
def test_lag_is_measured_by_the_coordinator(cluster: LocalCluster) -> None:
    cluster.create_topic("lag", 3, 3)
    produce(cluster, "lag", 90, 3)
    asking = consumer(cluster, "lag")
    commit(asking, *(TopicPartition("lag", index, 10) for index in range(3)))
    wait_for(lambda: lag(cluster, "lag") == 60, "a lag of 60")
    behind = [
        line
        for node in cluster.ids
        for line in cluster.http(node, "/metrics").splitlines()
        if line.startswith("kafka_consumergroup_group_lag_seconds{") and 'group="lag"' in line
    ]
    assert len(behind) == 3
    assert all(float(line.rpartition(" ")[2]) > 0 for line in behind)
    commit(asking, *(TopicPartition("lag", index, 30) for index in range(3)))
    wait_for(lambda: lag(cluster, "lag") == 0, "no lag")
    asking.close()


def test_admin_clients_see_and_change_groups(cluster: LocalCluster) -> None:
    admin = cluster.admin()
    cluster.create_topic("admin", 2, 3)
    with members(start("confluent", cluster.bootstrap, "admin", "admin")) as group:
        wait_for_shares(group, [2], 60)
        described = admin.describe_consumer_groups(["admin"])["admin"].result(30)
        assert state(cluster, "admin") == "STABLE"
        assert len(described.members[0].assignment.topic_partitions) == 2
        valid = admin.list_consumer_groups().result(30).valid
        assert "admin" in {each.group_id for each in valid}
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups(["admin"])["admin"].result(30)
        group[0].stop()
    wait_for(lambda: state(cluster, "admin") == "EMPTY", "an empty group")
    moved = ConsumerGroupTopicPartitions("admin", [TopicPartition("admin", 0, 7)])
    admin.alter_consumer_group_offsets([moved])["admin"].result(30)
    assert committed(cluster, "admin", "admin", 1) == [7]
    admin.delete_consumer_groups(["admin"])["admin"].result(30)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups(["admin"])["admin"].result(30)
