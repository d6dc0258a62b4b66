"""What users write, for type checkers: mypy and pyright, both strict, find nothing (`make check`). It is not run."""

import asyncio
from collections.abc import Collection

from rookery import (
    Admin,
    CommitFailedError,
    Consumer,
    Producer,
    RebalanceListener,
    Record,
    RecordMetadata,
    TopicDescription,
    TopicPartition,
    sync,
)


class Listener(RebalanceListener):
    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        print(len(revoked))


async def handle(record: Record[bytes, bytes]) -> None:
    print(record.topic, record.value)


async def contract() -> None:
    async with Producer(bootstrap_servers="localhost:9092", acks="all", linger_ms=5) as producer:
        delivery = await producer.send("t", b"value", key=b"k", headers=[("h", b"1")])
        place: RecordMetadata = await delivery
        print(place.topic, place.partition, place.offset)
        async with producer.transaction() as transaction:
            await transaction.send("t", b"value")
    async with Consumer("t", bootstrap_servers="localhost:9092", group_id="g", listener=Listener()) as consumer:
        async for record in consumer:
            print(record.offset, record.key, record.value, record.headers, record.timestamp)
        batch = await consumer.getmany(timeout_ms=1000, max_records=500)
        print(len(batch))
        try:
            await consumer.commit({TopicPartition("t", 0): 17})
        except CommitFailedError:
            await consumer.commit()
        await consumer.run(handle, concurrency=16, order_by="key")
    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("t", partitions=3, replication_factor=3, config={"retention.ms": "60000"})
        described: TopicDescription = await admin.describe_topic("t")
        print(described.partitions[0].leader)


def blocking() -> None:
    with sync.Producer(bootstrap_servers="localhost:9092") as producer:
        place: RecordMetadata = producer.send("t", b"value").result()
        print(place.offset)
    with sync.Consumer("t", {"max.poll.records": 100}, bootstrap_servers="localhost:9092") as consumer:
        for record in consumer:
            print(record.value)
        consumer.commit({sync.TopicPartition("t", 0): 17})
    with sync.Admin(bootstrap_servers="localhost:9092") as admin:
        print(admin.list_topics())


if __name__ == "__main__":
    asyncio.run(contract())
    blocking()
