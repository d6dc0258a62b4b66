"""CommitFailedError, and four ways out.

The group takes the partitions away from a member that does not poll for `max.poll.interval.ms`. Its next commit fails:
the records are somebody else's now, and are processed twice. Shorter work, a longer interval, fewer records at a time,
or handlers beside the poll loop keep it from happening.
"""

import asyncio
from typing import Any

from rookery import Consumer, Record

INTERVAL_MS = 4000
RECORDS = 8
WORK_S = 0.6


def consumer(bootstrap: str, topic: str, group: str, **options: Any) -> Consumer:
    settings: dict[str, Any] = {"max_poll_interval_ms": INTERVAL_MS, **options}
    return Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **settings,
    )


async def too_slow(bootstrap: str, topic: str, group: str, *, work_s: float = WORK_S, **options: Any) -> None:
    """Polls, works, commits. With the defaults above the work of one poll takes longer than the interval."""
    async with consumer(bootstrap, topic, group, **options) as source:
        done = 0
        while done < RECORDS:
            for _ in await source.getmany(timeout_ms=10_000):
                await asyncio.sleep(work_s)
                done += 1
            await source.commit()


async def shorter_work(bootstrap: str, topic: str, group: str) -> None:
    await too_slow(bootstrap, topic, group, work_s=0)


async def longer_interval(bootstrap: str, topic: str, group: str) -> None:
    await too_slow(bootstrap, topic, group, max_poll_interval_ms=300_000)


async def fewer_records(bootstrap: str, topic: str, group: str) -> None:
    await too_slow(bootstrap, topic, group, max_poll_records=1)


async def handlers_beside_the_loop(bootstrap: str, topic: str, group: str) -> None:
    """`run` polls while handlers work, and commits what they finished."""
    handled = 0

    async with consumer(bootstrap, topic, group) as source:

        async def handle(record: Record[bytes, bytes]) -> None:
            nonlocal handled
            await asyncio.sleep(WORK_S)
            handled += 1
            if handled == RECORDS:
                finished.set()

        finished = asyncio.Event()
        running = asyncio.create_task(source.run(handle, order_by="partition", handle_signals=False))
        await finished.wait()
        running.cancel()  # handlers that run are waited for, and what is finished is committed
        await asyncio.wait((running,))
