"""One partition changing sides: leader, follower, leader again."""

from random import Random
from uuid import UUID

import pytest

from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import NotLeaderOrFollowerError
from rookery.core.metadata import image as im
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from rookery.core.wire.records import Record, build_batch

ME, OTHER = 1, 2


def a_partition() -> Partition:
    log = PartitionLog.open(MemoryDisk(Random(1)), "data/orders-0", TopicPartition("orders", 0), TopicLogConfig())
    return Partition(UUID(int=1), log, TopicSettings(), node_id=ME, wake=lambda _: None)


def led_by(leader: int, epoch: int, isr: tuple[int, ...] = (ME, OTHER)) -> im.Partition:
    return im.Partition(replicas=(ME, OTHER), isr=isr, leader=leader, leader_epoch=epoch, partition_epoch=epoch)


def batch(offset: int = 0, epoch: int = -1) -> bytearray:
    return build_batch([Record(offset, 1_700_000_000_000, b"k", b"v", [])], leader_epoch=epoch)


def append(partition: Partition) -> None:
    partition.append_as_leader(batch(), -1, 1_700_000_000_000)


@pytest.mark.row(64)
@pytest.mark.invariant("P6")
async def test_an_epoch_that_was_led_without_a_record_is_forgotten() -> None:
    """Leading for a moment notes an epoch that the next leader never hears of; truncating to one's own end must
    forget it, or follower and leader never come to agree."""
    partition = a_partition()
    partition.apply(led_by(ME, 3))
    append(partition)
    partition.apply(led_by(ME, 7))
    partition.apply(led_by(OTHER, 8))
    assert partition.position().last_epoch == 7
    await partition.truncate_to_leader(epoch=3, end_offset=1)
    assert (partition.position().offset, partition.position().last_epoch) == (1, 3)


@pytest.mark.row(63, 67)
async def test_a_former_leader_drops_what_the_new_one_lacks_and_goes_on() -> None:
    partition = a_partition()
    partition.apply(led_by(ME, 1))
    for _ in range(3):
        append(partition)
    partition.apply(led_by(OTHER, 2))
    with pytest.raises(NotLeaderOrFollowerError):
        append(partition)
    await partition.truncate_to_leader(epoch=1, end_offset=2)
    partition.apply_fetched(batch(2, epoch=2), high_watermark=2, leader_log_start=0, now_ms=0)
    assert (partition.position().offset, partition.position().last_epoch) == (3, 2)
    assert partition.log.high_watermark == 2


@pytest.mark.row(61)
@pytest.mark.invariant("P5")
def test_a_new_leader_keeps_what_is_above_its_high_watermark() -> None:
    partition = a_partition()
    partition.apply(led_by(OTHER, 1))
    partition.apply_fetched(batch(0, epoch=1), high_watermark=0, leader_log_start=0, now_ms=0)
    partition.apply(led_by(ME, 2))
    assert partition.log.end_offset == 1
    assert partition.log.high_watermark == 0
    partition.on_follower_fetch(OTHER, offset=1, log_start=0, broker_epoch=5)
    assert partition.log.high_watermark == 1


async def test_a_follower_starts_anew_where_its_leader_starts() -> None:
    partition = a_partition()
    partition.apply(led_by(OTHER, 1))
    partition.apply_fetched(batch(0, epoch=1), high_watermark=1, leader_log_start=0, now_ms=0)
    await partition.restart_at(50)
    assert (partition.log.start_offset, partition.position().offset) == (50, 50)
    partition.apply_fetched(batch(50, epoch=1), high_watermark=51, leader_log_start=50, now_ms=0)
    assert partition.log.high_watermark == 51


def test_a_broker_that_is_no_replica_is_not_followed() -> None:
    partition = a_partition()
    partition.apply(led_by(ME, 1))
    with pytest.raises(NotLeaderOrFollowerError, match="no follower on broker 9"):
        partition.on_follower_fetch(9, offset=0, log_start=0, broker_epoch=1)


def test_offline_means_offline() -> None:
    partition = a_partition()
    partition.apply(led_by(ME, 1))
    partition.go_offline()
    assert partition.leading is None
