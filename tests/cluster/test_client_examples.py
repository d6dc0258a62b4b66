"""The programs of docs/examples do what they say."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from docs.examples import commit_every_100, commit_failed, commit_sync_and_async, send_with_callback

from rookery import Admin, CommitFailedError, OffsetAndMetadata, Producer, Record, TopicPartition
from tests.cluster.local import LocalCluster, local_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(1) as running:
        yield running


async def fill(cluster: LocalCluster, topic: str, count: int) -> None:
    async with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap) as producer,
    ):
        await admin.create_topic(topic, partitions=1)
        await (await producer.send_many(topic, [b"%d" % number for number in range(count)]))


async def committed(cluster: LocalCluster, group: str, topic: str) -> OffsetAndMetadata | None:
    async with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        return (await admin.list_group_offsets(group)).get(TopicPartition(topic, 0))


def offset(found: OffsetAndMetadata | None) -> int:
    return -1 if found is None else found.offset


@pytest.mark.row(6, 9)
async def test_send_with_callback(cluster: LocalCluster) -> None:
    await fill(cluster, "called", 0)
    told = await send_with_callback.main(cluster.bootstrap, "called")
    assert told == ["stored at 0@0", "stored at 0@1", "stored at 0@2"]


@pytest.mark.row(116)
async def test_commits_in_the_background_and_one_at_the_end(cluster: LocalCluster) -> None:
    await fill(cluster, "both", 50)
    seen = []

    async def handle(record: Record[bytes, bytes]) -> bool:
        seen.append(record.offset)
        return record.offset < 49

    await commit_sync_and_async.main(cluster.bootstrap, "both", "both", handle)
    assert seen == list(range(50))
    assert offset(await committed(cluster, "both", "both")) == 50


@pytest.mark.row(117)
async def test_a_commit_every_100_records(cluster: LocalCluster) -> None:
    await fill(cluster, "hundred", 250)
    assert await commit_every_100.main(cluster.bootstrap, "hundred", "hundred", 250) == 2
    found = await committed(cluster, "hundred", "hundred")
    assert found is not None
    assert (found.offset, found.metadata) == (200, "every 100")


@pytest.mark.row(118, 119)
async def test_a_commit_that_fails_and_four_ways_out(cluster: LocalCluster) -> None:
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
