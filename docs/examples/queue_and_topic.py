"""Point to point, publish/subscribe and broadcast: only the group differs.

Members of one group share the records of a topic: each record goes to one of them, as from a queue. Every group gets
all records. A consumer without a group reads everything: a broadcast.
"""

from collections.abc import Callable

from rookery import Consumer, Record


async def receive(
    bootstrap: str, topic: str, group: str | None, handle: Callable[[Record[bytes, bytes]], None]
) -> None:
    """Until it is cancelled. Positions of a group are committed now and then, and when a member goes."""
    async with Consumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            handle(record)
