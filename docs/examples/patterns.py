"""Point to point and publish/subscribe: the same topic, and what the group decides.

Members of one group share the records: each record is handled once. Every group gets all records. A consumer without a
group gets all of them too and commits nothing: a broadcast.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import time
from typing import Any

from rookery import Consumer, Producer, Record, TopicPartition


async def publish(bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await (await producer.send_many(topic, values, keys=values))


async def receive(
    bootstrap: str, topic: str, group: str | None, handle: Callable[[Record[bytes, bytes]], None]
) -> None:
    """Until it is cancelled."""
    options: dict[str, Any] = {} if group is None else {"group_id": group}
    async with Consumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options
    ) as consumer:
        async for record in consumer:
            handle(record)


async def deliver_later(bootstrap: str, waiting: str, target: str, delay_ms: int, count: int) -> None:
    """Delayed messages: records of `waiting` are sent on when they are `delay_ms` old. A topic for each delay keeps
    them in the order of their time, so only the first one is waited for. Committed is what was sent on."""
    async with (
        Consumer(
            waiting,
            bootstrap_servers=bootstrap,
            group_id=f"{waiting}-delay",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        Producer(bootstrap_servers=bootstrap) as producer,
    ):
        sent = 0
        while sent < count:
            for record in await consumer.getmany(max_records=1):
                loop = asyncio.get_running_loop()
                place = TopicPartition(record.topic, record.partition)
                due = loop.time() + (record.timestamp + delay_ms) / 1000 - time()
                consumer.pause(place)
                while loop.time() < due:  # polls go on meanwhile: the membership is not lost, however long the delay
                    await consumer.getmany(timeout_ms=min(1000, int((due - loop.time()) * 1000) + 1))
                consumer.resume(place)
                await (await producer.send(target, record.value, key=record.key))
                await consumer.commit(record)
                sent += 1
