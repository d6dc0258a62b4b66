"""Commits that do not hold up the loop, and one at the end that is waited for and repeated until it works.

A commit in the background that fails is not repeated: the next one does the same work, and more.
"""

from collections.abc import Awaitable, Callable

from rookery import Consumer, Record


async def main(
    bootstrap: str, topic: str, group: str, handle: Callable[[Record[bytes, bytes]], Awaitable[bool]]
) -> None:
    """Until `handle` returns False."""
    async with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        goes_on = True
        try:
            while goes_on:
                for record in await consumer.getmany():
                    goes_on = await handle(record)
                consumer.commit_async()
        finally:
            await consumer.commit()
