"""The programs of docs/examples do what they say."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docs.examples import commit_every_100, commit_failed, commit_sync_and_async, patterns, send_with_callback

from rookery import Admin, CommitFailedError, Consumer, OffsetAndMetadata, Producer, Record, TopicPartition
from rookery.testing import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


async def fill(cluster: Cluster, topic: str, count: int) -> None:
    async with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        await admin.create_topic(topic, partitions=1)
        await (await producer.send_many(topic, [b"%d" % number for number in range(count)]))


async def committed(cluster: Cluster, group: str, topic: str) -> OffsetAndMetadata | None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        return (await admin.list_group_offsets(group)).get(TopicPartition(topic, 0))


def offset(found: OffsetAndMetadata | None) -> int:
    return -1 if found is None else found.offset


async def test_the_quick_start(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/client.md begins with ten lines, and they work as they are there."""
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    assert len([line for line in code.splitlines() if line]) == 10
    names: dict[str, Any] = {}
    exec(code.replace("localhost:9092", cluster.bootstrap).replace("asyncio.run(main())", ""), names)
    running = asyncio.create_task(names["main"]())
    printed = ""
    async with asyncio.timeout(60):
        while "b'customer-7' b'value'" not in printed:
            assert not running.done(), running
            await asyncio.sleep(0.05)
            printed += capsys.readouterr().out
    running.cancel()
    await asyncio.wait((running,))


@pytest.mark.row(6, 9)
async def test_send_with_callback(cluster: Cluster) -> None:
    await fill(cluster, "called", 0)
    told = await send_with_callback.main(cluster.bootstrap, "called")
    assert told == ["stored at 0@0", "stored at 0@1", "stored at 0@2"]


@pytest.mark.row(116)
async def test_commits_in_the_background_and_one_at_the_end(cluster: Cluster) -> None:
    await fill(cluster, "both", 50)
    seen = []

    async def handle(record: Record[bytes, bytes]) -> bool:
        seen.append(record.offset)
        return record.offset < 49

    await commit_sync_and_async.main(cluster.bootstrap, "both", "both", handle)
    assert seen == list(range(50))
    assert offset(await committed(cluster, "both", "both")) == 50


@pytest.mark.row(117)
async def test_a_commit_every_100_records(cluster: Cluster) -> None:
    await fill(cluster, "hundred", 250)
    assert await commit_every_100.main(cluster.bootstrap, "hundred", "hundred", 250) == 2
    found = await committed(cluster, "hundred", "hundred")
    assert found is not None
    assert (found.offset, found.metadata) == (200, "every 100")


@pytest.mark.row(118, 119)
async def test_a_commit_that_fails_and_four_ways_out(cluster: Cluster) -> None:
    await fill(cluster, "slow", commit_failed.RECORDS)
    with pytest.raises(CommitFailedError) as failed:
        await commit_failed.too_slow(cluster.bootstrap, "slow", "slow")
    for remedy in ("max_poll_interval_ms", "max_poll_records"):
        assert remedy in str(failed.value).replace(".", "_")
    assert offset(await committed(cluster, "slow", "slow")) == -1
    cures: list[Any] = [
        commit_failed.shorter_work,
        commit_failed.longer_interval,
        commit_failed.fewer_records,
        commit_failed.handlers_beside_the_loop,
    ]
    await asyncio.gather(*(cure(cluster.bootstrap, "slow", cure.__name__) for cure in cures))
    for cure in cures:
        assert offset(await committed(cluster, cure.__name__, "slow")) == commit_failed.RECORDS, cure.__name__


async def received(
    cluster: Cluster, topic: str, groups: list[str | None], wanted: set[bytes]
) -> list[list[bytes]]:
    """What a consumer for each entry gets, until every group, and every consumer without one, has everything."""
    found: list[list[bytes]] = [[] for _ in groups]
    complete = asyncio.Event()

    def handle(number: int, record: Record[bytes, bytes]) -> None:
        found[number].append(record.value)
        by_name: dict[object, set[bytes]] = {}
        for each, group in enumerate(groups):
            by_name.setdefault(each if group is None else group, set()).update(found[each])
        if all(values == wanted for values in by_name.values()):
            complete.set()

    tasks = [
        asyncio.create_task(patterns.receive(cluster.bootstrap, topic, group, partial(handle, number)))
        for number, group in enumerate(groups)
    ]
    async with asyncio.timeout(60):
        await complete.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return found


@pytest.mark.row(91, 171, 181)
async def test_point_to_point_publish_subscribe_and_broadcast(cluster: Cluster) -> None:
    """Two members share, another group has everything, and so have two consumers without a group."""
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        await admin.create_topic("patterns", partitions=4)
    values = [b"%d" % number for number in range(40)]
    await patterns.publish(cluster.bootstrap, "patterns", values)
    found = await received(cluster, "patterns", ["work", "work", "audit", None, None], set(values))
    assert [sorted(each, key=int) for each in found[2:]] == [values] * 3


@pytest.mark.row(178)
async def test_delayed_messages(cluster: Cluster) -> None:
    await fill(cluster, "later", 0)
    await fill(cluster, "due", 0)
    begun = time.time()
    await patterns.publish(cluster.bootstrap, "later", [b"0", b"1", b"2"])
    await patterns.deliver_later(cluster.bootstrap, "later", "due", 1500, 3)
    assert time.time() - begun >= 1.5
    assert await received(cluster, "due", [None], {b"0", b"1", b"2"}) == [[b"0", b"1", b"2"]]
    assert offset(await committed(cluster, "later-delay", "later")) == 3


@pytest.mark.row(169)
async def test_a_burst_is_buffered_and_drained_with_nothing_lost(cluster: Cluster) -> None:
    """50,000 records at once, far more than a slow reader takes at a time: the topic keeps them until they are read."""
    await fill(cluster, "burst", 0)
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await (await producer.send_many("burst", [b"%d" % number for number in range(50_000)]))
    async with Consumer(
        "burst", bootstrap_servers=cluster.bootstrap, group_id="burst", auto_offset_reset="earliest"
    ) as consumer:
        found: list[int] = []
        async with asyncio.timeout(60):
            while len(found) < 50_000:
                found += [int(record.value) for record in await consumer.getmany(max_records=700)]
    assert found == list(range(50_000))
