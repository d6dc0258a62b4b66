"""Producing and reading records of one partition with clients of other projects, each in its own way."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka
import kafka

from rookery.core.wire.records import Record, RecordHeader
from tests.interop.one_partition import TOPIC

PATIENCE_S = 30


class Read(NamedTuple):
    topic: str
    partition: int
    record: Record


class Client(NamedTuple):
    """`produce(address, codec, records)` and `consume(address, count)`."""

    name: str
    produce: Callable[[str, str, Sequence[Record]], None]
    consume: Callable[[str, int], list[Read]]
    sends_null_headers: bool = True

    def __repr__(self) -> str:
        return self.name


def _headers(record: Record) -> list[tuple[str, str | bytes | None]]:
    return [(key, value) for key, value in record.headers]


def _record(offset: Any, timestamp: int, key: Any, value: Any, headers: Any) -> Record:
    return Record(offset, timestamp, key, value, [RecordHeader(*header) for header in headers or ()])


def _librdkafka_produce(address: str, codec: str, records: Sequence[Record]) -> None:
    settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 200}
    producer = confluent_kafka.Producer(settings)
    for record in records:
        producer.produce(
            TOPIC, record.value, record.key, 0, timestamp=record.timestamp, headers=_headers(record)
        )
    if producer.flush(PATIENCE_S):
        raise TimeoutError("librdkafka did not deliver in time")


def _librdkafka_consume(address: str, count: int) -> list[Read]:
    settings = {
        "bootstrap.servers": address,
        "group.id": "none",
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[Read] = []
    end = time.monotonic() + PATIENCE_S
    try:
        while len(found) < count and time.monotonic() < end:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                raise confluent_kafka.KafkaException(message.error())
            record = _record(
                message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers()
            )
            found.append(Read(message.topic() or "", message.partition() or 0, record))
    finally:
        consumer.close()
    return found


def _kafka_python_produce(address: str, codec: str, records: Sequence[Record]) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        linger_ms=200,
        batch_size=1 << 20,  # it leaves batches alone that compressing would not shrink
        max_request_size=10_000_000,
        enable_idempotence=False,
    )
    sent = [
        producer.send(TOPIC, r.value, r.key, _headers(r), partition=0, timestamp_ms=r.timestamp)
        for r in records
    ]
    producer.flush(PATIENCE_S)
    for future in sent:
        future.get(PATIENCE_S)
    producer.close(PATIENCE_S)


def _kafka_python_consume(address: str, count: int) -> list[Read]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, group_id=None, check_crcs=True)
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: list[Read] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        for message in consumer.poll(500).get(partition, ()):
            record = _record(message.offset, message.timestamp, message.key, message.value, message.headers)
            found.append(Read(message.topic, message.partition, record))
    consumer.close()
    return found


def _aiokafka_produce(address: str, codec: str, records: Sequence[Record]) -> None:
    async def produce() -> None:
        compression = None if codec == "none" else codec
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=address, compression_type=compression, linger_ms=200, max_batch_size=1 << 20
        ) as producer:
            for r in records:
                await producer.send(
                    TOPIC, r.value, r.key, partition=0, timestamp_ms=r.timestamp, headers=_headers(r)
                )
            await producer.flush()

    asyncio.run(asyncio.wait_for(produce(), PATIENCE_S))


def _aiokafka_consume(address: str, count: int) -> list[Read]:
    async def consume() -> list[Read]:
        found: list[Read] = []
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, group_id=None, check_crcs=True)
        partition = aiokafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        async with consumer:
            consumer.seek(partition, 0)
            while len(found) < count:
                message = await consumer.getone()
                record = _record(
                    message.offset, message.timestamp, message.key, message.value, message.headers
                )
                found.append(Read(message.topic, message.partition, record))
        return found

    return asyncio.run(asyncio.wait_for(consume(), PATIENCE_S))


CLIENTS = [
    Client("librdkafka", _librdkafka_produce, _librdkafka_consume),
    Client("kafka-python", _kafka_python_produce, _kafka_python_consume, sends_null_headers=False),
    Client("aiokafka", _aiokafka_produce, _aiokafka_consume),
]
