"""Replicas that are not found where they should be: which begin empty, which wait, and what fails is tried again."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.metadata import replicas
from rookery.core.disk import FileDisk
from rookery.core.errors import KafkaStorageError
from rookery.core.log import LogCorrupt, LogDirFailed
from rookery.core.metadata import image as im
from rookery.core.metadata import records as r
from rookery.core.metadata.delta import Delta
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import log_dirs, memory
from tests.unit.broker.metadata.test_damaged_replicas import KEY, ME, PLACE, Desk
from tests.unit.broker.waiting import until
from tests.unit.controller.state.clusters import TOPIC, cluster, directory, the_partition, with_partition

ELSEWHERE = UUID(int=999)
"""A directory that this broker has not."""
UNASSIGNED = im.UNASSIGNED_DIRECTORY


def partition(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int, mine: UUID) -> im.Partition:
    directories = tuple(mine if node == ME else directory(node) for node in replicas)
    return im.Partition(replicas, isr, leader, leader_epoch=3, partition_epoch=5, directories=directories)


@asynccontextmanager
async def serving(made: Desk) -> AsyncIterator[Desk]:
    task = asyncio.create_task(made.replicas.serve())
    try:
        made.replicas.activate()
        await made.replicas.settled()
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
        await made.dirs.stop(1)


@asynccontextmanager
async def desk(wanted: im.Partition | None = None, *, missing: bool) -> AsyncIterator[Desk]:
    """A broker that starts with an empty disk; `missing`: another of its log directories could not be opened."""
    dirs = log_dirs(memory(), ["/a"], first_id=directory(ME).int, threads=no_threads)
    await dirs.start()
    if missing:
        dirs.offline["/b"] = "Input/output error"
    image = cluster() if wanted is None else with_partition(cluster(), wanted)
    async with serving(Desk(dirs, image)) as made:
        yield made


@pytest.mark.invariant("P4", "P17")
@pytest.mark.parametrize(
    "wanted",
    [
        partition((1,), (1,), -1, ELSEWHERE),
        partition((1,), (1,), 1, UNASSIGNED),
        partition((1, 2, 3), (2, 3), 2, ELSEWHERE),
        partition((1, 2, 3), (1, 2), 1, UNASSIGNED),
        partition((1, 2, 3), (2, 3), 2, UNASSIGNED),
    ],
    ids=["alone", "alone, not reported", "following", "leading, not reported", "following, not reported"],
)
async def test_with_a_log_directory_missing_at_start_its_replicas_stay_offline(wanted: im.Partition) -> None:
    """They may lie there: begun anew they would lead without their records, and be there twice when it is back."""
    async with desk(wanted, missing=True) as here:
        for _ in range(10):
            await asyncio.sleep(0)
            await here.replicas.settled()
        assert here.dirs.partitions == {}
        assert here.partitions.of(*KEY) is None
        assert set(here.asked) <= {im.LOST_DIRECTORY}
        now = the_partition(here.view.image)
        assert now.leader != ME or now.replicas == (ME,), "whoever has the records leads"


@pytest.mark.invariant("P4", "P17")
async def test_a_replica_is_as_it_was_when_its_directory_is_back(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]

    async def start() -> LogDirs:
        dirs = log_dirs(FileDisk(), paths, first_id=directory(ME).int, threads=no_threads)
        await dirs.start()
        return dirs

    dirs = await start()
    there = dirs.dirs[1].directory_id
    log = await dirs.create(PLACE, KEY[0], directory_id=there)
    log.append_as_leader(batch(5), 0, NOW)
    await dirs.stop(1)
    wanted = partition((1,), (1,), 1, there)
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").write_text("not a directory")
    async with serving(Desk(await start(), with_partition(cluster(), wanted))) as here:
        assert list(here.dirs.offline) == [paths[1]]
        assert here.dirs.partitions == {}
    (tmp_path / "b").unlink()
    (tmp_path / "away").rename(tmp_path / "b")
    async with serving(Desk(await start(), with_partition(cluster(), wanted))) as here:
        assert here.log.end_offset == 5
        assert here.partitions.of(*KEY) is not None


async def test_a_new_replica_is_made_in_the_directories_that_are_left() -> None:
    async with desk(missing=True) as here:
        topic = UUID(int=4000)
        here.happens([r.TopicRecord("new", topic), r.PartitionRecord(topic, 0, (1,), (1,), 1, 0, 0)])
        await here.replicas.settled()
        assert TopicPartition("new", 0) in here.dirs.partitions
        assert here.asked == [directory(ME)]


async def test_a_replica_that_was_never_made_is_made_after_a_restart() -> None:
    """The broker was killed between the creation of the topic and that of its replica."""
    async with desk(partition((1,), (1,), 1, UNASSIGNED), missing=False) as here:
        assert PLACE in here.dirs.partitions


@pytest.mark.invariant("P4")
@pytest.mark.parametrize("mine", [ELSEWHERE, directory(ME)], ids=["another disk", "a folder is gone"])
@pytest.mark.parametrize("leader", [1, 2])
async def test_a_replica_that_is_gone_is_rebuilt_when_nobody_counts_on_it(mine: UUID, leader: int) -> None:
    async with desk(partition((1, 2, 3), (1, 2), leader, mine), missing=False) as here:
        assert here.asked == [im.LOST_DIRECTORY]
        assert here.dirs.partitions == {}
        await until(lambda: PLACE in here.dirs.partitions)
        now = the_partition(here.view.image)
        assert (now.leader, now.isr) == (2, (2,))
        here.followers.answers = True
        await until(lambda: the_partition(here.view.image).directory(ME) == directory(ME))


@pytest.mark.invariant("P4")
@pytest.mark.parametrize("mine", [ELSEWHERE, directory(ME)], ids=["another disk", "a folder is gone"])
async def test_the_only_replica_does_not_begin_empty(mine: UUID) -> None:
    async with desk(partition((1,), (1,), 1, mine), missing=False) as here:
        assert here.dirs.partitions == {}
        assert here.asked == []


async def test_a_damaged_replica_is_rebuilt_though_a_directory_is_missing() -> None:
    """It is known not to lie there."""
    async with desk(missing=True) as here:
        topic = UUID(int=4000)
        here.happens([r.TopicRecord("new", topic), r.PartitionRecord(topic, 0, (1, 2), (1, 2), 2, 0, 0)])
        await here.replicas.settled()
        place = TopicPartition("new", 0)
        before = here.dirs.partitions[place]
        here.dirs.found_damage(before, LogCorrupt(before.segment_log.path, 0, "a checksum is wrong"))
        await until(lambda: here.dirs.partitions.get(place) not in (None, before))


async def test_a_replica_that_the_image_calls_lost_is_reported_again() -> None:
    """A report was under way when it became untrue."""
    async with desk(missing=False) as here:
        topic = UUID(int=4000)
        here.happens([r.TopicRecord("new", topic), r.PartitionRecord(topic, 0, (1, 2), (1, 2), 2, 0, 0)])
        here.followers.answers = True
        await until(lambda: here.view.image.partition(topic, 0).directory(ME) == directory(ME))
        here.happens([r.PartitionChangeRecord(topic, 0, directories=(im.LOST_DIRECTORY, directory(2)), isr=(2,))])
        await until(lambda: here.view.image.partition(topic, 0).directory(ME) == directory(ME))


@pytest.mark.parametrize("others", [(), (2,)], ids=["alone", "with another"])
async def test_a_replica_that_could_not_be_made_is_tried_again(
    others: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "RETRY_S", 0.0)
    monkeypatch.setattr(replicas, "LOOK_S", 0.001)
    async with desk(missing=False) as here:
        create, failures = here.dirs.create, 3

        async def fail(*args: Any, **options: Any) -> Any:
            nonlocal failures
            failures -= 1
            if failures < 0:
                return await create(*args, **options)
            raise KafkaStorageError("no place")

        monkeypatch.setattr(here.dirs, "create", fail)
        topic, nodes = UUID(int=4000), (1, *others)
        here.happens([r.TopicRecord("new", topic), r.PartitionRecord(topic, 0, nodes, nodes, 1, 0, 0)])
        await here.replicas.settled()
        assert set(here.asked) == ({im.LOST_DIRECTORY} if others else set())
        here.followers.answers = True
        await until(lambda: here.partitions.of(topic, 0) is not None)
        found = here.partitions.of(topic, 0)
        assert found is not None
        assert found.is_leader == (not others), "another one led meanwhile"
        await until(lambda: here.view.image.partition(topic, 0).directory(ME) == directory(ME))


@asynccontextmanager
async def two_dirs(wanted: im.Partition) -> AsyncIterator[Desk]:
    """The replica lies in /a, with records."""
    dirs = log_dirs(memory(), ["/a", "/b"], first_id=directory(ME).int, threads=no_threads)
    await dirs.start()
    log = await dirs.create(PLACE, TOPIC, directory_id=dirs.dirs[0].directory_id)
    for _ in range(40):
        log.append_as_leader(batch(), 0, NOW)
    log.segment_log.flush()
    async with serving(Desk(dirs, with_partition(cluster(), wanted))) as here:
        dirs.on_offline = here.replicas.dir_failed
        yield here


def device_fails(here: Desk) -> None:
    here.dirs.dir_failed(here.dirs.dirs[0], LogDirFailed("writing", "/a", OSError(errno.EIO, "Input/output error")))


@pytest.mark.invariant("S3", "P17")
@pytest.mark.parametrize("when", ["before", "while it is set aside"])
async def test_a_damaged_replica_whose_directory_fails_is_not_begun_elsewhere(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be there twice when the directory is back, and the broker would not start."""

    async with two_dirs(partition((1, 2, 3), (2, 3), 2, im.LOST_DIRECTORY)) as here:
        log = here.dirs.partitions[PLACE]
        disk = log.segment_log.disk
        here.dirs.found_damage(log, LogCorrupt(log.segment_log.segments[1].log_path, 0, "a checksum is wrong"))
        if when == "before":
            device_fails(here)
        else:
            rename = disk.rename

            def fails_in_a(old: str, new: str) -> None:
                if old.startswith("/a"):
                    raise OSError(errno.EIO, "Input/output error")
                rename(old, new)

            monkeypatch.setattr(disk, "rename", fails_in_a)
        await here.replicas.settled()
        monkeypatch.undo()
        assert here.dirs.dirs[0].failure is not None
        assert PLACE not in here.dirs.partitions
        await here.dirs.stop(1)
        here.dirs = log_dirs(disk, ["/a", "/b"], threads=no_threads)
        await here.dirs.start()
        assert PLACE in here.dirs.dir_of


@pytest.mark.invariant("M12", "P17")
async def test_a_topic_made_anew_does_not_wait_for_the_directory_of_the_one_before() -> None:
    """Whichever of the two changes is heard of first."""
    other = UUID(int=4000)
    async with two_dirs(partition((1,), (1,), 1, directory(ME))) as here:
        device_fails(here)
        delta = Delta(here.view.image)
        delta.replay(r.RemoveTopicRecord(TOPIC), 100)
        delta.replay(r.TopicRecord("t", other), 101)
        delta.replay(r.PartitionRecord(other, 0, (1,), (1,), 1, 0, 0), 102)
        changes = delta.apply(epoch=1)
        here.view.image = changes.after
        here.replicas.publish(replace(changes, partitions=changes.partitions[::-1]))
        await here.replicas.settled()
        assert here.dirs.topic_ids[PLACE] == other
        assert here.dirs.dir_of[PLACE].path == "/b"
