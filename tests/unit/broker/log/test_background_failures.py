"""Damage, defects and devices that hang: whom they concern, and who goes on."""

import asyncio
import errno
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.log.background import real_threads
from rookery.broker.log.cleaner import Cleaner, CleanerOptions
from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.log_dirs import CHECKPOINTED, LogDirs
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.broker.log.retention import Retention
from rookery.core.errors import KafkaStorageError
from rookery.core.log import Log, LogCorrupt, names
from rookery.core.testing.clock import ManualClock
from rookery.core.types import TopicPartition
from rookery.core.wire.markers import EndMarker, build_marker
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


def _damage(storage: Storage, log: PartitionLog) -> None:
    """A bit of a batch header rots in a sealed segment, whose indexes are lost too."""
    sealed = log.segment_log.segments[1]
    for suffix in (names.INDEX, names.TIME_INDEX):
        if storage.disk.exists(sealed.path(suffix)):
            storage.disk.remove(sealed.path(suffix))
    content = bytearray(storage.disk.contents(sealed.log_path))
    content[16] ^= 0xFF  # the magic byte
    storage.disk.edit(sealed.log_path, content)


def _reopened_with_damage(config: Any) -> tuple[Storage, PartitionLog]:
    storage = Storage(config=config)
    log = storage.create(TP, 1, 40, "old")
    storage.create(OTHER, 1, 40, "other")
    storage.run(storage.dirs.stop(1))
    _damage(storage, log)
    storage.start()
    return storage, storage.dirs.partitions[TP]


def test_a_damaged_sealed_segment_ends_neither_cleaner_nor_housekeeper() -> None:
    lagging = replace(COMPACTED, compaction=CompactionPolicy(0.01, 1, LONG_AGO_MS))
    storage, log = _reopened_with_damage(lagging)
    storage.clock.advance(10 * LONG_AGO_MS / 1000)
    found = storage.run(storage.cleaner.dirtiest())
    assert found is not None
    assert found[0].partition == OTHER, "the others are cleaned"
    assert log.damage is not None
    storage.run(storage.keeper.delete_old_segments())
    assert storage.dirs.offline == {}


LONG_AGO_MS = 1000


def test_retention_deletes_a_damaged_segment_too() -> None:
    old = replace(COMPACTED, compact=False, retention=Retention(True, 1000, -1))
    storage, log = _reopened_with_damage(old)
    assert log.damage is not None
    storage.clock.advance(3600)
    storage.run(storage.keeper.delete_old_segments())
    assert log.start_offset == 40
    assert TP not in storage.dirs.damaged, "what was damaged is gone"
    assert storage.dirs.offline == {}


@pytest.mark.invariant("S3")
def test_a_partition_whose_damage_was_deleted_is_trusted_again() -> None:
    """Found while it was in use, marked, and gone with retention: the next start need not read all of it."""
    storage = Storage(config=replace(COMPACTED, compact=False, retention=Retention(True, 1000, -1)))
    log = storage.create(TP, 1, 40, "old")
    mark = f"{log.segment_log.path}/{names.DAMAGED}"
    storage.dirs.found_damage(log, LogCorrupt(log.segment_log.segments[1].log_path, 0, "rotten"))
    storage.run(storage.keeper.tick())
    assert storage.disk.exists(mark)
    storage.clock.advance(3600)
    storage.run(storage.keeper.delete_old_segments())
    assert storage.dirs.damaged == {}
    storage.run(storage.keeper.tick())
    assert not storage.disk.exists(mark)


def test_damage_does_not_make_records_old() -> None:
    """The newest record of a segment cannot be read any more; those before it have expired."""
    storage = Storage(config=replace(COMPACTED, compact=False, retention=Retention(True, 60_000, -1)))
    storage.disk.now_ms = storage.clock.wall_ms
    log = storage.create(TP, 1)
    for _ in range(3):
        log.append_as_leader(batch(timestamp=storage.clock.wall_ms()), 0, storage.clock.wall_ms())
        storage.clock.advance(50)
    damaged = log.segment_log.active
    log.roll(storage.clock.wall_ms())
    log.append_as_leader(batch(timestamp=storage.clock.wall_ms()), 0, storage.clock.wall_ms())
    log.advance_high_watermark(log.end_offset)
    content = storage.disk.contents(damaged.log_path)
    size = len(content) // 3
    storage.disk.edit(damaged.log_path, content[:-size] + bytes(size))
    damaged.release()
    with pytest.raises(LogCorrupt):
        offsets(log)
    assert log.damage is not None
    storage.run(storage.keeper.delete_old_segments())
    assert log.start_offset == 0, "record 2 is 50 s old"
    storage.clock.advance(61)
    storage.run(storage.keeper.delete_old_segments())
    assert log.start_offset == log.end_offset


@pytest.mark.parametrize("found_by", ["start", "reader"])
def test_a_damaged_partition_is_not_trusted_after_an_orderly_stop(found_by: str) -> None:
    storage = Storage()
    log = storage.create(TP, 1, 40, "old")
    storage.create(OTHER, 1, 5, "other")
    if found_by == "reader":
        _damage(storage, log)
        log.segment_log.segments[1].release()
        with pytest.raises(LogCorrupt):
            offsets(log)
    else:
        storage.run(storage.dirs.save_checkpoints(*CHECKPOINTED))
        last = log.segment_log.active.log_path
        storage.kill()
        storage.disk.edit(last, storage.disk.contents(last)[:-1])
        storage.start()
        assert TP in storage.dirs.damaged
    for _ in range(2):  # as long as nobody repairs it
        storage.run(storage.dirs.stop(7))
        storage.start()
        assert storage.dirs.dirs[0].clean_epoch == 7, "the others are trusted"
        assert storage.dirs.damaged.keys() == {TP}
        assert storage.dirs.topic_ids[TP] == UUID(int=1)
        assert storage.dirs.partitions.keys() == ({OTHER} if found_by == "start" else {TP, OTHER})
        if found_by == "reader":
            with pytest.raises(LogCorrupt):
                offsets(storage.dirs.partitions[TP])


def test_a_repaired_partition_is_trusted_again() -> None:
    storage = Storage()
    log = storage.create(TP, 1, 40, "old")
    path = log.segment_log.segments[1].log_path
    sound = storage.disk.contents(path)
    _damage(storage, log)
    log.segment_log.segments[1].release()
    with pytest.raises(LogCorrupt):
        offsets(log)
    storage.run(storage.dirs.stop(7))
    storage.disk.edit(path, sound)
    storage.start()
    assert offsets(storage.dirs.partitions[TP]) == list(range(40))
    assert not any("partition.damaged" in path for path in storage.disk.paths())


def test_what_the_cleaner_knows_of_a_topic_goes_with_it() -> None:
    storage = Storage()
    log = storage.create(TP, 1, 40, "old")
    log.uncleanable = "damaged"
    storage.run(storage.dirs.delete(TP))
    storage.create(TP, 2, 40, "new")
    found = storage.run(storage.cleaner.dirtiest())
    assert found is not None
    assert found[0].partition == TP


def test_a_damaged_end_marker_concerns_its_partition_alone() -> None:
    """The state of producers is read from the batches where the snapshots are lost."""
    storage = Storage()
    log = storage.create(TP, 1)
    storage.create(OTHER, 1, 5, "other")
    log.append_as_leader(batch(1, producer_id=7, sequence=0, transactional=True), 0, NOW, NOT_VERIFIED)
    log.append_own(build_marker(EndMarker(True, 0), producer_id=7, producer_epoch=0, timestamp=NOW), 0, NOW)
    path = log.segment_log.active.log_path
    storage.run(storage.dirs.stop(7))
    content = bytearray(storage.disk.contents(path))
    content[-12:] = b"\xff" * 12
    storage.disk.edit(path, content)
    for name in [name for name in storage.disk.paths() if name.endswith(names.SNAPSHOT)]:
        storage.disk.remove(name)
    storage.start()
    assert storage.dirs.damaged.keys() == {TP}
    assert storage.dirs.partitions.keys() == {OTHER}


def test_snapshots_of_a_removed_replica_are_forgotten() -> None:
    storage = Storage()
    log = storage.create(TP, 1, 40, "old")
    storage.run(storage.dirs.delete(TP))
    storage.dirs.with_unsaved_snapshots.add(log)
    storage.run(storage.keeper.tick())
    assert len(storage.dirs.with_unsaved_snapshots) == 0


def test_a_partition_whose_topic_id_cannot_be_read_is_nobodys() -> None:
    """It must not be taken for one of the topic that has the name now."""
    storage = Storage()
    storage.create(TP, 1, 5, "old")
    storage.run(storage.dirs.stop(7))
    storage.disk.edit("/a/orders-0/partition.metadata", b"version: 0\ntopic_id: ?")
    storage.start()
    assert storage.dirs.damaged.keys() == {TP}


@pytest.mark.parametrize("listing", [1, 2])
async def test_a_dir_that_cannot_be_listed_does_not_stop_the_others(listing: int) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    places = [(await dirs.create(TopicPartition("orders", n), UUID(int=1))).partition for n in range(2)]
    await dirs.stop(1)
    plain, calls = disk.list, []

    def listed(path: str) -> list[str]:
        calls.append(path)
        if path == "/a" and calls.count("/a") == listing:
            raise OSError(errno.EIO, "bad", path)
        return plain(path)

    disk.list = listed  # type: ignore[method-assign]
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    assert dirs.offline.keys() == {"/a"}
    assert dirs.partitions.keys() == {places[1]}
    await dirs.stop(1)


async def test_a_defect_in_a_flush_is_held_to_its_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = log_dirs(memory(), ["/a", "/b"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(TP, UUID(int=1))
    monkeypatch.setattr(Log, "flushed", lambda *_: 1 / 0)
    log.append_as_leader(batch(), 0, NOW)
    async with asyncio.timeout(30):
        with pytest.raises(KafkaStorageError, match="division"):
            await _durable(dirs, log)
    assert dirs.offline.keys() == {"/a"}


async def test_a_defect_in_a_background_job_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = log_dirs(memory(), ["/a"])
    await dirs.start()
    again = asyncio.Event()
    calls: list[str] = []

    async def fails(*_: object) -> None:
        calls.append("")
        if len(calls) == 6:
            again.set()
        raise ZeroDivisionError

    keeper = Housekeeper(dirs, ManualClock(), HousekeepingOptions(tick_ms=1))
    cleaner = Cleaner(dirs, keeper, ManualClock(), CleanerOptions(backoff_ms=1))
    monkeypatch.setattr(Housekeeper, "tick", fails)
    monkeypatch.setattr(Cleaner, "dirtiest", fails)
    serving = [asyncio.create_task(service.serve()) for service in (keeper, cleaner)]
    async with asyncio.timeout(30):
        await again.wait()
    assert not any(task.done() for task in serving)
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    await dirs.stop(1)


@pytest.mark.invariant("S13")
async def test_a_device_that_hangs_holds_up_no_housekeeping_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, clock = memory(), ManualClock()
    dirs = log_dirs(disk, ["/a", "/b"], config=replace(COMPACTED, compact=False), clock=clock)
    await dirs.start()
    ids = [each.directory_id for each in dirs.dirs]
    logs = [await dirs.create(place, UUID(int=1), directory_id=ids[place.partition]) for place in (TP, OTHER)]
    works_again, plain = asyncio.Event(), disk.replace

    async def hangs(path: str, data: bytes) -> None:
        if path.startswith("/a/"):
            await works_again.wait()
        await plain(path, data)

    monkeypatch.setattr(disk, "replace", hangs)
    options = HousekeepingOptions(
        replica_high_watermark_checkpoint_interval_ms=1, tick_ms=1, log_retention_check_interval_ms=1
    )
    keeper = Housekeeper(dirs, clock, options)
    serving = asyncio.create_task(keeper.serve())
    async with asyncio.timeout(30):
        for _ in range(3):
            for log in logs:
                for _ in range(20):
                    log.append_as_leader(batch(1, timestamp=NOW), 0, NOW)
                log.advance_high_watermark(log.end_offset)
                log.delete_records(log.end_offset - 1)
                dirs.appended(log)
            quick = logs[1]
            while (
                dirs.dirs[1].checkpoints.offset("replication-offset-checkpoint", OTHER) != quick.end_offset
                or quick.store.unsaved
                or any(name.endswith(names.DELETED) for name in disk.list("/b/orders-1"))
            ):
                await asyncio.sleep(0.001)
    assert not disk.exists("/a/replication-offset-checkpoint")
    works_again.set()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await keeper.stop()
    await dirs.stop(1)


async def test_a_stop_during_recovery_waits_for_the_partitions_under_way_only(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    for number in range(100):
        await dirs.create(TopicPartition("orders", number), UUID(int=1))
    await dirs.stop(1)
    plain, begun, may_go_on = LogDir.open_partition, threading.Event(), threading.Event()
    opened: list[TopicPartition] = []

    def slow(self: LogDir, partition: TopicPartition, *more: Any) -> PartitionLog:
        opened.append(partition)
        begun.set()
        assert may_go_on.wait(30)
        return plain(self, partition, *more)

    monkeypatch.setattr(LogDir, "open_partition", slow)

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            may_go_on.set()
            super().shutdown(wait=wait)

    def threads(name: str, size: int) -> Executor:
        return Pool(size) if name == "recovery" else real_threads(name, size)

    dirs = log_dirs(disk, ["/a"], threads=threads)
    starting = asyncio.create_task(dirs.start())
    assert await asyncio.to_thread(begun.wait, 30)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert 1 <= len(opened) <= 2
    monkeypatch.undo()
    again = log_dirs(disk, ["/a"])
    await again.start()
    assert len(again.partitions) == 100
    await again.stop(1)


async def _durable(dirs: LogDirs, log: PartitionLog) -> None:
    waiting = dirs.appended(log)
    assert waiting is not None
    await waiting
