"""The scrubber: what it finds in closed segments, at which pace, and what it leaves alone."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.log.scrubber import Scrubber, ScrubOptions
from rookery.core.log import LogCorrupt
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import HEADER_SIZE, batches
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import log_dirs, memory
from tests.unit.core.log import sample

TP = TopicPartition("orders", 0)
RECORDS = 40
FAST = ScrubOptions(bytes_per_second=1 << 40)


async def node(disk: MemoryDisk | None = None) -> LogDirs:
    dirs = log_dirs(disk or memory(), ["/a"], threads=no_threads)
    await dirs.start()
    return dirs


async def written(dirs: LogDirs, index: int = 0) -> PartitionLog:
    """A partition with several closed and durable segments."""
    log = await dirs.create(TopicPartition("orders", index), UUID(int=9))
    for number in range(RECORDS):
        log.append_as_leader(batch(values=[b"%04d" % number]), 0, NOW)
    log.advance_high_watermark(RECORDS)
    log.segment_log.flush()
    assert len(log.segment_log.segments) > 4
    return log


def scrubber(dirs: LogDirs, options: ScrubOptions = FAST) -> Scrubber:
    return Scrubber(dirs, ManualClock(), options, threads=no_threads)


def swapped_bytes(content: bytes, starts: list[int]) -> bytes:
    at = starts[2] + HEADER_SIZE + 4
    return content[:at] + content[at + 1 : at + 2] + content[at : at + 1] + content[at + 2 :]


def zeros(content: bytes, starts: list[int]) -> bytes:
    return content[: starts[1]] + bytes(starts[2] - starts[1]) + content[starts[2] :]


def another_offset(content: bytes, starts: list[int]) -> bytes:
    return content[: starts[1] + 7] + bytes([content[starts[1] + 7] ^ 64]) + content[starts[1] + 8 :]


def hole(content: bytes, starts: list[int]) -> bytes:
    return content[: starts[1]] + content[starts[2] :]


def cut(content: bytes, starts: list[int]) -> bytes:
    return content[:-9]


def last_batch_gone(content: bytes, starts: list[int]) -> bytes:
    return content[: starts[-1]]


def junk(content: bytes, starts: list[int]) -> bytes:
    return content + b"junk" * 30


DAMAGES = [swapped_bytes, zeros, another_offset, hole, cut, last_batch_gone, junk]


def damaged(disk: MemoryDisk, path: str, damage: Callable[[bytes, list[int]], bytes]) -> int:
    """Damage a segment; how many records in it are whole."""
    content = disk.read(path)
    found = list(batches(content))
    disk.edit(path, damage(content, [pos for pos, _ in found]))
    assert disk.read(path) != content
    first = {"swapped_bytes": 2, "zeros": 1, "another_offset": 1, "hole": 1, "junk": len(found)}
    return first.get(damage.__name__, len(found) - 1)


@pytest.mark.invariant("S1", "S3")
@pytest.mark.parametrize("damage", DAMAGES)
async def test_every_kind_of_damage_is_found_and_not_served(damage: Callable[[bytes, list[int]], bytes]) -> None:
    disk = memory()
    dirs = await node(disk)
    log, other = await written(dirs), await written(dirs, 1)
    segment = log.segment_log.segments[2]
    whole = damaged(disk, segment.log_path, damage)
    content = disk.read(segment.log_path)
    scrubbing = scrubber(dirs)
    await scrubbing.scrub_all()
    assert list(dirs.damaged) == [TP]
    assert dirs.damage_found == 1
    assert disk.read(segment.log_path) == content, "the files stay as they are"
    offset = segment.base_offset
    while offset < segment.base_offset + whole:
        offset = log.read(offset, 1000, Isolation.HIGH_WATERMARK).next_offset
    assert offset == segment.base_offset + whole
    if damage is not junk:
        with pytest.raises(LogCorrupt):
            log.read(offset, 1000, Isolation.HIGH_WATERMARK)
    behind = log.segment_log.segments[3].base_offset
    assert log.read(behind, 1000, Isolation.HIGH_WATERMARK).data
    await scrubbing.scrub_all()
    assert dirs.damage_found == 1
    assert other.segment_log.damage is None
    await dirs.stop(1)


@pytest.mark.invariant("S3")
async def test_a_missing_file_and_one_that_cannot_be_read_are_damage() -> None:
    disk = memory()
    dirs = await node(disk)
    log, other = await written(dirs), await written(dirs, 1)
    for one in (log, other):
        one.segment_log.abandon()
    disk.remove(log.segment_log.segments[1].log_path)
    disk.fail("read", other.segment_log.segments[2].log_path)
    await scrubber(dirs).scrub_all()
    assert set(dirs.damaged) == {log.partition, other.partition}
    assert dirs.offline == {}, "the other partitions of the disk go on"
    await dirs.stop(1)


@pytest.mark.invariant("S3")
async def test_a_reader_that_misses_a_file_reports_damage_of_its_partition_alone() -> None:
    disk = memory()
    dirs = await node(disk)
    log, other = await written(dirs), await written(dirs, 1)
    segment = log.segment_log.segments[1]
    segment.release()
    disk.remove(segment.log_path)
    with pytest.raises(LogCorrupt, match="the file is gone"):
        log.read(segment.base_offset, 1000, Isolation.HIGH_WATERMARK)
    assert (set(dirs.damaged), dirs.offline) == ({log.partition}, {})
    assert other.read(0, 1000, Isolation.HIGH_WATERMARK).data
    await dirs.stop(1)


async def test_whole_segments_are_whole_and_a_pass_reads_each_of_them_once() -> None:
    dirs = await node()
    logs = [await written(dirs, n) for n in range(3)]
    logs[1].segment_log.append_as_follower(bytes(sample.batch([b"x"], base_offset=RECORDS + 5, epoch=0)), NOW)
    logs[1].roll(NOW)
    logs[1].segment_log.flush()
    scrubbing = scrubber(dirs)
    await scrubbing.scrub_all()
    assert scrubbing.bytes_read == sum(segment.size for log in logs for segment in log.segment_log.segments[:-1])
    assert not dirs.damaged
    assert scrubbing.passes == 1
    await dirs.stop(1)


async def test_a_pass_goes_on_where_it_stopped_after_a_restart() -> None:
    disk = memory()
    dirs = await node(disk)
    log = await written(dirs)
    third = log.segment_log.segments[3].base_offset
    log.scrubbed_offset = third
    await dirs.stop(1)
    disk.restart()
    dirs = await node(disk)
    log = dirs.partitions[TP]
    scrubbing = scrubber(dirs)
    await scrubbing.scrub_all()
    assert scrubbing.bytes_read == sum(segment.size for segment in log.segment_log.segments[3:-1])
    await scrubbing.scrub_all()
    assert scrubbing.bytes_read > 2 * sum(segment.size for segment in log.segment_log.segments[3:-1])
    await dirs.stop(1)


async def test_what_is_not_durable_or_still_written_is_left_to_recovery() -> None:
    dirs = await node()
    log = await written(dirs)
    log.segment_log.recovery_point = log.segment_log.segments[1].base_offset
    scrubbing = scrubber(dirs)
    await scrubbing.scrub_all()
    assert scrubbing.bytes_read == log.segment_log.segments[0].size
    await dirs.stop(1)


async def test_the_rate_is_kept() -> None:
    dirs = await node()
    log = await written(dirs)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    scrubbing = scrubber(dirs, ScrubOptions(bytes_per_second=1000))
    scrubbing.pause = sleep
    await scrubbing.scrub_all()
    assert sum(slept) == pytest.approx(sum(segment.size for segment in log.segment_log.segments[:-1]) / 1000)
    await dirs.stop(1)


async def test_segments_that_are_deleted_meanwhile_are_no_damage() -> None:
    disk, clock = memory(), ManualClock(wall_ms=NOW)
    dirs = await node(disk)
    log = await written(dirs)
    keeper = Housekeeper(dirs, clock, HousekeepingOptions(), threads=no_threads)
    clock.advance(8 * 24 * 3600)
    scrubbing = scrubber(dirs, ScrubOptions(bytes_per_second=100_000))
    running = asyncio.create_task(scrubbing.scrub_all())
    while scrubbing.bytes_read == 0:
        await asyncio.sleep(0)
    await keeper.delete_old_segments()
    clock.advance(120)
    await keeper.tick()
    async with asyncio.timeout(10):
        await running
    assert not dirs.damaged
    assert log.start_offset == RECORDS
    await dirs.stop(1)


async def test_a_cut_waits_for_one_slice_only_and_is_no_damage() -> None:
    dirs = await node()
    log = await written(dirs)
    scrubbing = scrubber(dirs, ScrubOptions(bytes_per_second=1))
    running = asyncio.create_task(scrubbing.scrub_all())
    while scrubbing.bytes_read == 0:
        await asyncio.sleep(0)
    async with asyncio.timeout(10), log.files.alone("cut"):
        log.truncate_to(log.segment_log.segments[0].base_offset + 1)
    running.cancel()
    await asyncio.wait([running])
    await scrubber(dirs).scrub_all()
    assert not dirs.damaged
    await dirs.stop(1)


@pytest.mark.invariant("S3")
async def test_damage_that_was_found_is_known_after_a_crash() -> None:
    """Nothing is read at start of what had reached the device, so the mark in the folder has to tell."""
    disk = memory()
    dirs = await node(disk)
    log = await written(dirs)
    segment = log.segment_log.segments[1]
    content = disk.read(segment.log_path)
    starts = [at for at, _ in batches(content)]
    disk.edit(segment.log_path, swapped_bytes(content, starts))
    await scrubber(dirs).scrub_all()
    assert TP in dirs.damaged
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    keeper = Housekeeper(dirs, ManualClock(), HousekeepingOptions(), threads=no_threads)
    await keeper.tick()
    await keeper.tick()
    disk.restart()
    dirs = await node(disk)
    assert TP in dirs.damaged
    with pytest.raises(LogCorrupt):
        dirs.partitions[TP].read(segment.base_offset + 2, 1000, Isolation.LOG_END)
