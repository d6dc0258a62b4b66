"""Storage, messaging and stream processing in one program: words are counted exactly once, over crashes.

Lines come in by one topic (messaging). Each count goes to a compacted topic, which keeps the last count of every word:
it is the table (storage), and what a new process reads to know where the last one was. Counts and the position in the
lines are written in one transaction (stream processing).
"""

from collections import Counter

from rookery import Admin, Consumer, Producer, TopicPartition


async def prepare(bootstrap: str, lines: str, counts: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(lines, partitions=1)
        await admin.create_topic(counts, partitions=1, config={"cleanup.policy": "compact"})


async def table(bootstrap: str, counts: str) -> Counter[str]:
    """The counts that were committed, read from the beginning."""
    place, found = TopicPartition(counts, 0), Counter[str]()
    async with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
    ):
        end = (await admin.list_offsets({place: "latest"}, read_committed=True))[place].offset
        consumer.assign([place])
        while await consumer.position(place) < end:
            for record in await consumer.getmany(timeout_ms=500):
                found[record.key.decode()] = int(record.value)
    return found


async def count(bootstrap: str, lines: str, counts: str, until: int, fail_at: int = -1) -> None:
    """Count the lines before offset `until`; at line `fail_at` the process dies."""
    place = TopicPartition(lines, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=f"{counts}-writer") as producer:
        known = await table(bootstrap, counts)  # complete: the new producer has ended what an older one left open
        async with Consumer(
            lines,
            bootstrap_servers=bootstrap,
            group_id=f"{counts}-group",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as source:
            done = 0
            while done < until:
                for record in await source.getmany(timeout_ms=1000, max_records=1):
                    async with producer.transaction() as transaction:
                        for word in record.value.decode().split():
                            known[word] += 1
                            await transaction.send(counts, b"%d" % known[word], key=word.encode())
                        if record.offset == fail_at:
                            raise RuntimeError("the process dies before it has committed")
                        done = record.offset + 1
                        await transaction.send_offsets({place: done}, source.group_metadata())
