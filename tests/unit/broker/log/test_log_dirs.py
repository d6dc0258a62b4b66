"""Log dirs: whose they are, where partitions go, restart, and what a failing device takes along."""

import asyncio
import errno
import logging
import threading
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from rookery.broker.log import folders
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dir import LogDirRefused
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.core.disk import FileDisk
from rookery.core.errors import KafkaStorageError, UnknownTopicOrPartitionError
from rookery.core.log import LogCorrupt, LogDirFailed, names
from rookery.core.testing.clock import ManualClock
from rookery.core.types import TopicPartition
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import DURABLE, SMALL, log_dirs, memory

TOPIC_ID = UUID(int=99)


def tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def test_folder_names() -> None:
    assert folders.partition_of("a-b-0") == ("a-b", 0)
    assert folders.partition_of("a-01") is None
    assert folders.partition_of("__cluster_metadata-0") is None
    assert folders.partition_of("meta.properties") is None
    leaving = folders.leaving_name(tp(3), UUID(int=7), folders.DELETE_SUFFIX)
    assert leaving == "orders-3.00000000000000000000000000000007-delete"
    assert folders.partition_of(leaving) is None
    assert folders.is_to_be_deleted(leaving)
    assert not folders.is_to_be_deleted(folders.leaving_name(tp(3), UUID(int=7), folders.STRAY_SUFFIX))
    long = folders.leaving_name(tp(3, "t" * 249), UUID(int=7), folders.DELETE_SUFFIX)
    assert len(long) == 255


@pytest.mark.row(52)
async def test_new_partitions_go_where_the_fewest_are() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b", "/c"])
    await dirs.start()
    for n in range(7):
        await dirs.create(tp(n), TOPIC_ID)
    assert [len(found.held) for found in dirs.dirs] == [3, 2, 2]
    chosen = await dirs.create(tp(9), TOPIC_ID, directory_id=dirs.dirs[2].directory_id)
    assert dirs.dir_of[chosen.partition] is dirs.dirs[2]
    with pytest.raises(ValueError, match="already"):
        await dirs.create(tp(9), TOPIC_ID)
    await dirs.stop(1)


@pytest.mark.invariant("S6")
async def test_a_clean_restart_brings_everything_back() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    for n in range(4):
        log = await dirs.create(tp(n), TOPIC_ID)
        log.append_as_leader(batch(2, producer_id=7, sequence=0), 0, NOW)
        log.advance_high_watermark(1 + n % 2)
    await dirs.stop(broker_epoch=42)
    disk.restart()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    assert [found.clean_epoch for found in dirs.dirs] == [42, 42]
    assert not disk.exists("/a/.kafka_cleanshutdown"), "gone before the first write"
    assert sorted(dirs.partitions) == [tp(n) for n in range(4)]
    assert set(dirs.topic_ids.values()) == {TOPIC_ID}
    for n in range(4):
        log = dirs.get(tp(n))
        assert (log.end_offset, log.high_watermark) == (2, 1 + n % 2)
        assert log.append_as_leader(batch(2, producer_id=7, sequence=0), 0, NOW).duplicate
    with pytest.raises(UnknownTopicOrPartitionError):
        dirs.get(tp(9))
    await dirs.stop(43)


async def test_recovery_is_reported() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    for n in range(20):
        (await dirs.create(tp(n), TOPIC_ID)).append_as_leader(batch(), 0, NOW)
    disk.restart()
    again = log_dirs(disk, ["/a"])
    await again.start()
    assert (again.start_up.recovery.partitions, again.start_up.recovery.remaining) == (20, 0)
    assert again.dirs[0].clean_epoch is None
    assert all(log.end_offset == 1 for log in again.partitions.values())
    await again.stop(1)


@pytest.mark.invariant("S11")
@pytest.mark.parametrize(("cluster", "node", "says"), [("c2", 1, "cluster c1"), ("c1", 2, "node 1")])
async def test_a_dir_of_another_cluster_or_node_is_refused(cluster: str, node: int, says: str) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    await dirs.stop(1)
    before = disk.list("/a")
    disk.restart()
    with pytest.raises(LogDirRefused, match=says):
        await log_dirs(disk, ["/a"], cluster=cluster, node=node).start()
    assert disk.list("/a") == before, "nothing was touched, the clean-shutdown marker neither"


@pytest.mark.invariant("S11")
async def test_a_copied_dir_and_a_damaged_meta_file_are_refused() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    await dirs.stop(1)
    disk.restart()
    disk.edit("/b/meta.properties", disk.read("/a/meta.properties"))
    with pytest.raises(LogDirRefused, match=r"same directory\.id"):
        await log_dirs(disk, ["/a", "/b"]).start()
    disk.edit("/b/meta.properties", b"version=1\n")
    with pytest.raises(LogDirRefused, match="missing"):
        await log_dirs(disk, ["/a", "/b"]).start()


async def test_a_dir_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path)
    first = log_dirs(FileDisk(), [path])
    await first.start()
    with pytest.raises(LogDirRefused, match=r"in use by node 1 \(process \d+ on "):
        await log_dirs(FileDisk(), [path]).start()
    await first.stop(1)
    again = log_dirs(FileDisk(), [path])
    await again.start()
    await again.stop(2)


@pytest.mark.row(52)
@pytest.mark.invariant("S8", "S9")
@pytest.mark.parametrize(
    ("operation", "error"),
    [("write", errno.EIO), ("write", errno.ENOSPC), ("write", errno.EROFS), ("sync", errno.EIO)],
)
async def test_a_failing_device_takes_only_its_dir(
    operation: str, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"], config=DURABLE)
    await dirs.start()
    gone: list[tuple[str, list[TopicPartition]]] = []
    dirs.on_offline = lambda found, partitions: gone.append((found.path, partitions))
    first, second, third = [await dirs.create(tp(n), TOPIC_ID) for n in range(3)]
    for log in (first, second, third):
        log.append_as_leader(batch(), 0, NOW)
        log.advance_high_watermark(1)
        await _durable(dirs.appended(log))
    disk.fail(operation, first.segment_log.active.log_path, error=error, times=100)
    with caplog.at_level(logging.ERROR), pytest.raises(KafkaStorageError):
        await _append_durably(dirs, first)
    assert gone == [("/a", [tp(0), tp(2)])] or gone == [("/a", [tp(2), tp(0)])]
    lines = [record for record in caplog.records if record.getMessage() == "log_dir.offline"]
    assert len(lines) == 1
    assert dirs.offline.keys() == {"/a"}
    for n in (0, 2):
        with pytest.raises(KafkaStorageError, match="offline"):
            dirs.get(tp(n))
    assert dirs.get(tp(1)).read(0, 1000, Isolation.HIGH_WATERMARK).next_offset == 1
    assert dirs.dir_of[(await dirs.create(tp(7), TOPIC_ID)).partition].path == "/b"
    with pytest.raises(KafkaStorageError):
        first.append_as_leader(batch(), 0, NOW)


async def _append_durably(dirs: LogDirs, log: PartitionLog) -> None:
    log.append_as_leader(batch(), 0, NOW)
    await _durable(dirs.appended(log))


async def _durable(waiting: "asyncio.Future[None] | None") -> None:
    assert waiting is not None
    await waiting


@pytest.mark.invariant("S8")
async def test_after_a_failed_sync_nobody_learns_that_it_is_durable() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"], config=DURABLE)
    await dirs.start()
    logs = [await dirs.create(tp(n), TOPIC_ID) for n in range(2)]
    one = next(log for log in logs if dirs.dir_of[log.partition].path == "/a")
    for _ in range(3):
        one.append_as_leader(batch(), 0, NOW)
    disk.fail("sync", ".log", times=1)
    waiting = [dirs.appended(one) for _ in range(3)]
    results = await asyncio.gather(*(_durable(each) for each in waiting), return_exceptions=True)
    assert [type(result) for result in results] == [KafkaStorageError] * 3
    with pytest.raises(KafkaStorageError):
        await dirs._commits[dirs.dirs[0]].durable(one, one.end_offset)
    assert one.segment_log.recovery_point == 0


@pytest.mark.invariant("S9")
async def test_a_full_disk_leaves_no_part_of_a_batch() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    logs = [await dirs.create(tp(n), TOPIC_ID) for n in range(2)]
    logs[0].append_as_leader(batch(), 0, NOW)
    stored = disk.size(logs[0].segment_log.active.log_path)
    disk.budget = 20
    with pytest.raises(KafkaStorageError):
        logs[0].append_as_leader(batch(), 0, NOW)
    assert disk.size(logs[0].segment_log.active.log_path) == stored
    disk.budget = None
    disk.restart()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    assert dirs.get(tp(0)).end_offset == 1
    assert not dirs.get(tp(0)).append_as_leader(batch(), 0, NOW).duplicate


async def test_a_dir_that_cannot_be_opened_does_not_stop_the_others() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    await dirs.create(tp(0), TOPIC_ID)
    await dirs.create(tp(1), TOPIC_ID)
    await dirs.stop(1)
    disk.restart()
    disk.fail("mkdir", "/a", error=errno.EROFS)
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    assert dirs.offline.keys() == {"/a"}
    assert list(dirs.partitions) == [tp(1)]
    disk.fail("mkdir", "/a", error=errno.EIO)
    with pytest.raises(LogDirRefused, match="none of the log dirs"):
        await log_dirs(disk, ["/a"]).start()


@pytest.mark.invariant("S3")
async def test_a_damaged_partition_is_set_aside_for_a_new_replica() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    for n in range(2):
        log = await dirs.create(tp(n), TOPIC_ID)
        for _ in range(6):
            log.append_as_leader(batch(), 0, NOW)
        log.segment_log.flush()
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    path = dirs.get(tp(0)).segment_log.active.log_path
    disk.restart()
    content = bytearray(disk.read(path))
    content[-1] ^= 1
    disk.edit(path, content)
    dirs = log_dirs(disk, ["/a"], first_id=50)
    await dirs.start()
    assert list(dirs.partitions) == [tp(1)]
    with pytest.raises(LogCorrupt):
        dirs.get(tp(0))
    assert disk.read(path) == content, "nothing was cut in silence"
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    assert b"orders 0 6" in disk.read("/a/recovery-point-offset-checkpoint"), "still known to be damaged"
    await dirs.set_aside(tp(0))
    fresh = await dirs.create(tp(0), TOPIC_ID)
    assert fresh.end_offset == 0
    assert [n for n in disk.list("/a") if n.endswith("-stray")] != []
    await dirs.stop(1)


@pytest.mark.invariant("S3")
@pytest.mark.parametrize("lost", [0, 1])
async def test_a_partition_that_lacks_a_closed_segment_is_loaded_and_reported(lost: int) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    for n in range(2):
        log = await dirs.create(tp(n), TOPIC_ID)
        for _ in range(30):
            log.append_as_leader(batch(), 0, NOW)
        log.advance_high_watermark(30)
    path = dirs.get(tp(0)).segment_log.segments[lost].log_path
    await dirs.stop(1)
    disk.restart()
    disk.remove(path)
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    assert list(dirs.damaged) == [tp(0)]
    assert dirs.damage_found == 1
    log = dirs.get(tp(0))
    assert log.end_offset == 30
    assert log.read(29, 1000, Isolation.HIGH_WATERMARK).data
    if lost:
        with pytest.raises(LogCorrupt):
            log.read(log.segment_log.segments[0].next_offset, 1000, Isolation.HIGH_WATERMARK)
        assert dirs.damage_found == 1, "it was known"
    await dirs.stop(2)


@pytest.mark.invariant("S3")
async def test_damage_met_by_a_read_is_reported_once() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    told: list[TopicPartition] = []
    dirs.on_damaged = told.append
    log = await dirs.create(tp(0), TOPIC_ID)
    for _ in range(30):
        log.append_as_leader(batch(), 0, NOW)
    log.advance_high_watermark(30)
    segment = log.segment_log.segments[1]
    content = disk.read(segment.log_path)
    disk.edit(segment.log_path, content[len(content) // 2 :])
    for _ in range(3):
        with pytest.raises(LogCorrupt):
            log.read(segment.base_offset, 1000, Isolation.HIGH_WATERMARK)
    assert told == [tp(0)]
    assert dirs.damage_found == 1
    await dirs.stop(1)


async def test_a_deleted_partition_is_renamed_now_and_removed_later() -> None:
    disk, clock = memory(), ManualClock()
    dirs = log_dirs(disk, ["/a"], clock=clock)
    await dirs.start()
    keeper = Housekeeper(dirs, clock, HousekeepingOptions(log_segment_delete_delay_ms=60_000))
    (await dirs.create(tp(0), TOPIC_ID)).append_as_leader(batch(), 0, NOW)
    await dirs.delete(tp(0))
    await keeper.tick()
    assert [n for n in disk.list("/a") if folders.is_to_be_deleted(n)] != []
    assert "orders-0" not in disk.list("/a")
    again = await dirs.create(tp(0), UUID(int=123))
    assert again.end_offset == 0
    clock.advance(61)
    await keeper.tick()
    assert [n for n in disk.list("/a") if folders.is_to_be_deleted(n)] == []
    assert dirs.get(tp(0)) is again
    await dirs.delete(tp(0))
    disk.restart()
    dirs = log_dirs(disk, ["/a"], clock=clock)
    await dirs.start()
    assert dirs.partitions == {}
    assert len(dirs.leftovers) == 1, "a deletion goes on after a restart"
    await dirs.stop(1)


@pytest.mark.row(42)
async def test_deleted_segments_leave_the_disk_after_the_delay() -> None:
    disk, clock = memory(), ManualClock()
    dirs = log_dirs(disk, ["/a"], clock=clock)
    await dirs.start()
    keeper = Housekeeper(dirs, clock, HousekeepingOptions())
    log = await dirs.create(tp(0), TOPIC_ID)
    for _ in range(10):
        log.append_as_leader(batch(2, timestamp=clock.wall_ms()), 0, clock.wall_ms())
    log.advance_high_watermark(log.end_offset)
    clock.advance(8 * 24 * 3600)
    await keeper.delete_old_segments()
    assert log.start_offset == log.end_offset
    deleted = [n for n in disk.list("/a/orders-0") if n.endswith(names.DELETED)]
    assert deleted != []
    clock.advance(59)
    await keeper.tick()
    assert [n for n in disk.list("/a/orders-0") if n.endswith(names.DELETED)] == deleted
    clock.advance(2)
    await keeper.tick()
    assert [n for n in disk.list("/a/orders-0") if n.endswith(names.DELETED)] == []


@pytest.mark.invariant("S4")
async def test_a_recovery_point_is_written_down_only_after_the_sync() -> None:
    disk = memory()
    trace: list[str] = []
    original = disk.step

    def traced(operation: str, path: str) -> None:
        original(operation, path)
        if path.endswith((".log", "recovery-point-offset-checkpoint.tmp")):
            trace.append(f"{operation} {path.rpartition('/')[2].partition('.')[0][-8:]}")

    disk.step = traced  # type: ignore[method-assign]
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    trace.clear()
    log.append_as_leader(batch(), 0, NOW)
    assert log.segment_log.recovery_point == 0
    await _durable(dirs.appended(log))
    assert log.segment_log.recovery_point == 1
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    assert [line.split()[0] for line in trace[:2]] == ["write", "sync"]
    assert b"orders 0 1" in disk.read("/a/recovery-point-offset-checkpoint")
    disk.power_cut()
    again = log_dirs(disk, ["/a"])
    await again.start()
    assert again.get(tp(0)).end_offset == 1
    await again.stop(1)


async def test_one_round_of_syncs_serves_all_that_wait() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    logs = [await dirs.create(tp(n), TOPIC_ID) for n in range(3)]
    waiting = []
    for _ in range(20):
        for log in logs:
            log.append_as_leader(batch(), 0, NOW)
            waiting.append(_durable(dirs.appended(log)))
    await asyncio.gather(*waiting)
    assert all(log.segment_log.recovery_point == 20 for log in logs)
    assert dirs.commit_of(logs[0]).rounds <= 2
    await dirs.stop(1)


@pytest.mark.parametrize("how", ["messages", "time", "roll"])
async def test_flushes_in_the_background(how: str) -> None:
    config = {
        "messages": replace(SMALL, flush_messages=3),
        "time": replace(SMALL, flush_ms=10),
        "roll": SMALL,
    }[how]
    dirs = log_dirs(memory(), ["/a"], config=config)
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    for _ in range(2 if how != "roll" else 6):
        log.append_as_leader(batch(), 0, NOW)
        assert dirs.appended(log) is None
    if how == "messages":
        await dirs.commit_of(log).settle()
        assert log.segment_log.recovery_point == 0
        log.append_as_leader(batch(), 0, NOW)
        dirs.appended(log)
    wanted = {"messages": 3, "time": 2, "roll": log.segment_log.active.base_offset}[how]
    async with asyncio.timeout(30):
        while log.segment_log.recovery_point < wanted:
            await asyncio.sleep(0.005)
    assert log.segment_log.recovery_point == wanted
    await dirs.stop(1)


async def test_a_truncation_lowers_the_checkpoint_first() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    for _ in range(8):
        log.append_as_leader(batch(), 0, NOW)
    await _durable(dirs.appended(log))
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    assert await dirs.truncate(log, 3)
    assert log.end_offset == 3
    disk.power_cut()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    assert tp(0) in dirs.partitions, "no promise of more than the log holds"
    assert dirs.get(tp(0)).end_offset >= 3
    await dirs.stop(1)


async def test_a_partition_that_begins_anew_survives_a_power_cut() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    for _ in range(8):
        log.append_as_leader(batch(), 0, NOW)
    await _durable(dirs.appended(log))
    await dirs.save_checkpoints("recovery-point-offset-checkpoint")
    await dirs.restart_at(log, 1000)
    assert (log.start_offset, log.end_offset, log.high_watermark) == (1000, 1000, 1000)
    disk.power_cut()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    assert tp(0) in dirs.partitions
    await dirs.stop(1)


async def test_the_housekeeper_flushes_what_nobody_else_did() -> None:
    dirs = log_dirs(memory(), ["/a"])
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    for n in range(9):
        log.append_as_leader(batch(producer_id=1, sequence=n), 0, NOW)
    keeper = Housekeeper(dirs, ManualClock(), HousekeepingOptions())
    await keeper.flush_closed_segments()
    await dirs.commit_of(log).settle()
    assert log.segment_log.recovery_point == log.segment_log.active.base_offset
    await keeper.tick()
    assert log.store.unsaved == {}
    await dirs.stop(1)


async def test_who_waits_for_records_that_are_cut_off_is_informed() -> None:
    dirs = log_dirs(memory(), ["/a"], config=DURABLE)
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    await _append_durably(dirs, log)
    log.append_as_leader(batch(), 1, NOW)
    cutting = asyncio.create_task(dirs.truncate(log, 1))
    await asyncio.sleep(0)
    waiting = dirs.appended(log)
    assert waiting is not None
    assert await cutting
    with pytest.raises(KafkaStorageError, match="truncated"):
        await waiting
    assert log.files.shareable
    await _append_durably(dirs, log)
    assert log.segment_log.recovery_point == 2
    await dirs.stop(1)


async def test_nobody_else_works_on_a_partition_that_is_being_cut() -> None:
    disk, clock = memory(), ManualClock()
    dirs = log_dirs(disk, ["/a"], clock=clock)
    await dirs.start()
    keeper = Housekeeper(dirs, clock, HousekeepingOptions())
    log = await dirs.create(tp(0), TOPIC_ID)
    for _ in range(9):
        log.append_as_leader(batch(timestamp=5), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    async with log.files.alone("cut"):
        dirs.with_unsaved_snapshots.add(log)
        retention = asyncio.create_task(keeper.delete_old_segments())
        await keeper.tick()
        assert log.start_offset == 0
        assert dirs.with_unsaved_snapshots == {log}
    await retention
    assert log.start_offset == 9
    await dirs.stop(1)


async def test_an_error_met_elsewhere_takes_the_dir_offline() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"])
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    log.on_failure(LogDirFailed("reading", "/a/x", OSError(errno.EIO, "bad")))
    assert dirs.offline.keys() == {"/a"}
    await dirs.stop(1)
    assert not disk.exists("/a/.kafka_cleanshutdown")
    assert disk.exists("/b/.kafka_cleanshutdown")


async def test_the_housekeeper_serves_until_cancelled() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"])
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    for n in range(6):
        log.append_as_leader(batch(2, producer_id=7, sequence=2 * n), 0, NOW)
        dirs.appended(log)
    options = HousekeepingOptions(
        log_flush_offset_checkpoint_interval_ms=5,
        log_flush_start_offset_checkpoint_interval_ms=5,
        replica_high_watermark_checkpoint_interval_ms=5,
        log_retention_check_interval_ms=5,
        producer_id_expiration_check_interval_ms=5,
        tick_ms=5,
    )
    serving = asyncio.create_task(Housekeeper(dirs, ManualClock(), options).serve())
    names_wanted = ("recovery-point", "log-start", "replication", "cleaner")
    async with asyncio.timeout(30):
        while log.store.unsaved or not all(
            disk.exists(f"/a/{name}-offset-checkpoint") for name in names_wanted
        ):
            await asyncio.sleep(0.005)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await dirs.stop(1)


async def test_without_threads_everything_happens_at_once() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"], config=DURABLE, threads=no_threads)
    await dirs.start()
    log = await dirs.create(tp(0), TOPIC_ID)
    await _append_durably(dirs, log)
    assert log.segment_log.recovery_point == 1
    disk.fail("sync", ".log")
    with pytest.raises(KafkaStorageError):
        await _append_durably(dirs, log)
    assert dirs.offline.keys() == {"/a"}
    await dirs.stop(1)


@pytest.mark.invariant("S13")
async def test_a_device_that_hangs_holds_up_only_its_own_partitions() -> None:
    dirs = log_dirs(memory(), ["/a", "/b"], config=DURABLE)
    await dirs.start()
    slow = await dirs.create(tp(0), TOPIC_ID, directory_id=dirs.dirs[0].directory_id)
    quick = await dirs.create(tp(1), TOPIC_ID, directory_id=dirs.dirs[1].directory_id)
    awake = threading.Event()
    hanging = asyncio.ensure_future(dirs.dirs[0].run(lambda: awake.wait(30)))
    slow.append_as_leader(batch(1), 0, NOW)
    waiting = dirs.appended(slow)
    assert waiting is not None
    async with asyncio.timeout(30):
        for _ in range(20):
            quick.append_as_leader(batch(1), 0, NOW)
            synced = dirs.appended(quick)
            assert synced is not None
            await synced
        assert not waiting.done()
        assert slow.segment_log.recovery_point == 0, "nothing is called durable before it is"
        awake.set()
        await hanging
        await waiting
    assert slow.segment_log.recovery_point == 1
    await dirs.stop(1)
