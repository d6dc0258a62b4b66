"""A name that was used before: whose the folder is that is found under it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from rookery.core.metadata import image as im
from rookery.core.metadata import records as r
from rookery.core.testing.disk import MemoryDisk
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import log_dirs, memory
from tests.unit.broker.metadata.test_damaged_replicas import KEY, ME, PLACE, Desk
from tests.unit.broker.metadata.test_missing_replicas import partition, serving
from tests.unit.controller.state.clusters import TOPIC, cluster, directory, with_partition

OTHER = UUID(int=4000)
METADATA = "/a/t-0/partition.metadata"
MINE = partition((1,), (1,), 1, directory(ME))


async def a_disk(*, records: int, damaged: bool, with_id: bool) -> MemoryDisk:
    """With a replica of the only topic there was, as a broker that was killed left it."""
    disk = memory()
    dirs = log_dirs(disk, ["/a"], first_id=directory(ME).int, threads=no_threads)
    await dirs.start()
    log = await dirs.create(PLACE, TOPIC)
    for _ in range(records):
        log.append_as_leader(batch(), 0, NOW)
    log.segment_log.flush()
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    path = log.segment_log.active.log_path
    disk.restart()
    if damaged:
        content = bytearray(disk.read(path))
        content[-1] ^= 1
        disk.edit(path, content)
    if not with_id:
        disk.remove(METADATA)
    return disk


@asynccontextmanager
async def started(disk: MemoryDisk, image: im.Image) -> AsyncIterator[Desk]:
    dirs = log_dirs(disk, ["/a"], first_id=500, threads=no_threads)
    await dirs.start()
    async with serving(Desk(dirs, image)) as here:
        yield here


def made_again() -> list[r.Record]:
    return [r.RemoveTopicRecord(TOPIC), r.TopicRecord("t", OTHER), r.PartitionRecord(OTHER, 0, (1,), (1,), 1, 0, 0)]


@pytest.mark.invariant("M12")
@pytest.mark.parametrize("with_id", [True, False], ids=["", "its id is lost"])
async def test_the_only_replica_damaged_at_start_does_not_block_its_name(with_id: bool) -> None:
    disk = await a_disk(records=6, damaged=True, with_id=with_id)
    async with started(disk, with_partition(cluster(), MINE)) as here:
        assert list(here.dirs.damaged) == [PLACE]
        assert here.partitions.of(*KEY) is None
        here.happens(made_again())
        await here.replicas.settled()
        found = here.partitions.of(OTHER, 0)
        assert found is not None
        assert found.log.end_offset == 0
        assert not here.dirs.damaged


@pytest.mark.invariant("M12")
async def test_a_folder_without_an_id_goes_with_the_topic_that_took_it_over() -> None:
    """Otherwise the next topic of that name would inherit its records."""
    disk = await a_disk(records=0, damaged=False, with_id=False)
    async with started(disk, with_partition(cluster(), MINE)) as here:
        here.log.append_as_leader(batch(3), 0, NOW)
        assert disk.exists(METADATA)
        here.happens(made_again())
        await here.replicas.settled()
        assert (here.log.end_offset, here.dirs.topic_ids) == (0, {PLACE: OTHER})


@pytest.mark.invariant("M12")
async def test_a_new_topic_does_not_take_over_records_whose_owner_is_not_known() -> None:
    disk = await a_disk(records=6, damaged=False, with_id=False)
    async with started(disk, cluster()) as here:
        here.happens(made_again()[1:])
        await here.replicas.settled()
        assert here.log.end_offset == 0
        assert [name for name in disk.list("/a") if name.endswith("-stray")], "nothing is deleted"


async def test_a_replica_that_lost_its_id_keeps_its_records() -> None:
    disk = await a_disk(records=6, damaged=False, with_id=False)
    async with started(disk, with_partition(cluster(), MINE)) as here:
        assert here.log.end_offset == 6
        assert here.dirs.topic_ids == {PLACE: TOPIC}
