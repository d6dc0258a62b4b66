"""Disks that are full, fail to read, to write or to sync."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.core.disk import FileDisk
from rookery.core.log import Log, LogConfig, LogCorrupt, LogDirFailed
from rookery.core.testing.disk import MemoryDisk
from tests.unit.core.log.sample import batch, disk, everything, opened


@pytest.mark.invariant("S9")
def test_a_full_disk_refuses_the_batch_and_takes_it_when_there_is_room_again() -> None:
    size = len(batch([b"x" * 50]))
    for room in range(size, 2 * size):
        on = MemoryDisk(random.Random(0))
        log = opened(on)
        log.append_as_leader(batch([b"kept"]), 1, 0)
        on.budget = room - size
        with pytest.raises(LogDirFailed) as failed:
            log.append_as_leader(batch([b"x" * 50]), 1, 0)
        assert failed.value.disk_full
        assert not log.failed
        assert [record.value for record in everything(log)] == [b"kept"]
        on.budget = 10_000
        assert log.append_as_leader(batch([b"x" * 50]), 1, 0).base_offset == 1
        log.close()
        assert [r.value for r in everything(opened(on, clean=True))] == [b"kept", b"x" * 50]


@pytest.mark.invariant("S8", "S9")
def test_a_write_error_makes_the_log_refuse_every_change() -> None:
    on = disk()
    log = opened(on)
    log.append_as_leader(batch([b"kept"]), 1, 0)
    on.fail("write", ".log", error=errno.EIO)
    with pytest.raises(LogDirFailed) as failed:
        log.append_as_leader(batch([b"lost"]), 1, 0)
    assert not failed.value.disk_full
    assert failed.value.errno == errno.EIO
    assert "writing" in str(failed.value)
    for _ in range(2):
        with pytest.raises(LogDirFailed, match="earlier"):
            log.append_as_leader(batch([b"refused"]), 1, 0)
    assert [record.value for record in everything(log)] == [b"kept"]


@pytest.mark.invariant("S9")
def test_a_full_disk_that_cannot_be_cut_back_is_fatal() -> None:
    on = disk()
    log = opened(on)
    on.budget = 30
    on.fail("truncate", ".log")
    with pytest.raises(LogDirFailed) as failed:
        log.append_as_leader(batch([b"x"]), 1, 0)
    assert not failed.value.disk_full
    assert log.failed


@pytest.mark.invariant("S4", "S8")
@pytest.mark.parametrize("what", ["sync", "sync_dir"])
def test_a_failed_sync_is_final_and_moves_no_recovery_point(what: str) -> None:
    on = disk()
    log = opened(on)
    log.append_as_leader(batch([b"one"]), 1, 0)
    log.flush()
    log.append_as_leader(batch([b"two"]), 1, 0)
    log.roll(0)
    log.append_as_leader(batch([b"three"]), 1, 0)
    on.fail(what)
    with pytest.raises(LogDirFailed, match="syncing"):
        log.flush()
    assert log.recovery_point == 1
    with pytest.raises(LogDirFailed):
        log.append_as_leader(batch([b"four"]), 1, 0)
    steps = on.steps
    log.close()
    assert on.steps == steps  # nothing was tried again
    on.power_cut()
    assert next(r.value for r in everything(opened(on, recovery_point=1))) == b"one"


@pytest.mark.invariant("S8")
def test_a_failed_sync_in_a_thread_is_reported_to_the_log() -> None:
    on = disk()
    log = opened(on)
    log.append_as_leader(batch([b"one"]), 1, 0)
    job = log.begin_flush()
    on.fail("sync")
    with pytest.raises(LogDirFailed):
        job.run()
    log.flush_failed()
    assert log.recovery_point == 0
    with pytest.raises(LogDirFailed):
        log.append_as_leader(batch([b"two"]), 1, 0)


def test_a_read_error_names_the_file() -> None:
    on = disk()
    log = opened(on)
    log.append_as_leader(batch([b"one"]), 1, 0)
    on.fail("read", ".log")
    with pytest.raises(LogDirFailed, match=r"reading .*00000000000000000000\.log failed: Input/output error"):
        log.read(0, 100)
    assert log.read(0, 100).data


def test_errors_while_opening_rolling_and_truncating_are_of_the_same_kind() -> None:
    for operation in ("mkdir", "create", "sync_dir", "list"):
        on = disk()
        on.fail(operation)
        with pytest.raises(LogDirFailed, match="failed: Input/output error"):
            opened(on)
    changes: dict[str, Callable[[Log], object]] = {
        "create": lambda log: log.roll(0),
        "remove": lambda log: log.truncate_to(1),
        "truncate": lambda log: log.truncate_to(3),
        "rename": lambda log: log.take_old(4, lambda segment, end: True),
    }
    for operation, change in changes.items():
        on = disk()
        log = opened(on, LogConfig(segment_bytes=150))
        for _ in range(4):
            log.append_as_leader(batch([b"x"]), 1, 0)
        on.fail(operation)
        with pytest.raises(LogDirFailed, match="failed: Input/output error"):
            change(log)


def test_no_descriptor_is_left_open_by_what_failed(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    real, path, config = FileDisk(), str(tmp_path / "orders-0"), LogConfig(segment_bytes=200)
    before = descriptors()
    log = Log.open(real, path, config, recovery_point=0)
    for _ in range(20):
        log.append_as_leader(batch([b"x"]), 1, 0)
    log.truncate_to(15)
    log.flush()
    log.abandon()
    assert descriptors() == before
    for damaged, point in ((log.active.log_path, 15), (log.segments[3].log_path, None)):
        os.truncate(damaged, os.stat(damaged).st_size - 1)
        with pytest.raises(LogCorrupt):
            Log.open(real, path, config, recovery_point=point)
        assert descriptors() == before
    Log.open(real, path, config, recovery_point=0)
    assert descriptors() == before
