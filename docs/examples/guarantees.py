"""A program that reads one topic and writes another, with three guarantees. What differs is when offsets are committed.

Each function works until it has handled the record before `end`. A crash is an exception that comes out of `convert`;
started again, the program goes on where its group committed.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

from rookery import Consumer, Producer, Record

AnyRecord = Record[Any, Any]
Convert = Callable[[AnyRecord], bytes]
STEP = 7
"""Records between two commits."""


def consumer(bootstrap: str, source: str, group: str, **options: Any) -> Consumer:
    return Consumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )


async def batches(reader: Consumer, end: int) -> AsyncIterator[list[AnyRecord]]:
    last = -1
    while last < end - 1:
        batch = await reader.getmany(timeout_ms=1000, max_records=STEP)
        if batch:
            last = batch[-1].offset
            yield batch


async def at_most_once(
    bootstrap: str, source: str, target: str, group: str, convert: Convert, end: int
) -> None:
    """Commit, then work: what a crash interrupts is lost. For what may be lost, but must not come twice."""
    async with (
        consumer(bootstrap, source, group) as reader,
        Producer(bootstrap_servers=bootstrap, acks=0) as producer,
    ):
        async for batch in batches(reader, end):
            await reader.commit()
            for record in batch:
                await producer.send(target, convert(record))


async def at_least_once(
    bootstrap: str, source: str, target: str, group: str, convert: Convert, end: int
) -> None:
    """Work, wait until it is stored, then commit: what a crash interrupts comes again. The usual choice."""
    async with (
        consumer(bootstrap, source, group) as reader,
        Producer(bootstrap_servers=bootstrap) as producer,
    ):
        async for batch in batches(reader, end):
            for delivery in [await producer.send(target, convert(record)) for record in batch]:
                await delivery
            await reader.commit()


async def exactly_once(
    bootstrap: str, source: str, target: str, group: str, convert: Convert, end: int
) -> None:
    """Results and offsets in one transaction: readers with read_committed see each result once."""
    async with (
        consumer(bootstrap, source, group, isolation_level="read_committed") as reader,
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{group}-1") as producer,
    ):
        async for batch in batches(reader, end):
            async with producer.transaction() as transaction:
                for record in batch:
                    await transaction.send(target, convert(record))
                await transaction.send_offsets(reader.positions(), reader.group_metadata())
