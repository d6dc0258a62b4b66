"""A damaged replica is rebuilt from others, and stays what it is while it is the last one in sync."""

import asyncio
from collections.abc import Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from rookery.broker.handlers.locate import Locator
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.metadata.replicas import Replicas
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.directories import assign_replicas_to_dirs
from rookery.core.errors import KafkaStorageError
from rookery.core.log import LogCorrupt
from rookery.core.metadata import image as im
from rookery.core.metadata import records as r
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.requests import AssignReplicasToDirsRequest, DirectoryAssignment
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import SMALL, log_dirs, memory
from tests.unit.broker.waiting import until
from tests.unit.controller.state.clusters import TOPIC, cluster, directory, the_partition, with_partition

ME = 1
KEY = (TOPIC, 0)
PLACE = TopicPartition("t", 0)
RECORDS = 40


class FakeFollowers:
    """Who follows whom; the leader answers when a test says so."""

    def __init__(self) -> None:
        self.followed: dict[tuple[UUID, int], int] = {}
        self.answers = False

    def follow(self, partition: Partition, leader: Any) -> None:
        self.followed[partition.topic_id, partition.index] = leader.id

    def unfollow(self, topic_id: UUID, index: int) -> None:
        self.followed.pop((topic_id, index), None)

    def is_answered(self, topic_id: UUID, index: int) -> bool:
        return self.answers and (topic_id, index) in self.followed


class Desk:
    """One broker's replicas with the controller's own rules behind them."""

    def __init__(self, dirs: LogDirs, image: im.Image) -> None:
        self.dirs = dirs
        self.view = cast(Any, SimpleNamespace(node_id=ME, image=image))
        self.partitions = Partitions()
        self.followers = cast(Any, FakeFollowers())
        self.asked: list[UUID] = []
        self.replicas = Replicas(
            self.view, self.partitions, dirs, self.followers, listener="PLAINTEXT",
            options_of=lambda _topic: (TopicSettings(), SMALL), make=self._make, assigned=self._assigned,
        )  # fmt: skip
        dirs.on_damaged = self.replicas.damaged

    def _make(self, topic_id: UUID, log: PartitionLog, settings: TopicSettings) -> Partition:
        return Partition(topic_id, log, settings, node_id=ME, wake=lambda _partition: None, storage=self.dirs)

    def _assigned(self, key: tuple[UUID, int], place: UUID) -> None:
        self.asked.append(place)
        asyncio.get_running_loop().call_soon(self._answer, DirectoryAssignment(*key, place))

    def _answer(self, assignment: DirectoryAssignment) -> None:
        image = self.view.image
        request = AssignReplicasToDirsRequest(ME, image.brokers[ME].epoch, (assignment,))
        self.happens(assign_replicas_to_dirs(image, request, Defaults()).records)

    def happens(self, records: Iterable[r.Record]) -> None:
        delta = Delta(self.view.image)
        for offset, record in enumerate(records, self.view.image.offset + 1):
            delta.replay(record, offset)
        changes = delta.apply(epoch=1)
        self.view.image = changes.after
        self.replicas.publish(changes)

    @property
    def log(self) -> PartitionLog:
        return self.dirs.partitions[PLACE]

    def damage(self) -> LogCorrupt:
        """Swap two bytes in the second closed segment, as the scrubber would find it."""
        segment = self.log.segment_log.segments[1]
        error = LogCorrupt(segment.log_path, 0, "a checksum is wrong")
        self.dirs.found_damage(self.log, error)
        return error


@asynccontextmanager
async def desk(partition: im.Partition, fenced: tuple[int, ...] = ()) -> Any:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], first_id=directory(ME).int, threads=no_threads)
    await dirs.start()
    log = await dirs.create(PLACE, TOPIC)
    for _ in range(RECORDS):
        log.append_as_leader(batch(), 0, NOW)
    log.advance_high_watermark(RECORDS)
    directories = tuple(directory(node) for node in partition.replicas)
    made = Desk(dirs, with_partition(cluster(fenced=fenced), partition._replace(directories=directories)))
    serving = asyncio.create_task(made.replicas.serve())
    try:
        made.replicas.activate()
        await made.replicas.settled()
        made.asked.clear()
        yield made
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await made.dirs.stop(1)


@pytest.mark.invariant("S3", "P4")
@pytest.mark.parametrize("leader", [1, 2])
async def test_a_damaged_replica_leaves_the_isr_before_its_files_are_set_aside(leader: int) -> None:
    async with desk(im.Partition((1, 2, 3), (1, 2, 3), leader)) as here:
        before = here.log
        here.damage()
        await until(lambda: here.dirs.partitions.get(PLACE) is not before and PLACE in here.dirs.partitions)
        now = the_partition(here.view.image)
        assert here.asked[0] == im.LOST_DIRECTORY
        assert (now.leader, now.isr, now.elr) == (2, (2, 3), ())
        assert here.log.end_offset == 0
        await until(lambda: KEY in here.followers.followed)
        strays = [name for name in here.log.segment_log.disk.list("/a") if name.endswith("-stray")]
        assert strays != [], "nothing is deleted"
        assert here.replicas.rebuilds == 1
        assert not here.dirs.damaged
        assert not here.replicas._retired, "and nothing is to be removed"
        # it may join only when the leader has heard of the new one
        await asyncio.sleep(0)
        assert directory(ME) not in here.asked
        here.followers.answers = True
        await until(lambda: the_partition(here.view.image).directory(ME) == directory(ME))


@pytest.mark.invariant("S3", "P4")
@pytest.mark.parametrize("replicas", [(1,), (1, 2, 3)])
async def test_the_last_replica_in_sync_is_never_thrown_away(replicas: tuple[int, ...]) -> None:
    async with desk(im.Partition(replicas, (1,), 1)) as here:
        before, error = here.log, here.damage()
        await here.replicas.settled()
        assert here.log is before
        assert here.asked == []
        assert here.dirs.damaged[PLACE] is error
        partition = here.partitions.of(*KEY)
        damaged = before.segment_log.segments[1].base_offset
        with pytest.raises(KafkaStorageError, match="damaged"):
            partition.read(damaged, 1000, Isolation.HIGH_WATERMARK, min_one=True)
        assert partition.read(0, 1000, Isolation.HIGH_WATERMARK, min_one=True).data
        behind = before.segment_log.segments[2].base_offset
        assert partition.read(behind, 1000, Isolation.HIGH_WATERMARK, min_one=True).data
        assert partition.append_as_leader(batch(), 1, NOW).base_offset == RECORDS, "and it takes writes"
        if len(replicas) > 1:  # another one catches up
            here.happens([r.PartitionChangeRecord(TOPIC, 0, isr=(1, 2))])
            await until(lambda: PLACE in here.dirs.partitions and here.log is not before)
            assert the_partition(here.view.image).leader == 2


@pytest.mark.invariant("S3", "P4")
async def test_the_controller_refuses_to_lose_the_last_one() -> None:
    """Two damaged replicas, each of which believes that the other is in sync."""
    async with desk(im.Partition((1, 2), (1, 2), 1)) as here:
        before = here.log
        stale = here.view.image
        here.happens([r.PartitionChangeRecord(TOPIC, 0, isr=(1,))])
        request = AssignReplicasToDirsRequest(
            ME, stale.brokers[ME].epoch, (DirectoryAssignment(*KEY, im.LOST_DIRECTORY),)
        )
        decision = assign_replicas_to_dirs(here.view.image, request, Defaults())
        assert not decision.records
        assert here.log is before


@pytest.mark.invariant("S3")
async def test_without_a_leader_a_damaged_replica_is_kept_and_may_be_elected() -> None:
    async with desk(im.Partition((1, 2), (), -1, elr=(2,)), fenced=(2,)) as here:
        before = here.log
        here.damage()
        await here.replicas.settled()
        assert here.log is before
        lost = (im.LOST_DIRECTORY, directory(2))
        here.happens([r.PartitionChangeRecord(TOPIC, 0, directories=lost)])
        await until(lambda: the_partition(here.view.image).directory(ME) == directory(ME))
        assert here.log is before


@pytest.mark.invariant("S3")
async def test_a_replica_whose_end_is_in_doubt_is_refused_with_the_reason() -> None:
    """Only the last one in sync: there is nobody to rebuild it from, and nothing is thrown away."""
    async with desk(im.Partition((1, 2), (1,), 1)) as here:
        disk, last = here.log.segment_log.disk, here.log.segment_log.active.log_path
        await here.dirs.stop(1)
        content = disk.read(last)
        disk.edit(last, content[:-1])
        dirs = log_dirs(disk, ["/a"], threads=no_threads)
        await dirs.start()
        after = Desk(dirs, here.view.image)
        serving = asyncio.create_task(after.replicas.serve())
        after.replicas.activate()
        await after.replicas.settled()
        serving.cancel()
        await asyncio.wait([serving])
        locator = Locator(after.partitions, after.view)
        with pytest.raises(KafkaStorageError, match="damaged"):
            locator.named("t", 0)
        with pytest.raises(KafkaStorageError, match="damaged"):
            locator.of(TOPIC, 0)
        assert disk.read(last) == content[:-1]
        here.dirs = dirs


@pytest.mark.invariant("M12")
async def test_a_topic_made_anew_does_not_inherit_the_damage() -> None:
    async with desk(im.Partition((1,), (1,), 1)) as here:
        before = here.log
        here.damage()
        await here.replicas.settled()
        other = UUID(int=4000)
        here.happens([
            r.RemoveTopicRecord(TOPIC), r.TopicRecord("t", other),
            r.PartitionRecord(other, 0, (1,), (1,), 1, 0, 0),
        ])  # fmt: skip
        await here.replicas.settled()
        assert here.log is not before
        assert here.partitions.of(other, 0).log is here.log
        assert not here.dirs.damaged
