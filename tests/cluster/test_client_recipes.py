"""Three guarantees with our own producer and consumer, by docs/examples/guarantees.py; each meets a crash."""

from collections.abc import Iterator
from typing import Any

import pytest
from docs.examples.guarantees import STEP, Convert, at_least_once, at_most_once, exactly_once

from rookery import Admin, Consumer, Producer, Record, TopicPartition
from rookery.testing import Cluster

COUNT = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(
        nodes=1,
        config={
            "group.consumer.heartbeat.interval.ms": 200,
            "group.consumer.min.heartbeat.interval.ms": 100,
            "group.consumer.assignment.interval.ms": 0,
        },
    ) as running:
        yield running


class CrashError(Exception):
    """The program ends here."""


def crashing_at(offset: int) -> Convert:
    """Handles records up to one, of which it dies."""

    def convert(record: Record[Any, Any]) -> bytes:
        if record.offset == offset:
            raise CrashError
        return bytes(record.value)

    return convert


async def prepare(cluster: Cluster, name: str) -> tuple[str, str, str, str]:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        for topic in (f"{name}-in", f"{name}-out"):
            await admin.create_topic(topic, partitions=1)
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await (await producer.send_many(f"{name}-in", [b"%d" % number for number in range(COUNT)]))
    return cluster.bootstrap, f"{name}-in", f"{name}-out", name


async def results(cluster: Cluster, name: str) -> list[int]:
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
async def test_at_most_once(cluster: Cluster) -> None:
    """What the crash interrupted is lost; nothing comes twice."""
    places = await prepare(cluster, "most")
    with pytest.raises(CrashError):
        await at_most_once(*places, crashing_at(0), COUNT)
    await at_most_once(*places, crashing_at(-1), COUNT)
    assert await results(cluster, "most") == list(range(STEP, COUNT))


@pytest.mark.row(130)
async def test_at_least_once(cluster: Cluster) -> None:
    """What the crash interrupted comes again; nothing is lost."""
    places = await prepare(cluster, "least")
    with pytest.raises(CrashError):
        await at_least_once(*places, crashing_at(3), COUNT)
    await at_least_once(*places, crashing_at(-1), COUNT)
    assert await results(cluster, "least") == [0, 1, 2, *range(COUNT)]


@pytest.mark.row(130, 137)
async def test_exactly_once(cluster: Cluster) -> None:
    places = await prepare(cluster, "exact")
    for crash_at in (5, 20):
        with pytest.raises(CrashError):
            await exactly_once(*places, crashing_at(crash_at), COUNT)
    await exactly_once(*places, crashing_at(-1), COUNT)
    assert await results(cluster, "exact") == list(range(COUNT))
