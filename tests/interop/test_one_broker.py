"""Unmodified clients against one broker on a real socket: create, produce, fetch, seek, delete."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PyPartition

from tests.interop.lost_answer import LosesOneAnswer
from tests.unit.broker.one_broker import OneBroker, running_broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
WAIT_S = 20.0


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    async with running_broker() as running:
        yield running


def address(broker: OneBroker) -> str:
    return f"127.0.0.1:{broker.port}"


# --- librdkafka -------------------------------------------------------------------------------------------


def rd_create(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


def rd_produce(servers: str, topic: str, values: list[bytes], **options: Any) -> list[int]:
    """Send values in order; their offsets."""
    offsets: dict[int, int] = {}
    producer = Producer({"bootstrap.servers": servers, **{k.replace("_", "."): v for k, v in options.items()}})
    for number, value in enumerate(values):

        def delivered(error: Any, message: Any, number: int = number) -> None:
            assert error is None, error
            offsets[number] = message.offset()

        producer.produce(topic, value, key=b"k%d" % number, headers=[("n", b"%d" % number)], partition=0,
                         on_delivery=delivered)  # fmt: skip
    assert producer.flush(WAIT_S) == 0
    return [offsets[number] for number in range(len(values))]


def rd_consume(servers: str, start: TopicPartition, count: int, **options: Any) -> list[Any]:
    conf = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, **options}
    consumer = Consumer(conf)
    consumer.assign([start])
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    consumer.close()
    return found


@pytest.mark.row(5, 7, 32, 34, 46, 143, 144)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
async def test_librdkafka_reads_back_what_it_wrote(broker: OneBroker, codec: str, idempotent: bool) -> None:
    values = [b"value %d " % number * 20 for number in range(500)]

    def client() -> None:
        servers = address(broker)
        rd_create(servers, "orders", 2)
        offsets = rd_produce(
            servers, "orders", values, compression_type=codec, enable_idempotence=idempotent
        )
        assert offsets == list(range(500))
        found = rd_consume(servers, TopicPartition("orders", 0, OFFSET_BEGINNING), 500)
        assert [message.value() for message in found] == values
        assert [message.offset() for message in found] == offsets
        one = found[7]
        assert (one.topic(), one.partition(), one.key(), one.headers()) == ("orders", 0, b"k7", [("n", b"7")])
        assert abs(one.timestamp()[1] - time.time() * 1000) < 60_000

    await asyncio.to_thread(client)


@pytest.mark.row(39)
async def test_librdkafka_seeks_by_offset_and_by_time(broker: OneBroker) -> None:
    def client() -> None:
        servers = address(broker)
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        for second in range(10):
            producer.produce("times", b"%d" % second, partition=0, timestamp=1_600_000_000_000 + second * 1000)
            assert producer.flush(WAIT_S) == 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
        (found,) = consumer.offsets_for_times([TopicPartition("times", 0, 1_600_000_004_500)], WAIT_S)
        assert found.offset == 5
        assert consumer.get_watermark_offsets(TopicPartition("times", 0), WAIT_S) == (0, 10)
        consumer.close()
        (message,) = rd_consume(servers, TopicPartition("times", 0, 7), 1)[:1]
        assert (message.offset(), message.value()) == (7, b"7")

    await asyncio.to_thread(client)


async def test_librdkafka_administers_topics(broker: OneBroker) -> None:
    def client() -> None:
        admin = AdminClient({"bootstrap.servers": address(broker)})
        create = NewTopic("orders", 1, 1, config={"retention.ms": "12345"})
        admin.create_topics([create])["orders"].result(WAIT_S)
        with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([create])["orders"].result(WAIT_S)
        admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(WAIT_S)
        assert len(admin.list_topics(timeout=WAIT_S).topics["orders"].partitions) == 3
        (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")]).values()
        assert described.result(WAIT_S)["retention.ms"].value == "12345"
        cluster = admin.describe_cluster(request_timeout=WAIT_S).result(WAIT_S)
        assert (cluster.cluster_id, cluster.controller.id) == (broker.cluster.cluster_id, 1)
        admin.delete_topics(["orders"])["orders"].result(WAIT_S)
        assert "orders" not in admin.list_topics(timeout=WAIT_S).topics

    await asyncio.to_thread(client)


@pytest.mark.row(86)
async def test_librdkafka_waits_for_data_without_asking_again_and_again(broker: OneBroker) -> None:
    def client() -> None:
        servers = address(broker)
        rd_produce(servers, "slow", [b"first"])
        conf = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False}
        consumer = Consumer({**conf, "fetch.wait.max.ms": 10_000})
        consumer.assign([TopicPartition("slow", 0, 1)])
        consumer.poll(0.5)
        fetches = broker.server.requests.route("Fetch").versions
        before = sum(fetches.values())
        consumer.poll(1.0)
        assert sum(fetches.values()) - before <= 1, "a waiting consumer asks once"
        rd_produce(servers, "slow", [b"second"], linger_ms=0)
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.value() == b"second"
        consumer.close()

    await asyncio.to_thread(client)


@pytest.mark.row(14, 22)
@pytest.mark.invariant("T1")
async def test_a_retry_after_a_lost_answer_stores_once(broker: OneBroker) -> None:
    """The broker appends, the answer gets lost with the connection, the producer sends again."""
    async with LosesOneAnswer(broker.port) as between:
        broker.register(between.port)

        def client() -> list[int]:
            servers = f"127.0.0.1:{between.port}"
            rd_create(servers, "orders", 1)
            between.lose_next_produce_answer()
            return rd_produce(servers, "orders", [b"once"], enable_idempotence=True, linger_ms=0)

        offsets = await asyncio.to_thread(client)
        assert between.lost == 1
    assert offsets == [0]
    assert broker.partition("orders").log.end_offset == 1


# --- aiokafka ---------------------------------------------------------------------------------------------


@pytest.mark.row(7, 32, 34, 143)
@pytest.mark.parametrize("codec", CODECS)
async def test_aiokafka_reads_back_what_it_wrote(broker: OneBroker, codec: str) -> None:
    servers = address(broker)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([AioNewTopic("orders", 1, 1)])
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, compression_type=None if codec == "none" else codec, enable_idempotence=True
    )
    await producer.start()
    values = [b"value %d " % number * 20 for number in range(200)]
    sent = [await producer.send("orders", value, headers=[("n", b"1")]) for value in values]
    assert [(await one).offset for one in sent] == list(range(200))
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    partition = AioPartition("orders", 0)
    consumer.assign([partition])
    async with asyncio.timeout(WAIT_S):
        found = [await consumer.getone() for _ in values]
        assert [(one.value, one.headers[0]) for one in found] == [(value, ("n", b"1")) for value in values]
        consumer.seek(partition, 150)
        assert (await consumer.getone()).offset == 150
        times = await consumer.offsets_for_times({partition: found[0].timestamp})
        assert times[partition].offset == 0
        assert await consumer.end_offsets([partition]) == {partition: 200}
    await consumer.stop()
    await admin.delete_topics(["orders"])
    await admin.close()
    assert "orders" not in broker.cluster.image.topic_ids


# --- kafka-python -----------------------------------------------------------------------------------------


@pytest.mark.row(7, 32, 34, 143)
@pytest.mark.parametrize("codec", CODECS)
async def test_kafka_python_reads_back_what_it_wrote(broker: OneBroker, codec: str) -> None:
    values = [b"value %d " % number * 20 for number in range(200)]

    def client() -> None:
        servers = [address(broker)]
        producer = KafkaProducer(
            bootstrap_servers=servers, compression_type=None if codec == "none" else codec, max_block_ms=20_000
        )
        sent = [producer.send("orders", value, headers=[("n", b"1")], partition=0) for value in values]
        assert [one.get(WAIT_S).offset for one in sent] == list(range(200))
        producer.close()
        consumer = KafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=20_000
        )
        partition = PyPartition("orders", 0)
        consumer.assign([partition])
        found = [next(consumer) for _ in values]
        assert [one.value for one in found] == values
        consumer.seek(partition, 150)
        assert next(consumer).offset == 150
        assert consumer.end_offsets([partition]) == {partition: 200}
        consumer.close()

    await asyncio.to_thread(client)
