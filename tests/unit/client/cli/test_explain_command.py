"""`rookery group explain` where groups lag for each of the reasons that it knows, on real nodes."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from rookery.sync import Consumer as OwnConsumer
from rookery.testing import Cluster
from tests.unit.client.cli.test_admin_commands import Command, commit


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 100,
        "broker.session.timeout.ms": 1500,
        "broker.heartbeat.interval.ms": 300,
    }
    with Cluster(nodes=3, config=options, processes=True) as running:
        yield running


@pytest.fixture
def rookery(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(cluster, capsys)


def filled(cluster: Cluster, name: str, *counts: int, at_ms: int = 0) -> str:
    """A topic with so many records in each of its partitions."""
    cluster.create_topic(name, partitions=len(counts), replication_factor=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for partition, count in enumerate(counts):
        for _ in range(count):
            producer.produce(name, b"v", partition=partition, timestamp=at_ms)
    assert producer.flush(30) == 0
    return name


def joined(cluster: Cluster, group: str, *topics: str, name: str = "member", share: int) -> Consumer:
    """A member that has `share` partitions, reads nothing and commits when it is asked to."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap, "group.id": group, "client.id": name, "log_level": 0,
            "enable.auto.commit": False, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    consumer.subscribe(list(topics))
    wait_for_share(cluster, consumer, share)
    return consumer


def wait_for_share(cluster: Cluster, consumer: Consumer, share: int) -> None:
    def has_it() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == share

    cluster.wait_for(has_it, f"{share} partition(s)")


def commit_as_member(consumer: Consumer, **offsets: int) -> None:
    places = [TopicPartition(name[:-1], int(name[-1]), offset) for name, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)


def test_lag_in_one_partition_and_in_one_topic(cluster: Cluster, rookery: Command) -> None:
    filled(cluster, "hot", 50, 5)
    filled(cluster, "cool", 5, 5)
    member = joined(cluster, "one-place", "hot", "cool", name="reader", share=4)
    try:
        commit_as_member(member, hot0=0, hot1=5, cool0=5, cool1=5)
        said = rookery("group", "explain", "one-place", "--sample", "0")
        assert "One partition has 50 of 50 record(s): hot-0 (member reader at" in said
        assert "1. look at the keys" in said
        commit_as_member(member, hot0=45, hot1=0)
        said = rookery("group", "explain", "one-place", "--sample", "0")
        assert "One topic has 10 of 10 record(s): hot, in 2 partition(s)" in said
        said = rookery("group", "explain", "one-place", "--topic", "cool", "--sample", "0")
        assert "is 0 record(s) behind. It is up to date." in said
        (found,) = rookery.json("group", "explain", "one-place", "--topic", "hot:1", "--sample", "0.1")
        assert found["reason"] == "it committed nothing within 0 s"
    finally:
        member.close()


def test_one_slow_member(cluster: Cluster, rookery: Command) -> None:
    filled(cluster, "shared", 20, 20, 20, 20)
    quick = joined(cluster, "slow-one", "shared", name="quick", share=4)
    slow = joined(cluster, "slow-one", "shared", name="slow", share=0)
    try:
        for _ in range(100):
            if len(quick.assignment()) == len(slow.assignment()) == 2:
                break
            quick.poll(0.1)
            slow.poll(0.1)
        done = {f"shared{place.partition}": 20 for place in quick.assignment()}
        commit_as_member(quick, **done)
        commit_as_member(slow, **{f"shared{place.partition}": 0 for place in slow.assignment()})
        said = rookery("group", "explain", "slow-one", "--sample", "0")
        assert "One member has 40 of 40 record(s): slow at 127.0.0.1" in said.replace("/127", "127")
    finally:
        quick.close()
        slow.close()


def test_a_topic_that_no_member_reads(cluster: Cluster, rookery: Command) -> None:
    filled(cluster, "read", 1)
    filled(cluster, "forgotten", 4)
    member = joined(cluster, "half", "read", share=1)
    try:
        commit_as_member(member, read0=1, forgotten0=0)
        said = rookery("group", "explain", "half", "--sample", "0")
        assert "1 partition(s) with 4 record(s) have no member: forgotten-0" in said.lower()
        assert "1. subscribe the members to these topics" in said
    finally:
        member.close()


def test_a_rebalance_that_a_member_holds_up(cluster: Cluster, rookery: Command) -> None:
    """It does not poll, so it does not learn that it has to join again."""
    filled(cluster, "waiting", 3, 3)
    first = joined(cluster, "held-up", "waiting", name="first", share=2)
    commit_as_member(first, waiting0=0, waiting1=0)
    second = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "held-up", "log_level": 0})
    second.subscribe(["waiting"])

    def explained() -> bool:
        second.poll(0.1)
        said = rookery("group", "explain", "held-up", "--sample", "0")
        return "It is rebalancing (state PreparingRebalance)" in said and "max.poll.interval.ms is evicted" in said

    try:
        cluster.wait_for(explained, "the rebalance to be named")
    finally:
        first.close()
        second.close()


def test_lag_that_stays_grows_and_shrinks(cluster: Cluster, rookery: Command) -> None:
    filled(cluster, "even", 2000, 2000)
    member = joined(cluster, "steady", "even", share=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "linger.ms": 0})
    commit_as_member(member, even0=0, even1=0)
    assert "It is 4000 record(s) behind, spread over 2 partitions and 1 member(s)" in rookery(
        "group", "explain", "steady", "--sample", "0"
    )

    def found_while(step: Callable[[int], None], words: str) -> None:
        """Does steps of work until `explain` says the words."""
        over = threading.Event()

        def work() -> None:
            for done in itertools.takewhile(lambda _: not over.is_set(), itertools.count(1)):
                step(done)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            cluster.wait_for(lambda: words in rookery("group", "explain", "steady", "--sample", "0.5"), words)
        finally:
            over.set()
            worker.join()

    def more_comes(done: int) -> None:
        for _ in range(3):
            producer.produce("even", b"v", partition=1)
        producer.flush(30)
        commit_as_member(member, even0=min(done, 2000))

    def less_comes(done: int) -> None:
        commit_as_member(member, even1=min(done, 2000))

    try:
        found_while(more_comes, "More comes than it handles: ")
        found_while(less_comes, "It catches up: ")
    finally:
        member.close()


def test_a_loop_of_rebalances_is_found_with_its_cause(cluster: Cluster, rookery: Command) -> None:
    """The handler takes longer than max.poll.interval.ms, so its consumer leaves, and joins again at the next poll."""
    filled(cluster, "loop", 30)
    with OwnConsumer(
        "loop", bootstrap_servers=cluster.bootstrap, group_id="loop", client_id="sleepy", max_poll_interval_ms=300,
        auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=1, session_timeout_ms=200,
        heartbeat_interval_ms=50,
    ) as consumer:  # fmt: skip
        for times in range(1, 4):
            cluster.wait_for(lambda: consumer.getmany(timeout_ms=100), "a record")

            def has_left(times: int = times) -> bool:
                rows = rookery.json("events", "--group", "loop")
                return len([row for row in rows if row["fields"]["what"] == "removed"]) >= times

            cluster.wait_for(has_left, "the member to leave")
        said = rookery("group", "explain", "loop", "--sample", "0")
    assert "It rebalances again and again: " in said
    assert "because: left: the user did not poll (sleepy)" in said
    assert "1. its handler takes longer than max.poll.interval.ms" in said
    commit(cluster, "loop", "loop", p0=1)
    said = rookery("group", "explain", "loop")
    assert said.index("No consumer runs") < said.index("It rebalances again and again: ")


def test_retention_overtakes_it(cluster: Cluster, rookery: Command) -> None:
    filled(cluster, "old", 10, at_ms=int(time.time() * 1000) - 950_000)
    rookery("topic", "alter", "old", "retention.ms=1000000")
    commit(cluster, "late", "old", p0=2)
    assert "Retention is about to overtake it: the next record of old-0 is 95" in rookery("group", "explain", "late")
    rookery("topic", "trim", "old", "--before", "6", "--yes")
    said = rookery("group", "explain", "late")
    assert "Retention overtook it: 4 record(s) of old-0 were deleted before they were read" in said
    assert "No consumer runs" in said


def test_an_open_transaction_holds_it_back(cluster: Cluster, rookery: Command) -> None:
    filled(cluster, "held", 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "open", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("held", b"hidden")
    producer.flush(30)
    member = joined(cluster, "committed-only", "held", share=1)
    try:
        commit_as_member(member, held0=3)
        said = rookery("group", "explain", "committed-only", "--sample", "0")
        assert "An open transaction holds back 1 record(s) of held-0" in said
        assert "rookery transaction producers held 0" in said
    finally:
        member.close()
        producer.abort_transaction(30)


def test_a_partition_without_a_leader(cluster: Cluster, rookery: Command) -> None:
    cluster.create_topic("alone", replication_factor=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce("alone", b"v")
    assert producer.flush(30) == 0
    commit(cluster, "stuck", "alone", p0=0)
    with cluster.kill(cluster.leader("alone")):

        def explained() -> bool:
            return "Alone-0 cannot be read: no leader" in rookery("group", "explain", "stuck")

        cluster.wait_for(explained, "the missing leader to be named")
