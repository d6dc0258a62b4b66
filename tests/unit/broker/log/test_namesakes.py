"""Folders of one name in two log dirs, as they are found when a dir that was missing is back."""

import random
from uuid import UUID

import pytest

from rookery.broker.log.log_dir import LogDirRefused
from rookery.broker.log.log_dirs import LogDirs
from rookery.core.log import LogDirFailed
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.nodes import log_dirs

PLACE = TopicPartition("orders", 0)
FORMER, LATTER = UUID(int=1001), UUID(int=1002)


async def made(disk: MemoryDisk, path: str, topic_id: UUID | None, records: int, epoch: int = 0) -> None:
    """A replica in one dir, made while the other was missing."""
    dirs = log_dirs(disk, [path], first_id=ord(path[-1]))
    await dirs.start()
    log = await dirs.create(PLACE, topic_id)
    if records:
        log.append_as_leader(batch(records), epoch, NOW)
    await dirs.stop(1)


async def started(disk: MemoryDisk) -> LogDirs:
    dirs = log_dirs(disk, ["/a", "/b"], first_id=500)
    await dirs.start()
    return dirs


@pytest.mark.invariant("M12")
@pytest.mark.parametrize(("first", "second"), [("/a", "/b"), ("/b", "/a")])
async def test_the_replica_of_the_topic_that_was_deleted_is_set_aside(first: str, second: str) -> None:
    clock = ManualClock()
    disk = MemoryDisk(random.Random(1), now_ms=clock.wall_ms)
    disk.mkdir("/")
    await made(disk, first, FORMER, 3)
    clock.advance(1)
    await made(disk, second, LATTER, 5)
    for _ in range(2):
        dirs = await started(disk)
        assert dirs.topic_ids == {PLACE: LATTER}
        assert dirs.partitions[PLACE].end_offset == 5
        assert dirs.dir_of[PLACE].path == second
        assert [name for name in disk.list(first) if name.endswith("-stray")], "nothing is deleted"
        await dirs.stop(1)


@pytest.mark.parametrize("topic_id", [None, LATTER], ids=["half made", "made"])
async def test_a_replica_that_was_made_in_a_dir_that_failed_is_set_aside(topic_id: UUID | None) -> None:
    """It was made again in another one."""
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/")
    await made(disk, "/a", topic_id, 0)
    await made(disk, "/b", LATTER, 5)
    dirs = await started(disk)
    assert dirs.dir_of[PLACE].path == "/b"
    assert dirs.partitions[PLACE].end_offset == 5
    await dirs.stop(1)


@pytest.mark.invariant("P4")
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("less", "more"), [((2, 3), (2, 5)), ((1, 5), (2, 3))], ids=["more records", "a later epoch"]
)
async def test_of_two_replicas_of_one_topic_the_one_that_goes_further_stays(
    less: tuple[int, int], more: tuple[int, int], swapped: bool
) -> None:
    """A dir was missing while the partition was moved away from this node and back to it."""
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/")
    behind, ahead = ("/b", "/a") if swapped else ("/a", "/b")
    await made(disk, behind, FORMER, less[1], less[0])
    await made(disk, ahead, FORMER, more[1], more[0])
    for _ in range(2):
        dirs = await started(disk)
        found = dirs.partitions[PLACE]
        assert dirs.dir_of[PLACE].path == ahead
        assert (found.epochs.latest_epoch, found.end_offset) == more
        assert [name for name in disk.list(behind) if name.endswith("-stray")], "nothing is deleted"
        await dirs.stop(1)


async def test_of_two_replicas_that_cannot_be_compared_none_is_chosen() -> None:
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/")
    for path in ("/a", "/b"):
        await made(disk, path, FORMER, 3)
    log = f"/a/orders-0/{0:020d}.log"
    disk.edit(log, disk.read(log)[:-5])
    with pytest.raises(LogDirRefused, match=r"orders-0 in /a is one of two and cannot be read: .*; move it away"):
        await started(disk)


@pytest.mark.parametrize("ids", [(None, FORMER)], ids=["one is not known"])
async def test_what_cannot_be_distinguished_is_refused(ids: tuple[UUID | None, UUID]) -> None:
    clock = ManualClock()
    disk = MemoryDisk(random.Random(1), now_ms=clock.wall_ms)
    disk.mkdir("/")
    await made(disk, "/a", ids[0], 3)
    clock.advance(1)
    await made(disk, "/b", ids[1], 3)
    with pytest.raises(LogDirRefused, match="orders-0 is in /b and in /a: move one of them away"):
        await started(disk)


async def test_a_replica_is_made_in_another_dir_when_the_first_one_fails() -> None:
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("/")
    dirs = await started(disk)
    failing = dirs.place()
    disk.fail("mkdir", "orders-0")
    with pytest.raises(LogDirFailed):
        await dirs.create(PLACE, LATTER)
    log = await dirs.create(PLACE, LATTER)
    assert log.log_dir is not failing
    await dirs.stop(1)
