"""Our own producer and admin client against a real node, read by other people's clients."""

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

import rookery.sync
from rookery import (
    Admin,
    BufferFullError,
    Choice,
    ClosedError,
    ForkedError,
    IllegalStateError,
    NoBrokersError,
    Producer,
    ProducerFencedError,
    RecordTooLargeError,
    ResourceType,
    SerializationError,
    TopicPartition,
    TransactionAbortedError,
    UpgradeType,
)
from rookery.client.partitioner import partition_for_key
from rookery.client.types import RecordMetadata
from rookery.core.errors import (
    GroupIdNotFoundError,
    InvalidPartitionsError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from rookery.testing import Cluster

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, config={"broker.rack": "here"}) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions for one test."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80]

    async def create() -> None:
        async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            await admin.create_topic(name, partitions=3, config={"max.message.bytes": "100000"})

    asyncio.run(create())
    return name


Read = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]


async def with_aiokafka(bootstrap: str, topic: str, count: int, committed: bool = False) -> list[Read]:
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation
    )
    await consumer.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()
    return [(each.offset, each.key, each.value, list(each.headers)) for each in found]


def with_confluent(bootstrap: str, topic: str, count: int) -> list[Read]:
    consumer = ConfluentConsumer({"bootstrap.servers": bootstrap, "group.id": "x", "log_level": 0})
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        some = consumer.consume(count - len(found), PATIENCE_S)
        assert some, f"{len(found)} of {count} records came"
        found += some
    consumer.close()
    assert not [each.error() for each in found if each.error()]
    return [(each.offset(), each.key(), each.value(), each.headers() or []) for each in found]


def with_kafka_python(bootstrap: str, topic: str, count: int) -> list[Read]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    place = PythonPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    found: list[Any] = []
    while len(found) < count:
        some = consumer.poll(PATIENCE_S * 1000).get(place, [])
        assert some, f"{len(found)} of {count} records came"
        found += some
    consumer.close()
    return [(each.offset, each.key, each.value, list(each.headers)) for each in found]


@pytest.mark.row(32, 7)
@pytest.mark.parametrize("codec", CODECS)
async def test_others_read_our_batches(cluster: Cluster, topic: str, codec: str) -> None:
    sent: list[Read] = [
        (number, None if number % 3 else b"k%d" % number, None if number == 7 else b"value" * (number % 20), [])
        for number in range(500)
    ]
    sent[11] = (11, b"key", b"", [("a", b"1"), ("a", b""), ("ü", b"2")])
    async with Producer(bootstrap_servers=cluster.bootstrap, compression_type=codec, batch_size=4000) as producer:
        for offset, key, value, headers in sent:
            last = await producer.send(topic, value, key=key, headers=headers, partition=0, timestamp_ms=offset)
        assert await last == RecordMetadata(topic, 0, 499, 499)
    assert await with_aiokafka(cluster.bootstrap, topic, 500) == sent
    assert await asyncio.to_thread(with_confluent, cluster.bootstrap, topic, 500) == sent
    assert await asyncio.to_thread(with_kafka_python, cluster.bootstrap, topic, 500) == sent


@pytest.mark.row(10)
@pytest.mark.parametrize("acks", ["all", 1, 0])
async def test_acks(cluster: Cluster, topic: str, acks: Any) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, acks=acks, linger_ms=0) as producer:
        places = [await (await producer.send(topic, b"v", partition=0)) for _ in range(3)]
    assert [each.offset for each in places] == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
    assert len(await with_aiokafka(cluster.bootstrap, topic, 3)) == 3


@pytest.mark.row(1, 23)
async def test_many_at_once(cluster: Cluster, topic: str) -> None:
    values = [b"%05d" % number * 10 for number in range(5000)]
    keys = [b"%d" % (number % 10) for number in range(5000)]
    async with Producer(bootstrap_servers=cluster.bootstrap, batch_size=16000) as producer:
        plain = await (await producer.send_many(topic, values))
        keyed = await (await producer.send_many(topic, values, keys=keys))
        mixed = await (await producer.send_many(topic, [b"a", None, b"b"], keys=[None, b"x", b"y"], partition=2))
        assert producer.metrics()["request-total"] < 500
    assert len(plain) == len(keyed) == 5000
    assert [each.partition for each in keyed] == [partition_for_key(key, 3) for key in keys]
    assert len({(each.partition, each.offset) for each in [*plain, *keyed, *mixed]}) == 10_003
    assert [each.partition for each in mixed] == [2, 2, 2]
    found = await with_aiokafka(cluster.bootstrap, topic, 10_003)
    assert sorted(value for _, key, value, _ in found if key and value in values) == sorted(values)


@pytest.mark.row(1)
async def test_one_by_one_they_share_requests(cluster: Cluster, topic: str) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, linger_ms=100) as producer:
        sent = [await producer.send(topic, b"v", key=b"%d" % number) for number in range(1000)]
        await producer.flush()
        assert all(each.done() for each in sent)
        assert producer.metrics()["request-total"] < 100


@pytest.mark.row(30, 31, 96)
async def test_one_partition_orders_several_producers_and_growth_moves_no_record(cluster: Cluster, topic: str) -> None:
    async def write(name: bytes) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap, batch_size=500) as producer:
            for number in range(200):
                await producer.send(topic, b"%s %d" % (name, number), partition=0)

    async def everything() -> list[bytes | None]:
        return [value for _, _, value, _ in await asyncio.to_thread(with_confluent, cluster.bootstrap, topic, 400)]

    await asyncio.gather(write(b"a"), write(b"b"))
    before = await everything()
    for name in (b"a", b"b"):
        mine = [value for value in before if value and value.startswith(name)]
        assert mine == [b"%s %d" % (name, number) for number in range(200)]
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_partitions(topic, 5)
        with pytest.raises(InvalidPartitionsError):
            await admin.create_partitions(topic, 4)
    assert await everything() == before
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        places = [await (await producer.send(topic, b"v", key=b"%d" % number)) for number in range(30)]
        assert [each.partition for each in places] == [partition_for_key(b"%d" % number, 5) for number in range(30)]


@pytest.mark.row(9)
async def test_callbacks_run_once(cluster: Cluster, topic: str) -> None:
    called: list[tuple[RecordMetadata | None, Exception | None]] = []
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for _ in range(10):
            await producer.send(topic, b"v", partition=1, on_delivery=lambda *outcome: called.append(outcome))
        refused = await producer.send(
            topic, b"v" * 200_000, partition=1, on_delivery=lambda *outcome: called.append(outcome)
        )
        await producer.flush()
        assert refused.done()
        assert "MESSAGE_TOO_LARGE" in str(refused.exception())
    places = [metadata.offset for metadata, error in called if metadata is not None and error is None]
    assert places == list(range(10))
    assert len(called) == 11


async def test_batches_that_the_broker_finds_too_large_are_split(cluster: Cluster, topic: str) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, batch_size=800_000, linger_ms=100) as producer:
        places = await (await producer.send_many(topic, [b"%03d" % n * 1000 for n in range(200)], partition=0))
        assert [each.offset for each in places] == list(range(200))
        assert producer.metrics()["batch-split-total"] > 0
    found = await with_aiokafka(cluster.bootstrap, topic, 200)
    assert [(value or b"")[:3] for _, _, value, _ in found] == [b"%03d" % n for n in range(200)]


@pytest.mark.row(23, 24, 26, 28, 29)
async def test_partitioners(cluster: Cluster, topic: str) -> None:
    async def places(count: int = 30, **options: Any) -> list[int]:
        async with Producer(bootstrap_servers=cluster.bootstrap, **options) as producer:
            deliveries = [await producer.send(topic, b"v", key=b"%d" % n) for n in range(count)]
            return [(await each).partition for each in deliveries]

    by_key = [partition_for_key(b"%d" % n, 3) for n in range(30)]
    assert await places() == by_key
    assert len(set(await places(partitioner_ignore_keys=True))) == 1
    assert sorted(await places(partitioner="round_robin")) == sorted([0, 1, 2] * 10)
    assert set(await places(partitioner="random")) == {0, 1, 2}
    assert set(await places(partitioner="least_bytes")) == {0, 1, 2}

    def own(choice: Choice) -> int:
        assert choice.topic == topic
        leaders = {each.leader for each in choice.partitions}
        assert {(node.host, node.rack) for node in leaders if node} == {("127.0.0.1", "here")}
        return int(choice.key or b"0") % len(choice.partitions)

    assert await places(partitioner=own) == [n % 3 for n in range(30)]


async def test_serializers(cluster: Cluster, topic: str) -> None:
    async with Producer(
        bootstrap_servers=cluster.bootstrap, key_serializer="str", value_serializer="json"
    ) as producer:
        await (await producer.send(topic, {"id": 7}, key="c-42", partition=0))
        with pytest.raises(SerializationError, match="value cannot be serialized"):
            await producer.send(topic, object())
    ((_, key, value, _),) = await with_aiokafka(cluster.bootstrap, topic, 1)
    assert (key, json.loads(value or b"")) == (b"c-42", {"id": 7})


async def test_what_cannot_be_sent_is_refused(cluster: Cluster, topic: str) -> None:
    options: dict[str, Any] = {"auto_create_topics": False, "max_request_size": 5000, "max_block_ms": 1000}
    async with Producer(bootstrap_servers=cluster.bootstrap, batch_size=1000, **options) as producer:
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            await producer.send(topic, b"v" * 5000)
        with pytest.raises(UnknownTopicOrPartitionError, match="partitions 0 to 2, not 3"):
            await producer.send(topic, b"v", partition=3)
        with pytest.raises(UnknownTopicOrPartitionError, match="did not appear"):
            await producer.send("absent", b"v")
        with pytest.raises(IllegalStateError, match="transactional_id"):
            producer.transaction()
        await (await producer.send(topic, b"still works"))
    with pytest.raises(ClosedError):
        await producer.send(topic, b"late")
    await producer.close()


async def test_unreachable_addresses_are_named() -> None:
    with pytest.raises(NoBrokersError, match="security_protocol") as caught:
        await Producer(bootstrap_servers="127.0.0.1:1,127.0.0.1:2").start()
    assert set(caught.value.tried) == {"127.0.0.1:1", "127.0.0.1:2"}
    assert caught.value.retriable


@pytest.mark.row(6)
async def test_send_waits_for_room_only(cluster: Cluster, topic: str) -> None:
    """While the node is paused the buffer fills, then `send` waits, and goes on when the node does."""
    options: dict[str, Any] = {"buffer_memory": 20_000, "batch_size": 2000, "max_block_ms": 300, "linger_ms": 0}
    async with Producer(bootstrap_servers=cluster.bootstrap, **options) as producer:
        deliveries = [await producer.send(topic, b"first", partition=0)]
        await deliveries[0]
        with cluster.pause(1):
            with pytest.raises(BufferFullError, match=r"buffer\.memory"):  # noqa: PT012
                for _ in range(1000):
                    deliveries.append(await producer.send(topic, b"v" * 100, partition=0))
            assert 50 < len(deliveries) < 250
        places = [await each for each in deliveries]
    assert [each.offset for each in places] == list(range(len(deliveries)))


@pytest.mark.row(5)
async def test_close_is_bounded_and_says_what_was_lost(cluster: Cluster, topic: str) -> None:
    producer = Producer(bootstrap_servers=cluster.bootstrap)
    await producer.start()
    await (await producer.send(topic, b"first"))
    with cluster.pause(1):
        lost = await producer.send(topic, b"second")
        await producer.close(0.2)
    with pytest.raises(ClosedError, match="before the record was acknowledged"):
        await lost


# --- transactions -------------------------------------------------------------------------------------------


async def committed_values(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    return [value for _, _, value, _ in await with_aiokafka(cluster.bootstrap, topic, count, committed=True)]


@pytest.mark.row(132, 133)
async def test_transactions_commit_and_abort(cluster: Cluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with (
        Producer(bootstrap_servers=cluster.bootstrap, transactional_id=topic, linger_ms=200) as producer,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"one", partition=0)
            await transaction.send_offsets({place: 5}, "group-of-" + topic)
        with pytest.raises(ValueError, match="mine"):  # noqa: PT012
            async with producer.transaction() as transaction:
                delivery = await transaction.send(topic, b"aborted", partition=0)
                await delivery
                await transaction.send_offsets({place: 99}, "group-of-" + topic)
                unsent = await transaction.send(topic, b"never sent", partition=1)
                raise ValueError("mine")
        with pytest.raises(TransactionAbortedError):
            await unsent
        async with producer.transaction():
            pass
        async with producer.transaction() as transaction:
            await transaction.send_many(topic, [b"two", b"three"], partition=0)
        with pytest.raises(IllegalStateError, match="within a transaction"):
            await producer.send(topic, b"outside")
        assert (await admin.list_group_offsets("group-of-" + topic, require_stable=True))[place].offset == 5
    assert await committed_values(cluster, topic, 3) == [b"one", b"two", b"three"]


@pytest.mark.row(134)
async def test_a_fenced_producer_is_informed(cluster: Cluster, topic: str) -> None:
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "transactional_id": topic}
    async with Producer(**options) as zombie:
        async with zombie.transaction():
            await zombie.send(topic, b"before", partition=0)
        async with Producer(**options) as newer:
            with pytest.raises(ProducerFencedError):
                async with zombie.transaction():
                    await zombie.send(topic, b"zombie", partition=0)
            with pytest.raises(ProducerFencedError):
                await zombie.begin_transaction()
            async with newer.transaction():
                await newer.send(topic, b"after", partition=0)
    assert await committed_values(cluster, topic, 2) == [b"before", b"after"]


async def test_a_transaction_with_a_failed_record_does_not_commit(cluster: Cluster, topic: str) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE"):  # noqa: PT012
            async with producer.transaction():
                await producer.send(topic, b"small", partition=0)
                await producer.send(topic, b"v" * 200_000, partition=0)
        async with producer.transaction():
            await producer.send(topic, b"next", partition=0)
    assert await committed_values(cluster, topic, 1) == [b"next"]


async def test_transactions_of_version_1(cluster: Cluster, topic: str) -> None:
    """Partitions and groups are added before they are written to, and the epoch stays."""
    place = TopicPartition(topic, 0)
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.update_features({"transaction.version": 1}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
        try:
            async with Producer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
                for value in (b"one", b"two"):
                    async with producer.transaction():
                        await producer.send(topic, value, partition=0)
                        await producer.send_offsets({place: 3}, "group-of-" + topic)
                with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE"):
                    async with producer.transaction():
                        await producer.send(topic, b"v" * 200_000, partition=0)
                async with producer.transaction():
                    await producer.send(topic, b"three", partition=0)
                await producer.begin_transaction()
                await (await producer.send(topic, b"aborted", partition=0))
                await producer.abort_transaction()
                async with producer.transaction():
                    await producer.send(topic, b"four", partition=0)
            assert (await admin.list_group_offsets("group-of-" + topic))[place].offset == 3
        finally:
            await admin.update_features({"transaction.version": 2})
    assert await committed_values(cluster, topic, 4) == [b"one", b"two", b"three", b"four"]


# --- admin --------------------------------------------------------------------------------------------------


async def test_admin(cluster: Cluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        with pytest.raises(TopicAlreadyExistsError, match=topic):
            await admin.create_topic(topic)
        assert topic in await admin.list_topics()
        await admin.create_partitions(topic, 4)
        described = await admin.describe_topic(topic)
        assert [each.number for each in described.partitions] == [0, 1, 2, 3]
        assert described.replication_factor == 1
        await admin.alter_topic_config(topic, {"retention.ms": "60000"}, delete=["max.message.bytes"])
        config = await admin.describe_topic_config(topic)
        assert (config["retention.ms"].value, config["retention.ms"].is_default) == ("60000", False)
        assert config["max.message.bytes"].is_default
        assert (await admin.describe_config(ResourceType.BROKER, "1", ["node.id"]))["node.id"].value == "1"

        await (await producer.send_many(topic, [b"%d" % n for n in range(20)], partition=0))
        assert await admin.delete_records({place: 5}) == {place: 5}
        offsets = [(await admin.list_offsets({place: when}))[place].offset for when in ("earliest", "latest", 0)]
        assert offsets == [5, 20, 5]
        (state,) = (await admin.describe_producers([place]))[place]
        assert state.last_sequence == 19

        group = "group-of-" + topic
        await admin.alter_group_offsets(group, {place: 7})
        assert (await admin.list_group_offsets(group))[place].offset == 7
        assert group in [each.group_id for each in await admin.list_groups()]
        assert (await admin.describe_group(group)).state == "Empty"
        await admin.delete_group_offsets(group, [place])
        assert await admin.list_group_offsets(group) == {}
        with pytest.raises(GroupIdNotFoundError):
            await admin.describe_group("absent")

        assert await admin.elect_leaders([place]) == {place: None}
        await admin.alter_reassignments({place: [1]})
        assert await admin.list_reassignments() == {}
        (folder,) = (await admin.describe_log_dirs())[1]
        assert folder.replicas[place].size > 0
        assert (await admin.describe_quorum()).leader_id == 1
        assert (await admin.describe_features()).finalized["transaction.version"] == 2
        assert [each.id for each in (await admin.describe_cluster()).brokers] == [1]
        await admin.alter_quotas({"client-id": topic}, {"producer_byte_rate": 1e6})
        (quota,) = await admin.describe_quotas({"client-id": topic})
        assert quota.values == {"producer_byte_rate": 1e6}
        await admin.alter_quotas({"client-id": topic}, {"producer_byte_rate": None})
        assert await admin.describe_quotas({"client-id": topic}) == []
        await admin.delete_topic(topic)
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.describe_topic(topic)


# --- without asyncio ----------------------------------------------------------------------------------------


@contextmanager
def child() -> Iterator[bool]:
    """The body runs in a forked process; a failure there is one here."""
    pid = os.fork()
    if pid == 0:
        try:
            yield True
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    yield False


@pytest.mark.row(4)
def test_the_blocking_producer(cluster: Cluster, topic: str) -> None:
    called: list[Any] = []
    with rookery.sync.Producer(bootstrap_servers=cluster.bootstrap, linger_ms=1) as producer:
        assert producer.send(topic, b"v", partition=0).result(PATIENCE_S).offset == 0
        deliveries = [producer.send(topic, b"v", partition=0) for _ in range(10_000)]
        producer.send(topic, b"v", partition=0, on_delivery=lambda *outcome: called.append(outcome))
        producer.flush()
        assert all(each.done() for each in deliveries)
        assert [each.result().offset for each in deliveries] == list(range(1, 10_001))
        assert [metadata.offset for metadata, _ in called] == [10_001]
        assert len(producer.send_many(topic, [b"a", b"b"], partition=0).result()) == 2
        with pytest.raises(SerializationError):
            producer.send(topic, "text").result()
        with child() as in_child:
            if in_child:
                with pytest.raises(ForkedError):
                    producer.flush()
    with pytest.raises(ClosedError):
        producer.send(topic, b"late")
    producer.close()
    with rookery.sync.Admin(bootstrap_servers=cluster.bootstrap) as admin:
        assert topic in admin.list_topics()


def test_blocking_transactions(cluster: Cluster, topic: str) -> None:
    with rookery.sync.Producer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer:
        with producer.transaction() as transaction:
            delivery = transaction.send(topic, b"one", partition=0)
        assert delivery.result().offset == 0
        with pytest.raises(ValueError, match="mine"), producer.transaction() as transaction:  # noqa: PT012
            transaction.send(topic, b"two", partition=0).result()
            raise ValueError("mine")
    assert asyncio.run(committed_values(cluster, topic, 1)) == [b"one"]


def test_a_consumer_and_an_admin_client_do_not_outlive_a_fork(cluster: Cluster, topic: str) -> None:
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap}
    with (
        rookery.sync.Consumer(topic, auto_offset_reset="earliest", **options) as consumer,
        rookery.sync.Admin(**options) as admin,
    ):
        assert consumer.getmany(timeout_ms=1) == []
        with child() as in_child:
            if in_child:
                for call in (consumer.getmany, consumer.positions, admin.list_topics):
                    with pytest.raises(ForkedError, match="after the fork"):
                        call()
                consumer.close()
                admin.close()
        assert topic in admin.list_topics()  # in the parent all is as it was
        with rookery.sync.Producer(**options) as producer:
            producer.send(topic, b"v").result()
        assert [record.value for record in consumer.getmany(timeout_ms=30_000)] == [b"v"]


def test_the_blocking_consumer(cluster: Cluster, topic: str) -> None:
    with rookery.sync.Producer(bootstrap_servers=cluster.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(20)], partition=0).result()
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap, "group_id": topic, "enable_auto_commit": False}
    with rookery.sync.Consumer(topic, auto_offset_reset="earliest", **options) as consumer:
        found = [record.value for record, _ in zip(consumer, range(10), strict=False)]
        consumer.commit({TopicPartition(topic, 0): 10})
    assert found == [b"%d" % number for number in range(10)]
    with rookery.sync.Consumer(topic, **options) as consumer:
        rest = consumer.getmany(timeout_ms=30_000)
        assert rest[0].offset == 10
