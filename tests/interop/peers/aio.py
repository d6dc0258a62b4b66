"""aiokafka."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Seen, key, timestamp, value

T = TypeVar("T")
Seek = Callable[[AIOKafkaConsumer, TopicPartition], Awaitable[int]]


class AioKafka:
    name = "aiokafka"
    sets_timestamps = True
    deletes = True

    def create(self, bootstrap: str, topic: str, partitions: int) -> None:
        _run(self._create(bootstrap, topic, partitions))

    async def _create(self, bootstrap: str, topic: str, partitions: int) -> None:
        async with _admin(bootstrap) as admin:
            await admin.create_topics([NewTopic(topic, partitions, 1)])

    def delete(self, bootstrap: str, topic: str) -> None:
        _run(self._delete(bootstrap, topic))

    async def _delete(self, bootstrap: str, topic: str) -> None:
        async with _admin(bootstrap) as admin:
            await admin.delete_topics([topic])

    def write(self, bootstrap: str, topic: str) -> None:
        _run(self._write(bootstrap, topic))

    async def _write(self, bootstrap: str, topic: str) -> None:
        for partition, codec in enumerate(CODECS):
            async with AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=True,
                linger_ms=20,
            ) as producer:
                sent = [
                    await producer.send(
                        topic,
                        value(number),
                        key(number),
                        partition=partition,
                        timestamp_ms=timestamp(number),
                        headers=[("from", self.name.encode())],
                    )
                    for number in range(RECORDS)
                ]
                await asyncio.gather(*sent)

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        async def seek(consumer: AIOKafkaConsumer, place: TopicPartition) -> int:
            return offset

        return _run(self._read(bootstrap, TopicPartition(topic, partition), seek, count))

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        async def seek(consumer: AIOKafkaConsumer, place: TopicPartition) -> int:
            return int((await consumer.offsets_for_times({place: timestamp}))[place].offset)

        return _run(self._read(bootstrap, TopicPartition(topic, partition), seek, count))

    async def _read(self, bootstrap: str, place: TopicPartition, seek: Seek, count: int) -> list[Seen]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, check_crcs=True)
        consumer.assign([place])
        async with consumer:
            consumer.seek(place, await seek(consumer, place))
            return [_seen(await consumer.getone()) for _ in range(count)]


def _seen(message: Any) -> Seen:
    return Seen(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        tuple(message.headers),
    )


@asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))
