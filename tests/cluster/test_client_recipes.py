"""Three guarantees with our own producer and consumer, as docs/client-producer.md has them; each meets a crash."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from rookery import Admin, Consumer, Producer, Record, TopicPartition
from tests.cluster.local import LocalCluster, local_cluster

COUNT = 60
STEP = 7


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(1) as running:
        yield running


class CrashError(Exception):
    """The program ends here."""


async def prepare(cluster: LocalCluster, name: str) -> None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for topic in (f"{name}-in", f"{name}-out"):
            await admin.create_topic(topic, partitions=1)
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await (await producer.send_many(f"{name}-in", [b"%d" % number for number in range(COUNT)]))


def consumer(cluster: LocalCluster, name: str) -> Consumer:
    return Consumer(
        f"{name}-in",
        bootstrap_servers=cluster.bootstrap,
        group_id=name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


async def batches(source: Consumer) -> AsyncIterator[list[Record[Any, Any]]]:
    """Some records at a time, until the last one of the input."""
    last = -1
    while last < COUNT - 1:
        batch = await source.getmany(timeout_ms=30_000, max_records=STEP)
        assert batch, f"nothing came after {last}"
        last = batch[-1].offset
        yield batch


async def results(cluster: LocalCluster, name: str) -> list[int]:
    """All committed values of the output."""
    place = TopicPartition(f"{name}-out", 0)
    async with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Consumer(
            bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as reader,
    ):
        reader.assign([place])
        end = (await admin.list_offsets({place: "latest"}, read_committed=True))[place].offset
        found: list[int] = []
        while await reader.position(place) < end:
            found += [int(record.value) for record in await reader.getmany(timeout_ms=500)]
        return found


@pytest.mark.row(130)
async def test_at_most_once(cluster: LocalCluster) -> None:
    """Commit first, then process: what a crash interrupts is lost."""
    await prepare(cluster, "most")
    for crash in (True, False):
        async with consumer(cluster, "most") as source, Producer(bootstrap_servers=cluster.bootstrap) as producer:
            async for batch in batches(source):
                await source.commit()
                if crash:
                    break
                for record in batch:
                    await producer.send("most-out", record.value)
    found = await results(cluster, "most")
    assert found == list(range(STEP, COUNT))


@pytest.mark.row(130)
async def test_at_least_once(cluster: LocalCluster) -> None:
    """Process first, then commit: what a crash interrupts comes again."""
    await prepare(cluster, "least")
    for crash in (True, False):
        async with consumer(cluster, "least") as source, Producer(bootstrap_servers=cluster.bootstrap) as producer:
            async for batch in batches(source):
                for record in batch:
                    await producer.send("least-out", record.value)
                await producer.flush()
                if crash:
                    break
                await source.commit()
    found = await results(cluster, "least")
    assert found == [*range(STEP), *range(COUNT)]


async def process(cluster: LocalCluster, crash_at: int) -> None:
    """Results and offsets in one transaction."""
    async with (
        consumer(cluster, "exact") as source,
        Producer(bootstrap_servers=cluster.bootstrap, transactional_id="exact") as producer,
    ):
        done = 0
        async for batch in batches(source):
            async with producer.transaction() as transaction:
                for record in batch:
                    await transaction.send("exact-out", record.value)
                done += len(batch)
                if done > crash_at:
                    await producer.flush()
                    raise CrashError
                after = {TopicPartition("exact-in", 0): batch[-1].offset + 1}
                await transaction.send_offsets(after, source.group_metadata())


@pytest.mark.row(130, 137)
async def test_exactly_once(cluster: LocalCluster) -> None:
    await prepare(cluster, "exact")
    for crash_at in (5, 20):
        with pytest.raises(CrashError):
            await process(cluster, crash_at)
    await process(cluster, 1000)
    assert await results(cluster, "exact") == list(range(COUNT))
