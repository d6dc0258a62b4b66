"""Leader epochs are read when they are first asked for: damage that shows only then concerns one replica alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from rookery.core.log import LogConfig
from rookery.core.metadata import image as im
from rookery.core.metadata import records as r
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import SMALL, log_dirs, memory
from tests.unit.broker.metadata.test_damaged_replicas import KEY, ME, PLACE, Desk
from tests.unit.broker.metadata.test_missing_replicas import serving
from tests.unit.broker.waiting import until
from tests.unit.controller.state.clusters import TOPIC, cluster, directory, the_partition, with_partition

ONE_SEGMENT = replace(SMALL, log=LogConfig(segment_bytes=1 << 20, index_interval_bytes=64))


@asynccontextmanager
async def a_damaged_beginning(state: im.Partition) -> AsyncIterator[Desk]:
    """Stopped in order, then the first header of the active segment was damaged: its end can be told by the index."""
    disk = memory()
    dirs = log_dirs(disk, ["/a"], first_id=directory(ME).int, config=ONE_SEGMENT, threads=no_threads)
    await dirs.start()
    log = await dirs.create(PLACE, TOPIC)
    for number in range(40):
        log.append_as_leader(batch(timestamp=NOW + number), 0, NOW + number)
    path = log.segment_log.active.log_path
    await dirs.stop(1)
    content = bytearray(disk.read(path))
    content[8:12] = bytes(4)
    disk.edit(path, content)
    dirs = log_dirs(disk, ["/a"], first_id=500, config=ONE_SEGMENT, threads=no_threads)
    await dirs.start()
    assert PLACE in dirs.partitions
    state = state._replace(directories=tuple(directory(node) for node in state.replicas))
    async with serving(Desk(dirs, with_partition(cluster(), state))) as here:
        yield here


@pytest.mark.invariant("S3")
async def test_a_replica_that_is_to_lead_and_does_not_know_its_history_is_rebuilt() -> None:
    """The change comes with the metadata log, whose reader must not end with it."""
    async with a_damaged_beginning(im.Partition((1, 2, 3), (1, 2, 3), 2, leader_epoch=1)) as here:
        before = here.dirs.partitions[PLACE]
        here.happens([r.PartitionChangeRecord(TOPIC, 0, leader=1)])
        await until(lambda: PLACE in here.dirs.partitions and here.dirs.partitions[PLACE] is not before)
        assert the_partition(here.view.image).leader == 2
        assert here.dirs.partitions[PLACE].end_offset == 0
        assert not here.dirs.damaged


@pytest.mark.invariant("S3")
async def test_one_that_leads_from_the_start_is_rebuilt_too() -> None:
    async with a_damaged_beginning(im.Partition((1, 2, 3), (1, 2, 3), 1, leader_epoch=1)) as here:
        await until(lambda: here.replicas.rebuilds == 1)
        await until(lambda: KEY in here.followers.followed)
        assert the_partition(here.view.image).leader == 2


@pytest.mark.invariant("S3")
async def test_the_only_one_is_kept_and_does_not_lead() -> None:
    async with a_damaged_beginning(im.Partition((1,), (1,), 1, leader_epoch=1)) as here:
        before = here.dirs.partitions[PLACE]
        assert PLACE in here.dirs.damaged
        partition = here.partitions.of(*KEY)
        assert partition is not None
        assert partition.leading is None
        assert here.dirs.partitions[PLACE] is before
