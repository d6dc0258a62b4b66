"""Rookery's own client."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from rookery import Admin, Consumer, Producer, Record, TopicPartition
from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Seen, key, timestamp, value

T = TypeVar("T")
Seek = Callable[[Consumer, TopicPartition], Awaitable[int]]


class Rookery:
    name = "rookery"
    sets_timestamps = True
    deletes = True

    def create(self, bootstrap: str, topic: str, partitions: int) -> None:
        async def work() -> None:
            async with Admin(bootstrap_servers=bootstrap) as admin:
                await admin.create_topic(topic, partitions=partitions, replication_factor=1)

        _run(work())

    def delete(self, bootstrap: str, topic: str) -> None:
        async def work() -> None:
            async with Admin(bootstrap_servers=bootstrap) as admin:
                await admin.delete_topic(topic)

        _run(work())

    def write(self, bootstrap: str, topic: str) -> None:
        _run(self._write(bootstrap, topic))

    async def _write(self, bootstrap: str, topic: str) -> None:
        for partition, codec in enumerate(CODECS):
            async with Producer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20) as producer:
                sent = [
                    await producer.send(
                        topic,
                        value(number),
                        key=key(number),
                        partition=partition,
                        timestamp_ms=timestamp(number),
                        headers=[("from", self.name.encode())],
                    )
                    for number in range(RECORDS)
                ]
                for each in sent:
                    await each

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        async def seek(consumer: Consumer, place: TopicPartition) -> int:
            return offset

        return _run(_read(bootstrap, TopicPartition(topic, partition), seek, count))

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        async def seek(consumer: Consumer, place: TopicPartition) -> int:
            found = (await consumer.offsets_for_times({place: timestamp}))[place]
            assert found is not None
            return found.offset

        return _run(_read(bootstrap, TopicPartition(topic, partition), seek, count))


async def _read(bootstrap: str, place: TopicPartition, seek: Seek, count: int) -> list[Seen]:
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek(place, await seek(consumer, place))
        found: list[Record[Any, Any]] = []
        while len(found) < count:
            found += await consumer.getmany(max_records=count - len(found))
        return [
            Seen(
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple((name, content or b"") for name, content in record.headers),
            )
            for record in found
        ]


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))
