"""Many replicas at once: their folders are made together, so that they wait for the device together."""

import asyncio
import errno
import threading
from pathlib import Path
from uuid import UUID

import pytest

from rookery.broker.log.log_dir import MAKERS
from rookery.core.disk import Disk, FileDisk
from rookery.core.log import LogDirFailed
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import log_dirs, memory

ONE, OTHER = UUID(int=50), UUID(int=51)


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


def counting(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were synced."""
    synced: list[str] = []
    sync_dir = disk.sync_dir

    def counted(path: str) -> None:
        synced.append(path)
        sync_dir(path)

    monkeypatch.setattr(disk, "sync_dir", counted)
    return synced


async def test_the_log_dir_is_synced_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], threads=no_threads)
    await dirs.start()
    synced = counting(disk, monkeypatch)
    await dirs.prepare([(tp(number), ONE) for number in range(100)])
    for number in range(100):
        await dirs.create(tp(number), ONE)
    assert synced.count("/a") == 1
    disk.power_cut()
    again = log_dirs(disk, ["/a"], threads=no_threads)
    await again.start()
    assert sorted(again.partitions) == [tp(number) for number in range(100)]
    assert set(again.topic_ids.values()) == {ONE}
    await again.stop(1)


async def test_they_are_spread_over_the_dirs_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    dirs = log_dirs(memory(), ["/a", "/b", "/c"], threads=no_threads)
    await dirs.start()
    await dirs.create(tp(99), ONE)
    await dirs.prepare([(tp(number), ONE) for number in range(8)])
    for number in range(8):
        await dirs.create(tp(number), ONE)
    assert [len(each.held) for each in dirs.dirs] == [3, 3, 3]
    await dirs.stop(1)


async def test_a_topic_that_was_replaced_meanwhile_does_not_leave_its_id() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], threads=no_threads)
    await dirs.start()
    await dirs.prepare([(tp(0), ONE), (tp(1), ONE)])
    await dirs.create(tp(0), OTHER)
    await dirs.prepare([(tp(1), OTHER)])
    await dirs.create(tp(1), OTHER)
    await dirs.stop(1)
    disk.restart()
    again = log_dirs(disk, ["/a"], threads=no_threads)
    await again.start()
    assert again.topic_ids == {tp(0): OTHER, tp(1): OTHER}
    await again.stop(1)


async def test_a_device_that_fails_takes_its_dir_offline_and_the_others_take_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a", "/b"], threads=no_threads)
    await dirs.start()
    sync_dir = disk.sync_dir

    def failing(path: str) -> None:
        if path == "/a":
            raise OSError(errno.EIO, "Input/output error")
        sync_dir(path)

    monkeypatch.setattr(disk, "sync_dir", failing)
    with pytest.raises(LogDirFailed):
        await dirs.prepare([(tp(number), ONE) for number in range(4)])
    assert list(dirs.offline) == ["/a"]
    for number in range(4):
        await dirs.create(tp(number), ONE)
    assert {each.path for each in dirs.dir_of.values()} == {"/b"}
    await dirs.stop(1)


async def test_a_folder_that_is_there_is_left_to_the_creation() -> None:
    disk = memory()
    dirs = log_dirs(disk, ["/a"], threads=no_threads)
    await dirs.start()
    disk.mkdir("/a/orders-0")
    await dirs.prepare([(tp(0), ONE), (tp(1), ONE)])
    await dirs.create(tp(1), ONE)
    assert not disk.exists("/a/orders-0/partition.metadata")
    await dirs.stop(1)


async def test_syncs_wait_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is synced before as many as there are threads wait."""
    together = threading.Barrier(MAKERS)
    met = 0

    class Meeting(FileDisk):
        def sync_dir(self, path: str) -> None:
            nonlocal met
            if "/orders-" in path:
                together.wait(30)
                met += 1
            super().sync_dir(path)

    disk: Disk = Meeting()
    dirs = log_dirs(disk, [str(tmp_path)])
    await dirs.start()
    async with asyncio.timeout(60):
        await dirs.prepare([(tp(number), ONE) for number in range(MAKERS)])
    assert met == MAKERS
    monkeypatch.undo()
    await dirs.stop(1)
