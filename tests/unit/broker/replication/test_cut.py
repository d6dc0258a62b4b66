"""A log that is being cut: nobody else uses it, and what the cluster decides meanwhile waits."""

import asyncio
from random import Random
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.broker.replication.truncation import TruncationBelowHighWatermarkError
from rookery.core.errors import KafkaStorageError, NotLeaderOrFollowerError
from rookery.core.metadata import image as im
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from rookery.core.wire.records import Record, build_batch

ME, OTHER = 1, 2


class SlowDisk:
    """Storage that cuts when told to."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def truncate(self, partition: PartitionLog, offset: int) -> bool:
        await self.may_go_on.wait()
        return partition.truncate_to(offset)

    async def restart_at(self, partition: PartitionLog, offset: int) -> None:
        await self.may_go_on.wait()
        partition.truncate_fully_and_start_at(offset)

    def appended(self, partition: PartitionLog) -> "asyncio.Future[None] | None":
        return None


def a_partition(disk: SlowDisk) -> Partition:
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    return Partition(UUID(int=1), log, TopicSettings(), node_id=ME, wake=lambda _: None, storage=disk)


def led_by(leader: int, epoch: int) -> im.Partition:
    return im.Partition(
        replicas=(ME, OTHER), isr=(ME, OTHER), leader=leader, leader_epoch=epoch, partition_epoch=epoch
    )


def records(first: int, count: int, epoch: int) -> bytearray:
    return build_batch([Record(first + n, 0, None, b"v") for n in range(count)], leader_epoch=epoch)


def follower_with(partition: Partition, count: int, *, committed: int) -> None:
    partition.apply(led_by(OTHER, 1))
    partition.apply_fetched(records(0, count, 1), high_watermark=committed, leader_log_start=0, now_ms=0)


@pytest.mark.row(63)
@pytest.mark.invariant("P6", "P8")
async def test_leadership_begins_when_the_log_has_been_cut() -> None:
    disk = SlowDisk()
    partition = a_partition(disk)
    for first in range(3):
        partition.apply(led_by(OTHER, 1))
        partition.apply_fetched(records(first, 1, 1), high_watermark=1, leader_log_start=0, now_ms=0)
    cut = partition.truncate_to_leader(epoch=1, end_offset=2)
    partition.apply(led_by(ME, 3))
    with pytest.raises(NotLeaderOrFollowerError, match="being cut"):
        partition.append_as_leader(records(0, 1, -1), 1, 0)
    with pytest.raises(NotLeaderOrFollowerError, match="being cut"):
        partition.check_leader(3)
    disk.may_go_on.set()
    await cut
    await asyncio.sleep(0)
    assert partition.cut is None
    assert partition.leading is not None
    assert (partition.leading.epoch_start, partition.log.end_offset) == (2, 2)
    assert partition.append_as_leader(records(0, 1, -1), 1, 0).base_offset == 2


class BrokenDisk(SlowDisk):
    """Storage that cannot cut."""

    async def truncate(self, partition: PartitionLog, offset: int) -> bool:
        raise KafkaStorageError("the disk is broken")


@pytest.mark.invariant("P8", "P6")
async def test_nobody_leads_with_a_log_that_could_not_be_cut() -> None:
    partition = a_partition(BrokenDisk())
    for first in range(3):
        partition.apply(led_by(OTHER, 1))
        partition.apply_fetched(records(first, 1, 1), high_watermark=1, leader_log_start=0, now_ms=0)
    cut = partition.truncate_to_leader(epoch=1, end_offset=2)
    partition.apply(led_by(ME, 3))
    with pytest.raises(KafkaStorageError):
        await cut
    with pytest.raises(NotLeaderOrFollowerError, match="could not be truncated"):
        partition.append_as_leader(records(0, 1, -1), 1, 0)
    with pytest.raises(NotLeaderOrFollowerError, match="could not be truncated"):
        partition.check_leader(3)
    assert partition.log.end_offset == 3


@pytest.mark.invariant("P8")
async def test_the_cut_goes_on_when_whoever_asked_for_it_is_gone() -> None:
    disk = SlowDisk()
    partition = a_partition(disk)
    for first in range(2):
        partition.apply(led_by(OTHER, 1))
        partition.apply_fetched(records(first, 1, 1), high_watermark=0, leader_log_start=0, now_ms=0)
    cut = partition.truncate_to_leader(epoch=1, end_offset=1)
    waiting = asyncio.get_running_loop().create_task(_until_done(cut))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert partition.cut is cut
    disk.may_go_on.set()
    await cut
    assert partition.log.end_offset == 1


async def _until_done(cut: "asyncio.Future[None]") -> None:
    await asyncio.shield(cut)


@pytest.mark.invariant("P7")
async def test_a_replica_is_not_thrown_away_for_a_leader_that_knows_nothing() -> None:
    """The leader's log begins before this one ends and shares no epoch with it: what is committed here stays."""
    partition = a_partition(SlowDisk())
    follower_with(partition, 5, committed=3)
    with pytest.raises(TruncationBelowHighWatermarkError):
        partition.restart_at(0)
    assert (partition.cut, partition.log.end_offset) == (None, 5)


def at(isr: tuple[int, ...], **changes: Any) -> im.Partition:
    return led_by(OTHER, 2)._replace(isr=isr, **changes)


@pytest.mark.invariant("P7")
@pytest.mark.parametrize(
    ("state", "obeys"),
    [
        (at((ME, OTHER)), False),
        (at((OTHER,), elr=(ME,)), False),
        (at((OTHER,)), True),
        (at((ME, OTHER), leader_recovery_state=im.LeaderRecoveryState.RECOVERING), True),
    ],
    ids=["in sync", "eligible", "neither", "the leader recovers"],
)
async def test_only_a_replica_that_nobody_counts_on_drops_what_was_committed(state: im.Partition, obeys: bool) -> None:
    """After an unclean election none is counted on but the leader, also when that was long ago."""
    disk = SlowDisk()
    disk.may_go_on.set()
    partition = a_partition(disk)
    partition.apply(led_by(OTHER, 1))
    for first in range(5):
        partition.apply_fetched(records(first, 1, 1), high_watermark=4, leader_log_start=0, now_ms=0)
    partition.apply(state)
    if obeys:
        await partition.truncate_to_leader(epoch=1, end_offset=2)
    else:
        with pytest.raises(TruncationBelowHighWatermarkError):
            partition.truncate_to_leader(epoch=1, end_offset=2)
    assert partition.log.end_offset == (2 if obeys else 5)


@pytest.mark.invariant("P15")
async def test_an_empty_replica_follows_a_log_that_starts_within_a_batch() -> None:
    disk = SlowDisk()
    disk.may_go_on.set()
    partition = a_partition(disk)
    partition.apply(led_by(OTHER, 1))
    await partition.restart_at(12)
    partition.apply_fetched(records(10, 5, 1), high_watermark=15, leader_log_start=12, now_ms=0)
    assert partition.cut is not None
    await partition.cut
    log = partition.log
    assert (log.start_offset, log.high_watermark, log.end_offset) == (12, 15, 15)


class SyncingDisk(SlowDisk):
    """Storage of a topic with flush.messages=1: records count once they are on the device."""

    def appended(self, partition: PartitionLog) -> "asyncio.Future[None] | None":
        return asyncio.get_running_loop().create_task(self._sync(partition))

    async def _sync(self, partition: PartitionLog) -> None:
        await self.may_go_on.wait()
        partition.segment_log.recovery_point = partition.end_offset


def a_synced_partition(disk: SyncingDisk) -> Partition:
    config = TopicLogConfig(flush_messages=1)
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), config)
    return Partition(UUID(int=1), log, TopicSettings(), node_id=ME, wake=lambda _: None, storage=disk)


@pytest.mark.row(60)
async def test_a_new_leader_counts_on_its_own_log_as_far_as_it_is_on_the_device() -> None:
    disk = SyncingDisk()
    partition = a_synced_partition(disk)
    follower_with(partition, 2, committed=0)
    partition.apply(led_by(ME, 2))
    partition.on_follower_fetch(OTHER, offset=2, log_start=0, broker_epoch=5)
    assert (partition.log.end_offset, partition.log.high_watermark) == (2, 0)
    disk.may_go_on.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert partition.log.high_watermark == 2


async def test_a_follower_says_nothing_of_what_is_not_on_its_device() -> None:
    """A killed broker finds its log in the page cache, which the next power cut may take."""
    disk = SyncingDisk()
    partition = a_synced_partition(disk)
    follower_with(partition, 2, committed=0)
    partition.synced()
    partition.apply(led_by(OTHER, 2))
    busy = partition.busy
    assert busy is not None
    disk.may_go_on.set()
    await busy
    assert partition.busy is None
