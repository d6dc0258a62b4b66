"""Kafka's own broker serves the same versions, writes the same records about groups, byte for byte, and gives members
of the consumer protocol the same answers."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from rookery import Admin
from rookery.broker.groups.consumer.records import ConsumerRecord, Kind
from rookery.broker.groups.records import GroupRecord, OffsetRecord, decode, encode
from rookery.client.admin.types import ResourceType
from rookery.core.net.connection import Connection
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest
from tests.cluster.commits import commit
from tests.cluster.local import local_cluster, wait_for
from tests.interop.group_conversations import TOPICS, Conversation, Side
from tests.interop.kafka.server import KafkaServer
from tests.tidy.pages import handlers

OFFSETS = "__consumer_offsets"
SEEDS = 12
AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
NOT_YET = {"consumer.assignment.interval.ms": "15000"}
"""Of a group: its members go on with an old assignment, since a new one has to wait."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    started = KafkaServer(tmp_path_factory.mktemp("kafka"), options=AT_ONCE)
    started.start()
    yield started
    started.stop()


async def versions(bootstrap: str) -> dict[int, tuple[int, int]]:
    """What a broker says to serve, by API key."""
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="asks")
    connection.close()
    return connection.versions


def test_no_served_range_is_older_than_kafkas(server: KafkaServer) -> None:
    theirs = asyncio.run(versions(server.bootstrap))
    ours = {served.api.key: (served.lowest_advertised, served.max) for served in handlers()}
    assert ours == {key: theirs.get(key) for key in ours}


def stored(bootstrap: str) -> list[tuple[bytes, bytes | None]]:
    """Everything in the offsets topic, of one partition."""
    reader = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
        "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip
    reader.assign([TopicPartition(OFFSETS, 0, 0)])
    found: list[tuple[bytes, bytes | None]] = []
    while True:
        message = reader.poll(30)
        assert message is not None
        if message.error() is not None:
            break
        found.append((message.key() or b"", message.value()))
    reader.close()
    return found


def use_a_group(bootstrap: str) -> None:
    """Members with and without an instance id, commits with and without a note, and the end of it all."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(20):
        producer.produce("t", f"v{number}")
    assert producer.flush(30) == 0
    for protocol, instance, topic in (
        ("classic", None, "t"), ("classic", "static", "t"), ("consumer", None, "t"), ("consumer", "static", "^t"),
    ):  # fmt: skip
        config = {
            "bootstrap.servers": bootstrap, "group.id": protocol, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0, "group.protocol": protocol,
        }  # fmt: skip
        if instance is not None:
            config["group.instance.id"] = instance
        consumer = Consumer(config)
        consumer.subscribe([topic])
        wait_for(lambda consumer=consumer: consumer.poll(0.1) or consumer.assignment(), "an assignment", 60)  # type: ignore[misc]
        consumer.commit(offsets=[TopicPartition("t", 0, 7, "a note")], asynchronous=False)
        consumer.commit(offsets=[TopicPartition("t", 0, 8)], asynchronous=False)
        consumer.close()


@pytest.mark.row(103)
def test_kafkas_records_are_ours_byte_for_byte(server: KafkaServer) -> None:
    use_a_group(server.bootstrap)
    theirs = stored(server.bootstrap)
    kinds: set[str | Kind] = set()
    for key, value in theirs:
        record = decode(key, value)
        assert record is not None
        assert encode(record) == (key, value)
        if isinstance(record, GroupRecord) and record.value is not None:
            kinds |= {"member" if record.value.members else "empty"}
        elif isinstance(record, OffsetRecord):
            kinds.add("offset")
        elif isinstance(record, ConsumerRecord) and record.value is not None:
            kinds.add(record.kind)
    assert kinds == {"member", "empty", "offset", *Kind} - {Kind.TOPICS}


async def options_of(admin: Admin, group: str) -> set[tuple[str, str | None]]:
    described = await admin.describe_config(ResourceType.GROUP_CONFIG, group)
    return {(name, option.value) for name, option in described.items()}


async def side(bootstrap: str) -> Side:
    """A broker with the topics, and with groups that make their assignments late where the seed is odd."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        for name, partitions in TOPICS.items():
            await admin.create_topic(name, partitions=partitions, replication_factor=1)
        for seed in range(1, SEEDS, 2):
            await admin.alter_config(ResourceType.GROUP_CONFIG, f"talk-{seed}", NOT_YET)
            async with asyncio.timeout(20):
                while NOT_YET.items() - await options_of(admin, f"talk-{seed}"):
                    await asyncio.sleep(0.05)
    host, _, port = bootstrap.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="talks")
    answer = await connection.request(METADATA, 12, MetadataRequest(topics=None), 20)
    ids = {topic.name: topic.topic_id for topic in answer.topics if topic.name is not None}
    return Side(connection, {name: ids[name] for name in TOPICS})


def make_coordinator(bootstrap: str) -> None:
    """The first who asks for one makes its topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first", "log_level": 0})
    commit(consumer, TopicPartition("a", 0, 1))
    consumer.close()


async def talk(kafka: str, ours: str) -> Counter[str]:
    answers: Counter[str] = Counter()
    sides = [await side(kafka), await side(ours)]
    for bootstrap in (kafka, ours):
        await asyncio.to_thread(make_coordinator, bootstrap)
    for seed in range(SEEDS):
        conversation = Conversation(sides, f"talk-{seed}", seed)
        await conversation.run(60)
        answers += conversation.answers
    for each in sides:
        each.connection.close()
    return answers


@pytest.mark.row(95)
@pytest.mark.invariant("G8", "G10", "G15")
def test_members_get_kafkas_answers(server: KafkaServer) -> None:
    """In the same order of requests: joins, heartbeats in right and wrong epochs, offsets, leaving, both protocols."""
    options = {"group__consumer__assignment__interval__ms": "0", "offsets__topic__num__partitions": "1"}
    with local_cluster(1, **options) as cluster:
        answers = asyncio.run(talk(server.bootstrap, cluster.bootstrap))
    assert answers.keys() >= {
        "heartbeat NONE", "heartbeat FENCED_MEMBER_EPOCH", "heartbeat UNRELEASED_INSTANCE_ID",
        "commit NONE", "commit STALE_MEMBER_EPOCH", "commit UNSUPPORTED_VERSION", "fetch STALE_MEMBER_EPOCH",
        "join NONE", "sync NONE", "sync REBALANCE_IN_PROGRESS", "beat NONE", "beat REBALANCE_IN_PROGRESS",
    }  # fmt: skip
