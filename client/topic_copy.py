"""Copies records from one topic to another: same partition, key, value, headers and time; offsets are new."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rookery.client.consumer import Consumer
from rookery.client.producer import Producer
from rookery.client.types import TopicPartition

CHUNK = 1000


async def copy_records(
    options: Mapping[str, Any],
    places: Sequence[TopicPartition],
    to: str,
    since_ms: int | None,
    *,
    read_committed: bool,
    report: Callable[[int], None] = lambda _: None,
) -> int:
    """Copy up to where the partitions end now, and return how many records were acknowledged; `report` is called after
    each chunk."""
    reading = {
        **options,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "false",
    }
    writing = {**options, "acks": "all", "linger.ms": 20}
    copied = 0
    async with Consumer(reading) as consumer, Producer(writing) as producer:
        consumer.assign(places)
        ends = await consumer.end_offsets(*places)
        if since_ms is None:
            consumer.seek_to_beginning(*places)
        else:
            consumer.seek_to_time(since_ms, *places)
        left = set(places)
        await _leave_read(consumer, left, ends)
        while left:
            deliveries = []
            for record in await consumer.getmany(timeout_ms=500, max_records=CHUNK):
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    deliveries.append(
                        await producer.send(
                            to,
                            record.value,
                            key=record.key,
                            headers=record.headers,
                            partition=record.partition,
                            timestamp_ms=record.timestamp,
                        )
                    )
            for delivery in deliveries:
                await delivery
            copied += len(deliveries)
            report(copied)
            await _leave_read(consumer, left, ends)
    return copied


async def _leave_read(consumer: Consumer, left: set[TopicPartition], ends: Mapping[TopicPartition, int]) -> None:
    """Take partitions that are read to their end out of `left`, and fetch them no more."""
    for place in list(left):
        if await consumer.position(place) >= ends[place]:
            consumer.pause(place)
            left.discard(place)
