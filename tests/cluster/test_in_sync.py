"""In-sync sets, acknowledgements and elections, seen from outside on three real nodes.

The lag time is far below the session timeout, so what is seen is the in-sync set and not fencing.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.cluster.local import LocalCluster, local_cluster, wait_for

pytestmark = pytest.mark.alone

LAG_S = 2.0
SESSION_S = 30.0
"""Far above the lag time, so that fencing is not what is seen here; nor is early fencing by a new controller, for
which the grace is long too."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(
        3,
        replica__lag__time__max__ms=str(int(LAG_S * 1000)),
        broker__session__timeout__ms=str(int(SESSION_S * 1000)),
        rookery__broker__reconnect__grace__ms="5000",
        auto__leader__rebalance__enable="false",
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def _all_awake(cluster: LocalCluster) -> Iterator[None]:
    yield
    cluster.resume_all()


def send(cluster: LocalCluster, topic: str, count: int = 1, **options: object) -> list[KafkaError | None]:
    """Produce without the client's own retries; the outcome of each record."""
    producer = Producer(
        {"bootstrap.servers": cluster.awake, "acks": "all", "retries": 0, "request.timeout.ms": 5000, **options}
    )
    outcomes: list[KafkaError | None] = []
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(20)
    return outcomes


def all_taken(outcomes: list[KafkaError | None]) -> bool:
    """librdkafka's errors cannot be compared with None by ==."""
    return all(outcome is None for outcome in outcomes)


def visible(cluster: LocalCluster, topic: str, timeout_s: float = 2.0) -> list[bytes]:
    """What a consumer sees of partition 0 within a time."""
    consumer = Consumer({"bootstrap.servers": cluster.awake, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen: list[bytes] = []
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is None and isinstance(value := message.value(), bytes):
                seen.append(value)
    consumer.close()
    return seen


def followers(cluster: LocalCluster, topic: str) -> list[int]:
    partition = cluster.partition(topic)
    return [node for node in partition.replicas if node != partition.leader]


def in_sync(cluster: LocalCluster, topic: str) -> set[int]:
    return set(cluster.partition(topic).isr)


@pytest.mark.row(53, 57, 58)
@pytest.mark.invariant("P10", "P9")
def test_a_follower_paused_for_longer_than_the_lag_time_leaves_and_comes_back(cluster: LocalCluster) -> None:
    cluster.create_topic("lagging", 1, 3, {"min.insync.replicas": "1"})
    cluster.wait_in_sync("lagging")
    slow = next(n for n in followers(cluster, "lagging") if n != cluster.active_controller())
    fenced = cluster.log(cluster.leader("lagging")).count("broker.fenced")
    cluster.pause(slow)
    assert all_taken(send(cluster, "lagging", acks=1))
    wait_for(lambda: slow not in in_sync(cluster, "lagging"), "the paused follower to leave the ISR")
    cluster.resume(slow)
    wait_for(lambda: slow in in_sync(cluster, "lagging"), "it to come back")
    leader = cluster.leader("lagging")
    assert cluster.log(leader).count("broker.fenced") == fenced
    assert "isr.shrink" in cluster.log(leader)
    assert "isr.expand" in cluster.log(leader)


@pytest.mark.row(58)
def test_far_behind_for_less_than_the_lag_time_stays() -> None:
    """A million records written while a follower is paused for less than the lag time: it stays in."""
    with local_cluster(3, replica__lag__time__max__ms="10000") as patient:
        fall_behind_and_stay(patient)


def fall_behind_and_stay(cluster: LocalCluster) -> None:
    cluster.create_topic("burst", 1, 3, {"min.insync.replicas": "1"})
    cluster.wait_in_sync("burst")
    leader = cluster.leader("burst")
    shrinks = cluster.log(leader).count("isr.shrink partition=burst-0")
    producer = Producer({"bootstrap.servers": cluster.awake, "acks": 1, "linger.ms": 20})
    slow = followers(cluster, "burst")[0]
    cluster.pause(slow)
    begun = time.monotonic()
    sent = 0
    while time.monotonic() - begun < LAG_S / 4:
        try:
            producer.produce("burst", b"x", partition=0)
            sent += 1
        except BufferError:
            producer.poll(0.001)
    cluster.resume(slow)
    producer.flush(60)
    print(f"{sent} records behind for {LAG_S / 4} s")
    wait_for(lambda: cluster.metric(leader, "rookery_follower_lag_records") == 0, "all followers to catch up", 60)
    assert cluster.log(leader).count("isr.shrink partition=burst-0") == shrinks


@pytest.mark.row(13, 140)
@pytest.mark.invariant("P12")
def test_too_few_in_sync_replicas_refuse_acks_all(cluster: LocalCluster) -> None:
    cluster.create_topic("strict", 1, 3, {"min.insync.replicas": "3"})
    cluster.wait_in_sync("strict")
    slow = followers(cluster, "strict")[0]
    cluster.pause(slow)
    leader = cluster.leader("strict")
    first = send(cluster, "strict")
    assert first[0] is not None
    assert first[0].code() in (KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._TIMED_OUT)
    wait_for(lambda: slow not in in_sync(cluster, "strict"), "the follower to leave")
    few = "kafka_server_replicamanager_underminisrpartitioncount"
    wait_for(lambda: cluster.metric(leader, few) >= 1, "the leader itself to know")
    refused = send(cluster, "strict")
    assert refused[0] is not None
    assert refused[0].code() == KafkaError.NOT_ENOUGH_REPLICAS
    assert any("min.insync.replicas" in reason for reason in cluster.health(leader)["reasons"])
    cluster.resume(slow)
    wait_for(lambda: all_taken(send(cluster, "strict")), "acks=all to be taken again")


@pytest.mark.row(11, 12, 61)
@pytest.mark.invariant("P14", "P3")
def test_what_followers_lack_is_not_visible(cluster: LocalCluster) -> None:
    """acks=1 is answered by the leader alone, but consumers see it only when the in-sync replicas have it."""
    cluster.create_topic("unseen", 1, 3, {"min.insync.replicas": "2"})
    cluster.wait_in_sync("unseen")
    paused = followers(cluster, "unseen")
    for node in paused:
        cluster.pause(node)
    assert all_taken(send(cluster, "unseen", acks=1))
    assert visible(cluster, "unseen", LAG_S / 2) == []
    for node in paused:
        cluster.resume(node)
    wait_for(lambda: visible(cluster, "unseen", 0.5) == [b"0"], "the record to become visible")


@pytest.mark.row(66)
@pytest.mark.invariant("M9")
@pytest.mark.parametrize("unclean", [False, True])
def test_without_an_in_sync_replica_it_waits_or_loses_as_configured(cluster: LocalCluster, unclean: bool) -> None:
    topic = f"unclean-{unclean}".lower()
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": str(unclean).lower()}
    cluster.create_topic(topic, 1, 2, config)
    cluster.wait_in_sync(topic, replicas=2)
    leader, (follower,) = cluster.leader(topic), followers(cluster, topic)
    cluster.pause(follower)
    assert all_taken(send(cluster, topic, acks=1))
    wait_for(lambda: in_sync(cluster, topic) == {leader}, "the leader to be alone in the ISR")
    assert all_taken(send(cluster, topic))
    cluster.kill(leader)
    cluster.resume(follower)
    # mostly at once; a whole session where an earlier pause was a false alarm, after which no more haste is allowed
    if unclean:
        wait_for(lambda: cluster.partition(topic).leader == follower, "the follower to lead", 3 * SESSION_S)
        controllers = [node for node in cluster.ids if node != leader]
        name = "kafka_controller_controllerstats_uncleanleaderelections_total"
        assert sum(cluster.metric(node, name) for node in controllers) >= 1
    else:
        wait_for(lambda: cluster.partition(topic).leader == -1, "the partition to have no leader", 3 * SESSION_S)
    cluster.up()
    cluster.wait_in_sync(topic, replicas=2)
    if unclean:
        assert len(visible(cluster, topic)) < 2
    else:
        wait_for(lambda: visible(cluster, topic) == [b"0", b"0"], "both records")


@pytest.mark.row(36, 37, 62)
def test_the_files_of_a_replica(cluster: LocalCluster) -> None:
    cluster.create_topic("files", 1, 3)
    assert all_taken(send(cluster, "files", 10))
    for node_id in cluster.ids:
        folder = Path(cluster.node(node_id).data) / "files-0"
        wait_for(
            lambda folder=folder: any(path.stat().st_size for path in folder.glob("00000000000000000000.log")),  # type: ignore[misc]
            f"the records to reach node {node_id}",
        )
        assert (folder / "partition.metadata").exists()
