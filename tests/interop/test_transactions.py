"""Other people's clients write in transactions with their own APIs."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from rookery.broker.coordination.internal_topic import partition_for
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.aim import aimed_cluster
from tests.interop.transaction_processes import PYTHON, ClientProcess, words_of

PARTITIONS = 2
STATE_PARTITIONS = 3
CLIENTS = (*PYTHON, "java", "franz-go")
ONE_BY_ONE = (*CLIENTS, "java-version-1")
"""java-version-1: the same client in a cluster whose transaction.version is 1."""
COME_BACK = tuple(client for client in CLIENTS if client != "kafka-python")
"""kafka-python 3.0 does not repeat its EndTxn when the coordinator cannot be reached, with Apache Kafka neither."""
FENCED = re.compile("fenc|epoch|InvalidPidMapping", re.IGNORECASE)
RECORDS = 10
LONG_MS = 300_000
"""No transaction takes as long, however slow the machine and however many clients come first."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with aimed_cluster(
        3,
        transaction__state__log__num__partitions=str(STATE_PARTITIONS),
        transaction__state__log__replication__factor="3",
        transaction__state__log__min__isr="2",
        transaction__abort__timed__out__transaction__cleanup__interval__ms="500",
        offsets__topic__num__partitions="3",
        offsets__topic__replication__factor="3",
        group__initial__rebalance__delay__ms="0",
        group__min__session__timeout__ms="1000",
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
    ) as running:
        yield running


# --- the clients as processes -------------------------------------------------------------------------------


@pytest.fixture(params=ONE_BY_ONE)
def client(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[str]:
    if request.param != "java-version-1":
        yield request.param
        return
    set_version(cluster, 1)
    try:
        yield request.param
    finally:
        set_version(cluster, 2)


def set_version(cluster: LocalCluster, level: int) -> None:
    subprocess.run(words_of("java", cluster.bootstrap, "feature", level), check=True, timeout=90)


class Started:
    """Starts clients; none is left when the test ends."""

    def __init__(self, stack: ExitStack, cluster: LocalCluster, client: str) -> None:
        self._stack, self._cluster, self._client = stack, cluster, client

    def producer(self, name: str, timeout_ms: int = LONG_MS) -> ClientProcess:
        return self._started("produce", name, timeout_ms)

    def processor(self, name: str, *arguments: object) -> ClientProcess:
        return self._started("process", name, *arguments)

    def _started(self, *arguments: object) -> ClientProcess:
        process = ClientProcess(words_of(self._client, self._cluster.bootstrap, *arguments))
        self._stack.callback(process.kill)
        return process


@pytest.fixture
def start(cluster: LocalCluster, client: str) -> Iterator[Started]:
    with ExitStack() as stack:
        yield Started(stack, cluster, client)


# --- what is there ------------------------------------------------------------------------------------------


def settled(cluster: LocalCluster, topic: str, partitions: int = PARTITIONS) -> bool:
    """Whether no transaction is open in the topic: the last stable offsets are the high watermarks. While leaders
    change nobody knows."""
    ends = []
    places = [TopicPartition(topic, index) for index in range(partitions)]
    for isolation in ("read_committed", "read_uncommitted"):
        with reader(cluster, topic, isolation, 0) as consumer:
            try:
                ends.append([consumer.get_watermark_offsets(place, timeout=30) for place in places])
            except KafkaException as error:
                print(f"{topic}, {isolation}: {error}")
                return False
    return ends[0] == ends[1]


@contextmanager
def reader(
    cluster: LocalCluster, topic: str, isolation: str, partitions: int, group: str = "unused"
) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    try:
        yield consumer
    finally:
        consumer.close()


def visible(
    cluster: LocalCluster, topic: str, isolation: str = "read_committed", partitions: int = PARTITIONS
) -> list[str]:
    """Everything that a consumer sees now, sorted."""
    found: list[str] = []
    ended: set[int | None] = set()
    with reader(cluster, topic, isolation, partitions) as consumer:
        while len(ended) < partitions:
            message = consumer.poll(30)
            assert message is not None, f"nothing more of {topic}, not even its end"
            error = message.error()
            if error is None:
                found.append((message.value() or b"").decode())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    return sorted(found)


def wait_settled(cluster: LocalCluster, topic: str) -> list[str]:
    """What is visible when all transactions have ended."""
    wait_for(lambda: settled(cluster, topic), f"the transactions in {topic} to end")
    return visible(cluster, topic)


def committed(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """The group's offsets in the topic, once none of them is in an open transaction."""
    with reader(cluster, topic, "read_committed", 0, group) as consumer:

        def stable() -> list[TopicPartition] | None:
            try:
                found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=30)
            except KafkaException as error:
                print(f"{group}: {error}")
                return None
            return None if any(place.error is not None for place in found) else found

        found = wait_for(stable, f"stable offsets of {group}")
    return {place.partition: place.offset for place in found if place.offset >= 0}


def write(cluster: LocalCluster, topic: str, *values: str) -> None:
    """Without a transaction."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def topic_for(cluster: LocalCluster, client: str, what: str) -> str:
    name = f"{what}-{client}"
    cluster.create_topic(name, PARTITIONS, 3)
    return name


def name_in(state: int, name: str) -> str:
    """A transactional id whose coordinator leads this partition of `__transaction_state`."""
    return next(each for number in count() if partition_for(each := f"{name}-{number}", STATE_PARTITIONS) == state)


# --- the tests ----------------------------------------------------------------------------------------------


@pytest.mark.row(132, 133, 135, 184)
@pytest.mark.invariant("T9", "T10", "T13")
def test_commits_and_aborts(cluster: LocalCluster, client: str, start: Started) -> None:
    """Over two partitions, with the offset of a group. What is open is not seen, nor what others write behind it;
    read_uncommitted sees everything."""
    topic, group = topic_for(cluster, client, "ended"), f"of-{client}"
    offsets = client != "franz-go"  # it sends offsets of what it has read itself, as the test of processing shows
    producer = start.producer(f"ends-{client}")
    producer.do("init")
    for number, end in enumerate(("commit", "abort", "commit", "abort", "commit")):
        producer.do("begin", f"send {topic} 0 {end}-{number}a", f"send {topic} 1 {end}-{number}b")
        if offsets:
            producer.do(f"offset {group} {topic} 0 {number + 1}")
        producer.do("flush", end)
        if offsets:
            last = {"commit": number + 1, "abort": number}[end]
            assert committed(cluster, group, topic) == {0: last}
    ended = sorted(f"commit-{number}{part}" for number in (0, 2, 4) for part in "ab")
    assert wait_settled(cluster, topic) == ended
    producer.do("begin", f"send {topic} 0 open", "flush")
    write(cluster, topic, "plain")
    assert visible(cluster, topic) == ended
    aborted = [f"abort-{number}{part}" for number in (1, 3) for part in "ab"]
    assert visible(cluster, topic, "read_uncommitted") == sorted([*ended, *aborted, "open", "plain"])
    producer.do("commit")
    assert wait_settled(cluster, topic) == sorted([*ended, "open", "plain"])


@pytest.mark.row(132, 134)
@pytest.mark.invariant("T6")
def test_a_dead_producer_and_a_zombie(cluster: LocalCluster, client: str, start: Started) -> None:
    """A producer dies in a transaction, which its next life ends. That one is still there when a third begins."""
    topic, name = topic_for(cluster, client, "lives"), f"lives-{client}"
    dead = start.producer(name)
    dead.do("init", "begin", f"send {topic} 0 whole", "commit")
    dead.do("begin", f"send {topic} 0 half", f"send {topic} 1 half", "flush")
    dead.kill()
    zombie = start.producer(name)
    zombie.do("init", "begin", f"send {topic} 1 by-the-second", "commit")
    assert wait_settled(cluster, topic) == ["by-the-second", "whole"]
    zombie.do("begin", f"send {topic} 0 by-the-zombie", "flush")
    heir = start.producer(name)
    heir.do("init", "begin", f"send {topic} 0 by-its-heir")
    error = zombie.refused(f"send {topic} 1 late", "flush", "commit")
    assert FENCED.search(error), error
    heir.do("commit")
    assert wait_settled(cluster, topic) == ["by-its-heir", "by-the-second", "whole"]


@pytest.mark.row(130, 137)
@pytest.mark.invariant("T13")
def test_read_process_write(cluster: LocalCluster, client: str, start: Started) -> None:
    """A member of a group dies between its sends and its commit; another goes on where the last commit was."""
    source, target = topic_for(cluster, client, "source"), topic_for(cluster, client, "target")
    values = [f"v{number}" for number in range(RECORDS)]
    write(cluster, source, *values)
    arguments = (f"processes-{client}", source, target)
    first = start.processor(f"processor-{client}", *arguments, RECORDS)
    assert first.listen()["sent"] > 0
    done = first.ask("go on")["committed"]
    assert first.listen()["sent"] > 0
    first.kill()
    assert len(visible(cluster, target)) <= done
    second = start.processor(f"processor-{client}", *arguments, RECORDS - done)
    said = {"committed": 0}
    while said.get("committed") != RECORDS - done:
        said = second.listen()
        if "sent" in said:
            second.tell("go on")
    assert wait_settled(cluster, target) == sorted(values)
    half = RECORDS // PARTITIONS
    assert committed(cluster, arguments[0], source) == {index: half for index in range(PARTITIONS)}


@pytest.mark.row(132, 133)
@pytest.mark.invariant("T7", "T10")
def test_the_coordinator_is_killed_in_the_middle(cluster: LocalCluster) -> None:
    """Clients have a transaction open, all with one coordinator. They commit with the next one and go on."""
    topic, state = topic_for(cluster, "all", "moved"), 0
    names = {client: name_in(state, f"moved-{client}") for client in COME_BACK}
    with ExitStack() as stack:
        producers = {client: Started(stack, cluster, client).producer(name) for client, name in names.items()}
        for client, producer in producers.items():
            producer.do("init", "begin", f"send {topic} 0 {client}-before", f"send {topic} 1 {client}-before", "flush")
        victim = cluster.leader("__transaction_state", state)
        cluster.kill(victim)
        try:
            for client, producer in producers.items():
                producer.do("commit", "begin", f"send {topic} 0 {client}-after", "commit")
        finally:
            cluster.up()
    expected = [f"{client}-{when}" for client in COME_BACK for when in ("before", "before", "after")]
    assert wait_settled(cluster, topic) == sorted(expected)


@pytest.mark.row(132, 134)
@pytest.mark.invariant("T12")
def test_transactions_time_out(cluster: LocalCluster) -> None:
    """The coordinator ends them, and their producers are fenced, whatever client they are."""
    topic = topic_for(cluster, "all", "slow")
    with ExitStack() as stack:
        starts = {client: Started(stack, cluster, client) for client in CLIENTS}
        producers = {client: start.producer(f"slow-{client}", 2000) for client, start in starts.items()}
        for client, producer in producers.items():
            producer.do("init", "begin", f"send {topic} 0 slow-{client}", "flush")
        assert len(visible(cluster, topic, "read_uncommitted")) == len(CLIENTS)
        assert wait_settled(cluster, topic) == []
        errors = {client: each.refused(f"send {topic} 0 late", "commit") for client, each in producers.items()}
        assert all(map(FENCED.search, errors.values())), errors
        again = starts["java"].producer("slow-java")
        again.do("init", "begin", f"send {topic} 0 quick", "commit")
    assert wait_settled(cluster, topic) == ["quick"]
