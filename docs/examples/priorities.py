"""Urgent records first, with a topic for each priority: inside a topic there are none, a log is read in order."""

from collections.abc import Callable

from rookery import Consumer, Record


async def urgent_first(
    bootstrap: str, urgent: str, normal: str, group: str, handle: Callable[[Record[bytes, bytes]], None], wanted: int
) -> None:
    """Normal records are read only while no urgent one waits, a few at a time."""
    handled = 0
    options = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    async with (
        Consumer(urgent, options, group_id=f"{group}-urgent") as first,
        Consumer(normal, options, group_id=f"{group}-normal") as second,
    ):
        while handled < wanted:
            records = await first.getmany(timeout_ms=200)
            if not records and first.assignment and not await waiting(first):
                records = await second.getmany(timeout_ms=200, max_records=5)
            for record in records:
                handle(record)
                handled += 1


async def waiting(consumer: Consumer) -> int:
    """How many records of its partitions the consumer has not read."""
    ends = await consumer.end_offsets(*consumer.assignment)
    return sum([ends[each] - await consumer.position(each) for each in ends])
