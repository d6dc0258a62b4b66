"""A burst is buffered in the log and drained by a slower consumer: the log is the buffer, not somebody's memory."""

import asyncio
from collections.abc import Awaitable, Callable

from rookery import Admin, Consumer, Producer, Record, TopicPartition


async def burst(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """All at once; returns when every record is stored on the replicas in sync."""
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()


async def lag(bootstrap: str, topic: str, group: str) -> int:
    """How many records wait for the group."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        partitions = [TopicPartition(topic, each.number) for each in (await admin.describe_topic(topic)).partitions]
        ends = await admin.list_offsets(dict.fromkeys(partitions, "latest"))
        read = await admin.list_group_offsets(group)
    return sum(ends[each].offset - (read[each].offset if each in read else 0) for each in partitions)


async def drain(
    bootstrap: str, topic: str, group: str, handle: Callable[[Record[bytes, bytes]], Awaitable[None]]
) -> None:
    """Handle ten at a time, in its own time, until nothing waits."""
    async with Consumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        while True:
            records = await consumer.getmany(timeout_ms=500, max_records=10)
            for record in records:
                await handle(record)
            if records:
                await consumer.commit()
            elif not await lag(bootstrap, topic, group):
                return


async def main(bootstrap: str, topic: str, group: str) -> None:
    async def slowly(record: Record[bytes, bytes]) -> None:
        await asyncio.sleep(0.01)
        print(record.value)

    await burst(bootstrap, topic, [b"order %d" % number for number in range(1000)])
    await drain(bootstrap, topic, group, slowly)
