"""Cuts, cleaning, retention and removal: what they may do to each other, and what they leave behind."""

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.log.cleaner import Cleaner, CleanerOptions
from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dirs import CHECKPOINTED, LogDirs
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.disk import FileDisk
from rookery.core.errors import KafkaError, KafkaStorageError
from rookery.core.log import LogDirFailed, names
from rookery.core.log.log import KEPT_OPEN
from rookery.core.testing.clock import ManualClock
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.nodes import log_dirs, memory
from tests.unit.broker.log.steps import COMPACTED, DURABLE, Storage

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def offsets(log: PartitionLog) -> list[int]:
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        read = log.read(offset, 1, Isolation.LOG_END)
        found.append(read.next_offset - 1)
        offset = read.next_offset
    return found


# -- cuts


def test_two_cuts_at_once_save_their_checkpoints_one_after_the_other() -> None:
    """As one fetch answer with two diverging partitions asks for."""
    for seed in range(12):
        storage = Storage(seed)
        logs = [storage.create(place, 1, 20, "old") for place in (TP, OTHER)]
        storage.run(storage.dirs.save_checkpoints(*CHECKPOINTED))
        cuts = [storage.task(storage.dirs.truncate(log, 4)) for log in logs]
        storage.finish(cuts)
        assert [cut.result() for cut in cuts] == [True, True]
        assert storage.dirs.offline == {}
        storage.kill()
        storage.start()
        assert storage.dirs.damaged == {}
        assert [storage.dirs.partitions[place].end_offset for place in (TP, OTHER)] == [4, 4]


def test_a_cut_whose_checkpoint_cannot_be_saved_cuts_nothing() -> None:
    storage = Storage()
    log = storage.create(TP, 1, 20, "old")
    storage.run(storage.dirs.save_checkpoints(*CHECKPOINTED))
    storage.disk.fail("rename", "recovery-point-offset-checkpoint.tmp", error=errno.EIO)
    with pytest.raises(LogDirFailed):
        storage.run(storage.dirs.truncate(log, 4))
    assert storage.dirs.offline.keys() == {"/a"}
    storage.kill()
    storage.start()
    assert storage.dirs.damaged == {}
    assert storage.dirs.partitions[TP].end_offset == 20


async def test_a_cut_within_a_batch_leaves_no_promise_behind() -> None:
    """The batch goes as a whole, so the log ends before the offset that was asked for."""
    disk = memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(TP, UUID(int=1))
    log.append_as_leader(batch(10), 0, NOW)
    log.append_as_leader(batch(10), 0, NOW)
    log.advance_high_watermark(20)
    await _durable(dirs, log)
    await dirs.save_checkpoints(*CHECKPOINTED)
    assert await dirs.truncate(log, 15)
    assert log.end_offset == 10
    disk.power_cut()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    assert dirs.damaged == {}
    assert dirs.get(TP).end_offset == 10


async def test_a_log_that_begins_anew_before_its_start_keeps_what_is_written_then() -> None:
    """The start and the high watermark in the checkpoints are of a history that is gone."""
    disk = memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(TP, UUID(int=1))
    await dirs.restart_at(log, 1000)
    for _ in range(5):
        log.append_as_leader(batch(), 0, NOW)
    log.advance_high_watermark(1005)
    await _durable(dirs, log)
    await dirs.save_checkpoints(*CHECKPOINTED)
    await dirs.restart_at(log, 500)
    for _ in range(3):
        log.append_as_leader(batch(), 1, NOW)
    await _durable(dirs, log)
    disk.power_cut()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    log = dirs.get(TP)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (500, 503, 500)


async def test_a_cut_lowers_every_checkpoint() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(TP, UUID(int=1))
    for _ in range(9):
        log.append_as_leader(batch(), 0, NOW)
    log.advance_high_watermark(9)
    log.clean_offset = 8
    await _durable(dirs, log)
    await dirs.save_checkpoints(*CHECKPOINTED)
    await dirs.truncate(log, 4)
    for _ in range(5):
        log.append_as_leader(batch(), 1, NOW)
    await _durable(dirs, log)
    disk.power_cut()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    log = dirs.get(TP)
    assert log.end_offset == 9
    assert log.high_watermark == 4, "records of the new epoch are not committed yet"
    assert log.clean_offset == 4


# -- cleaning


async def retention(storage: Storage, log: PartitionLog) -> None:
    log.delete_records(21)
    await storage.keeper.delete_old_segments()
    await storage.keeper.tick()


async def restart(storage: Storage, log: PartitionLog) -> None:
    await storage.dirs.restart_at(log, 1000)


async def cut(storage: Storage, log: PartitionLog) -> None:
    await storage.dirs.truncate(log, 21)


Change = Callable[[Storage, PartitionLog], Coroutine[Any, Any, None]]


def changed_during_cleaning(change: Change, step: int) -> tuple[Storage, PartitionLog] | None:
    """None if the cleaner makes fewer steps."""
    storage = Storage()
    log = storage.create(TP, 1, 40, "old")
    changing: list[asyncio.Task[None]] = []
    storage.at_step(step, lambda: changing.append(storage.task(change(storage, log))))
    plan = storage.run(storage.cleaner.dirtiest())
    assert plan is not None
    storage.run(storage.cleaner.clean(*plan))
    storage.finish(changing)
    for each in changing:
        each.result()
    return (storage, log) if changing else None


@pytest.mark.parametrize(("change", "start", "end"), [(retention, 21, 40), (restart, 1000, 1000), (cut, 0, 21)])
def test_whatever_happens_to_a_log_between_two_steps_of_the_cleaner(change: Change, start: int, end: int) -> None:
    for step in range(0, 1000, 2):
        changed = changed_during_cleaning(change, step)
        if changed is None:
            assert step > 10
            return
        storage, log = changed
        assert storage.dirs.offline == {}
        assert storage.loop.failures == []
        assert (log.uncleanable, log.damage) == (None, None)
        assert (log.start_offset, log.end_offset) == (start, end)
        before = offsets(log)
        storage.run(storage.keeper.tick())
        unfinished = [name for name in storage.disk.list("/a/orders-0") if name.endswith((names.CLEANED, names.SWAP))]
        assert unfinished == []
        storage.kill()
        storage.start()
        assert storage.dirs.damaged == {}
        log = storage.dirs.partitions[TP]
        assert log.end_offset == end
        assert [offset for offset in offsets(log) if offset >= start] == before
    raise AssertionError("the cleaner does not end")


# -- the end of a replica


def test_a_log_that_was_taken_away_touches_no_file_of_its_successor() -> None:
    storage = Storage()
    old = storage.create(TP, 1, 40, "old")
    storage.run(storage.dirs.delete(TP))
    new = storage.create(TP, 2, 3, "new")
    for use in (
        lambda: old.read(1, 100, Isolation.LOG_END),
        lambda: old.append_as_leader(batch(), 0, NOW),
        lambda: old.offset_for_timestamp(NOW, Isolation.LOG_END),
    ):
        with pytest.raises(KafkaStorageError):
            use()
    assert storage.dirs.offline == {}
    assert offsets(new) == [0, 1, 2]


def test_replicas_come_and_go_one_at_a_time() -> None:
    for seed in range(12):
        storage = Storage(seed)
        log = storage.create(TP, 1, 40, "old")
        storage.run(storage.dirs.save_checkpoints(*CHECKPOINTED))
        work = [
            storage.task(storage.dirs.truncate(log, 7)),
            storage.task(storage.dirs.delete(TP)),
            storage.task(storage.dirs.delete(TP)),
            storage.task(storage.dirs.create(TP, UUID(int=2))),
            storage.task(storage.dirs.delete(TP)),
            storage.task(storage.dirs.create(TP, UUID(int=3))),
        ]
        storage.finish(work)
        for task in work[1:]:
            task.result()
        assert storage.dirs.offline == {}
        assert storage.dirs.partitions.keys() == {TP}
        assert storage.dirs.topic_ids[TP] == UUID(int=3)
        storage.append(storage.dirs.partitions[TP], 3, "new")
        storage.kill()
        storage.start()
        assert storage.dirs.topic_ids[TP] == UUID(int=3)
        assert storage.dirs.partitions[TP].end_offset == 3


async def test_the_housekeeper_leaves_a_log_alone_that_a_thread_changes() -> None:
    clock = ManualClock()
    dirs = log_dirs(memory(), ["/a"], config=DURABLE, clock=clock)
    await dirs.start()
    keeper = Housekeeper(dirs, clock, HousekeepingOptions(producer_id_expiration_ms=1))
    log = await dirs.create(TP, UUID(int=1))
    log.append_as_leader(batch(1, producer_id=7, sequence=0), 0, clock.wall_ms())
    clock.advance(3600)
    async with log.files.alone("cut"):
        segments, log.segment_log.segments = log.segment_log.segments, []  # as between two steps of a cut
        await keeper.flush_closed_segments()
        await keeper.expire_producers()
        log.segment_log.segments = segments
        assert list(log.store.state.entries) == [7]
    await keeper.expire_producers()
    assert list(log.store.state.entries) == []
    await dirs.stop(1)


async def test_retention_between_two_removals_puts_none_of_them_off() -> None:
    """It waits while the first is under way, and is let in when that has ended."""
    clock, disk = ManualClock(), memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE, clock=clock)
    await dirs.start()
    keeper = Housekeeper(dirs, clock, HousekeepingOptions())
    log = await dirs.create(TP, UUID(int=1))
    for number in range(60):
        log.append_as_leader(batch(1, timestamp=NOW + number), 0, clock.wall_ms())
    log.advance_high_watermark(60)
    for offset in (20, 40):
        log.delete_records(offset)
        keeper.remove_later(log, log.delete_old_segments(clock.wall_ms())[0])
    clock.advance(3600)
    removed = asyncio.create_task(keeper.tick())
    while log.files.idle:
        await asyncio.sleep(0)
    kept = asyncio.create_task(keeper.delete_old_segments())
    await asyncio.gather(removed, kept)
    assert not [path for path in disk.paths() if path.endswith(names.DELETED)]
    await keeper.stop()
    await dirs.stop(1)


def test_a_flush_of_a_removed_replica_fails_and_nothing_else() -> None:
    storage = Storage()
    log = storage.create(TP, 1, 4, "old")
    storage.run(storage.dirs.delete(TP))
    log.segment_log.recovery_point = 0

    async def flush() -> None:
        waiting = storage.dirs.appended(log)
        assert waiting is not None
        await waiting

    with pytest.raises(KafkaError):
        storage.run(flush())
    assert storage.dirs.offline == {}


async def _durable(dirs: LogDirs, log: PartitionLog) -> None:
    waiting = dirs.appended(log)
    assert waiting is not None
    await waiting


# -- descriptors


def _open_files(folder: Path) -> int:
    """Descriptors of this process that lead into a folder."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{name}").startswith(str(folder))
        except OSError:
            continue
    return count


async def test_no_way_of_reading_keeps_more_than_a_few_files_open(tmp_path: Path) -> None:
    config = replace(COMPACTED, compaction=CompactionPolicy(0.01, 1, 1000))
    clock = ManualClock()
    dirs = log_dirs(FileDisk(), [str(tmp_path)], config=config, clock=clock)
    await dirs.start()
    log = await dirs.create(TP, UUID(int=1))
    for number in range(200):
        log.append_as_leader(batch(1, timestamp=NOW + number), 0, NOW)
    log.advance_high_watermark(200)
    await dirs.stop(1)
    dirs = log_dirs(FileDisk(), [str(tmp_path)], config=config, clock=clock)
    await dirs.start()
    log = dirs.get(TP)
    assert len(log.segment_log.segments) > 4 * KEPT_OPEN
    cleaner = Cleaner(dirs, Housekeeper(dirs, clock, HousekeepingOptions()), clock, CleanerOptions())
    at_most = KEPT_OPEN + 2  # the active segment and the folder's lock
    for read in (lambda: offsets(log), lambda: list(log.segment_log.headers(0))):
        read()
        assert _open_files(tmp_path) <= at_most
    for timestamp in range(NOW, NOW + 200, 10):
        log.offset_for_timestamp(timestamp, Isolation.LOG_END)
        assert _open_files(tmp_path) <= at_most
    log.offset_for_timestamp(-3, Isolation.LOG_END)
    assert _open_files(tmp_path) <= at_most
    for suffix in (names.INDEX, names.TIME_INDEX):
        for path in tmp_path.glob(f"*/*{suffix}"):
            path.unlink()
    clock.advance(3600)
    await cleaner.dirtiest()
    assert _open_files(tmp_path) <= at_most
    await dirs.delete(TP)
    assert _open_files(tmp_path) <= 1
    await cleaner.stop()
    await dirs.stop(1)
    assert _open_files(tmp_path) == 0
