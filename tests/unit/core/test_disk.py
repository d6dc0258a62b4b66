"""The disk port: both disks keep the same promises, and the one in memory breaks the others on purpose."""

import asyncio
import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.core.disk import Disk, FileDisk, FolderInUseError, replace_file, write_whole
from rookery.core.testing.disk import MemoryDisk, PowerCut


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "file":
        return FileDisk(), str(tmp_path)
    disk = MemoryDisk(random.Random(0))
    disk.mkdir("data")
    return disk, "data"


def test_a_file_is_written_at_its_end_and_read_anywhere(place: tuple[Disk, str]) -> None:
    disk, root = place
    file = disk.open(f"{root}/a", create=True)
    assert file.write(b"hello ") == 6
    assert file.write(memoryview(b"world")) == 5
    assert file.pread(5, 6) == b"world"
    assert file.pread(100, 8) == b"rld"
    assert file.pread(4, 100) == b""
    file.truncate(6)
    file.write(bytearray(b"there"))
    other = file.dup()
    file.close()
    other.sync()
    assert (other.size(), disk.size(f"{root}/a")) == (11, 11)
    other.close()
    assert disk.read(f"{root}/a") == b"hello there"


def test_names_come_and_go(place: tuple[Disk, str]) -> None:
    disk, root = place
    disk.mkdir(f"{root}/x/y")
    disk.mkdir(f"{root}/x/y")
    disk.open(f"{root}/x/b", create=True).close()
    disk.rename(f"{root}/x/b", f"{root}/x/a")
    assert disk.list(f"{root}/x") == ["a", "y"]
    assert disk.exists(f"{root}/x/a")
    assert not disk.exists(f"{root}/x/b")
    disk.rename(f"{root}/x", f"{root}/z")
    disk.remove(f"{root}/z/a")
    disk.rmdir(f"{root}/z/y")
    disk.sync_dir(f"{root}/z")
    assert disk.list(f"{root}/z") == []
    for missing in (disk.read, disk.list, disk.remove, disk.open):
        with pytest.raises(FileNotFoundError):
            missing(f"{root}/nowhere")


@pytest.mark.invariant("S7")
async def test_files_are_replaced_whole_on_and_off_the_loop(place: tuple[Disk, str]) -> None:
    disk, root = place
    replace_file(disk, f"{root}/c", b"one")
    await disk.replace(f"{root}/c", b"two")
    assert await disk.load(f"{root}/c") == b"two"
    assert disk.list(root) == ["c"]


@pytest.mark.invariant("S7")
async def test_whoever_is_cancelled_leaves_when_the_file_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on whatever becomes of its task; nobody else may write the temporary file meanwhile."""
    disk, path = FileDisk(), str(tmp_path / "checkpoint")
    fsync, begun, go_on = os.fsync, threading.Event(), threading.Event()

    def sync(fd: int) -> None:
        begun.set()
        assert go_on.wait(30)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", sync)
    first = asyncio.create_task(disk.replace(path, b"first"))
    assert await asyncio.to_thread(begun.wait, 30)
    first.cancel()
    done, _ = await asyncio.wait([first], timeout=0.05)
    assert not done
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert os.listdir(tmp_path) == ["checkpoint"]
    await disk.replace(path, b"second")
    assert await disk.load(path) == b"second"


@pytest.mark.invariant("S7")
def test_a_power_cut_at_any_step_leaves_the_old_file_or_the_new_one() -> None:
    seen: set[bytes] = set()
    for seed in range(40):
        for steps in range(12):
            disk = MemoryDisk(random.Random(seed))
            disk.mkdir("d")
            replace_file(disk, "d/c", b"old")
            disk.cut_after(steps)
            finished = _runs(lambda disk=disk: replace_file(disk, "d/c", b"new content"))  # type: ignore[misc]
            disk.power_cut()
            left = disk.read("d/c")
            assert left == b"new content" if finished else left in (b"old", b"new content")
            seen.add(left)
    assert len(seen) == 2


def _runs(work: Callable[[], None]) -> bool:
    try:
        work()
    except PowerCut:
        return False
    return True


def test_a_power_cut_may_lose_or_tear_what_was_not_synced_and_nothing_else() -> None:
    kept: set[bytes] = set()
    for seed in range(200):
        disk = MemoryDisk(random.Random(seed))
        disk.mkdir("d")
        file = disk.open("d/f", create=True)
        file.write(b"durable")
        file.sync()
        disk.sync_dir("d")
        file.write(b"+ not")
        disk.power_cut()
        left = disk.read("d/f")
        assert left.startswith(b"durable")
        kept.add(left)
        with pytest.raises(OSError, match="closed"):
            file.write(b"x")
    assert {b"durable", b"durable+ not", b"durable+", b"durable" + bytes(5)} <= kept


def test_names_that_were_not_synced_may_be_lost() -> None:
    outcomes = set()
    for seed in range(100):
        disk = MemoryDisk(random.Random(seed))
        disk.mkdir("d")
        disk.open("d/a", create=True).close()
        disk.sync_dir("d")
        disk.open("d/b", create=True).close()
        disk.rename("d/a", "d/c")
        disk.power_cut()
        outcomes.add(tuple(disk.list("d")))
    assert outcomes == {("a",), ("a", "b"), ("b", "c")}


def test_a_failed_sync_loses_the_bytes_although_the_next_one_succeeds() -> None:
    disk = MemoryDisk(random.Random(1))
    disk.mkdir("d")
    file = disk.open("d/f", create=True)
    disk.sync_dir("d")
    file.write(b"gone")
    disk.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    disk.power_cut()
    assert disk.read("d/f") == b""


@pytest.mark.invariant("S9")
def test_a_write_that_finds_no_room_leaves_the_file_as_it_was() -> None:
    disk = MemoryDisk(random.Random(0), budget=10)
    disk.mkdir("d")
    file = disk.open("d/f", create=True)
    write_whole(file, b"1234567", 0)
    with pytest.raises(OSError, match="space") as full:
        write_whole(file, b"abcdef", 7)
    assert full.value.errno == errno.ENOSPC
    assert disk.read("d/f") == b"1234567"
    write_whole(file, b"abc", 7)
    assert disk.read("d/f") == b"1234567abc"


def test_a_write_that_cannot_be_undone_says_so() -> None:
    disk = MemoryDisk(random.Random(0), budget=3)
    disk.mkdir("d")
    file = disk.open("d/f", create=True)
    disk.fail("truncate")
    with pytest.raises(OSError, match="Input/output") as failed:
        write_whole(file, b"abcdef", 0)
    assert isinstance(failed.value.__cause__, OSError)


def test_short_writes_are_continued() -> None:
    class Reluctant:
        """A file whose device takes three bytes at a time."""

        def __init__(self, inner: object) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def write(self, data: bytes) -> int:
            return int(self.inner.write(data[:3]))  # type: ignore[attr-defined]

    disk = MemoryDisk(random.Random(0))
    disk.mkdir("d")
    write_whole(Reluctant(disk.open("d/f", create=True)), b"0123456789", 0)  # type: ignore[arg-type]
    assert disk.read("d/f") == b"0123456789"


def test_whoever_asks_learns_how_long_the_device_took(tmp_path: Path) -> None:
    heard: list[float] = []
    file = FileDisk(heard.append).open(f"{tmp_path}/a", create=True)
    other = file.dup()
    file.write(b"x")
    file.sync()
    other.sync()
    assert len(heard) == 2
    assert all(0 < seconds < 60 for seconds in heard)
    file.close()
    other.close()


def test_a_folder_is_taken_once_and_shows_by_whom(place: tuple[Disk, str]) -> None:
    disk, root = place
    with pytest.raises(OSError, match="missing"):
        disk.lock(f"{root}/missing", "node 1")
    first = disk.lock(root, "node 1")
    with pytest.raises(FolderInUseError, match=r"in use by node 1.*stop that process first"):
        disk.lock(root, "node 2")
    first.release()
    first.release()
    second = disk.lock(root, "node 2")
    with pytest.raises(FolderInUseError, match="in use by node 2"):
        disk.lock(root, "node 2")
    second.release()


def test_the_end_of_a_process_releases_its_locks() -> None:
    disk = MemoryDisk(random.Random(0))
    disk.mkdir("data")
    old = disk.lock("data", "node 1")
    disk.restart()
    disk.lock("data", "node 1")
    old.release()
    with pytest.raises(FolderInUseError):
        disk.lock("data", "node 1")
