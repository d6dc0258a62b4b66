"""A disk in memory that forgets at a power cut what a real one may forget.

Each file keeps its durable content and the writes and truncations since the last `sync`; each folder keeps
its durable names and the changes since the last `sync_dir`. `power_cut` keeps a random part of both:
un-synced bytes survive wholly, up to an arbitrary byte, with holes of zeros, or not at all, and un-synced
names survive as a prefix of their changes. Faults are given in advance: `budget` bytes until ENOSPC,
`fail` for errors of chosen operations, `cut_after` for a power cut at the n-th step. `point` is called before
every operation: a simulation lets others go first there.
"""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from rookery.core.cancellation import finish_despite_cancel
from rookery.core.disk.port import Buffer, FolderInUseError, replace_file

P = ParamSpec("P")
T = TypeVar("T")

_PAGE = 4096


def _go_on() -> None:
    """Nobody is let go first."""


class PowerCut(Exception):
    """The machine lost power; every operation raises this until `power_cut` brought it back."""


@dataclass
class _Inode:
    """A file's bytes as programs see them, as the device has them, and what lies between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: bool = False
    unchanged: int = 0  # leading bytes that are the same in both
    broken: bool = False  # a sync failed: the kernel dropped the pages, and later syncs only seem to succeed
    modified_ms: int = 0

    def sync(self) -> None:
        del self.durable[self.unchanged :]
        self.durable += memoryview(self.data)[self.unchanged :]
        self.dirty, self.unchanged = False, len(self.data)

    def lose_unsynced(self, rng: random.Random) -> None:
        if self.broken:
            self.data = bytearray(self.durable)
        elif self.dirty:
            self.data = bytearray(self._survivor(rng))
        self.broken = False
        self.sync()

    def _survivor(self, rng: random.Random) -> bytes:
        """The durable bytes, the written bytes, or something between that a device may leave behind."""
        old, new = bytes(self.durable), bytes(self.data)
        common = self.unchanged
        fate = rng.choice(("old", "new", "torn", "holes"))
        if fate == "old":
            return old
        if fate == "new" or len(new) <= common:
            return new
        if fate == "torn":
            return new[: rng.randint(common, len(new))]
        pages = bytearray(new)
        for start in range(common, len(new), _PAGE):
            if rng.random() < 0.5:
                stop = min(start + _PAGE, len(new))
                pages[start:stop] = bytes(stop - start)
        return bytes(pages)


@dataclass
class _Folder:
    """Names as programs see them, and every version since the last sync, oldest first."""

    names: dict[str, _Inode] = field(default_factory=dict)
    versions: list[dict[str, _Inode]] = field(default_factory=lambda: [{}])

    def changed(self) -> None:
        self.versions.append(dict(self.names))

    def sync(self) -> None:
        self.versions = [dict(self.names)]

    def lose_unsynced(self, rng: random.Random) -> None:
        self.names = dict(rng.choice(self.versions))
        self.sync()


@dataclass
class _Fault:
    operation: str
    suffix: str
    errno: int
    times: int


class _MemoryFile:
    def __init__(self, disk: "MemoryDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._boot = disk.boots
        self._closed = False

    def _alive(self) -> _Inode:
        self._disk.point()
        if self._closed or self._boot != self._disk.boots:
            raise OSError(errno.EBADF, "file is closed", self._path)
        return self._inode

    def write(self, data: Buffer) -> int:
        inode = self._alive()
        taken = self._disk.take(self._path, len(data))
        inode.data += memoryview(data)[:taken]
        inode.dirty = True
        inode.modified_ms = self._disk.now_ms()
        return taken

    def pread(self, size: int, position: int) -> bytes:
        inode = self._alive()
        self._disk.meet("read", self._path)
        return bytes(inode.data[position : position + size])

    def size(self) -> int:
        return len(self._alive().data)

    def truncate(self, size: int) -> None:
        inode = self._alive()
        self._disk.step("truncate", self._path)
        self._disk.give(len(inode.data) - size)
        del inode.data[size:]
        inode.unchanged = min(inode.unchanged, size)
        inode.data.extend(bytes(size - len(inode.data)))
        inode.dirty = True

    def sync(self) -> None:
        inode = self._alive()
        try:
            self._disk.step("sync", self._path)
        except OSError:
            inode.broken = True
            raise
        if inode.dirty and not inode.broken:
            inode.sync()

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a file in memory has no descriptor", self._path)

    def dup(self) -> "_MemoryFile":
        self._alive()
        return _MemoryFile(self._disk, self._path, self._inode)

    def close(self) -> None:
        self._closed = True


class _MemoryLock:
    def __init__(self, locks: dict[str, "_MemoryLock"], folder: str, holder: str) -> None:
        self.holder = holder
        self._locks = locks
        self._folder = folder
        locks[folder] = self

    def release(self) -> None:
        if self._locks.get(self._folder) is self:
            del self._locks[self._folder]


class MemoryDisk:
    """See the module. `rng` decides what a power cut leaves; `now_ms` gives files their times."""

    def __init__(
        self, rng: random.Random, *, budget: int | None = None, now_ms: Callable[[], int] = lambda: 0
    ) -> None:
        self._rng = rng
        self._folders: dict[str, _Folder] = {"": _Folder(), "/": _Folder()}
        self._faults: list[_Fault] = []
        self._locks: dict[str, _MemoryLock] = {}
        self._cut_at: int | None = None
        self.now_ms = now_ms
        self.point: Callable[[], None] = _go_on
        self.threaded = False
        """Whether `load` and `replace` happen in a thread, as on a real disk, or at once."""
        self.budget = budget
        self.steps = 0
        self.boots = 0

    # faults

    def fail(self, operation: str, suffix: str = "", *, error: int = errno.EIO, times: int = 1) -> None:
        """The next `times` operations (write, read, sync, truncate, open, rename, remove, sync_dir, mkdir) on
        paths with this ending raise `OSError(error)`."""
        self._faults.append(_Fault(operation, suffix, error, times))

    def cut_after(self, steps: int) -> None:
        """Let `steps` more changes happen; the next one raises `PowerCut`, as does everything after it."""
        self._cut_at = self.steps + steps

    def power_cut(self) -> None:
        """Lose what was not durable, close every file and come back."""
        inodes = {id(i): i for folder in self._folders.values() for v in folder.versions for i in v.values()}
        for folder in self._folders.values():
            folder.lose_unsynced(self._rng)
        for inode in inodes.values():
            inode.lose_unsynced(self._rng)
        self.restart()

    def restart(self) -> None:
        """Close every file and release every lock but keep what was written: what `kill -9` does to a process."""
        self.boots += 1
        self._locks.clear()
        self._cut_at = None

    # bookkeeping for the files

    def meet(self, operation: str, path: str) -> None:
        """Raise the fault that waits for this operation, if any."""
        if self._cut_at is not None and self.steps >= self._cut_at:
            raise PowerCut(f"power cut before {operation} of {path}")
        for fault in self._faults:
            if fault.operation == operation and path.endswith(fault.suffix):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                raise OSError(fault.errno, os.strerror(fault.errno), path)

    def step(self, operation: str, path: str) -> None:
        """One change of the disk."""
        self.meet(operation, path)
        self.steps += 1

    def take(self, path: str, size: int) -> int:
        """Room for a write: all of it, what is left, or ENOSPC."""
        self.step("write", path)
        if self.budget is None:
            return size
        taken = min(size, self.budget)
        if size and not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.budget -= taken
        return taken

    def give(self, size: int) -> None:
        if self.budget is not None:
            self.budget += size

    # the port

    def open(self, path: str, *, create: bool = False) -> _MemoryFile:
        self.point()
        folder, name = self._folder_of(path), os.path.basename(path)
        self.meet("open", path)
        if name not in folder.names:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.step("create", path)
            folder.names[name] = _Inode(modified_ms=self.now_ms())
            folder.changed()
        return _MemoryFile(self, path, folder.names[name])

    def read(self, path: str) -> bytes:
        self.point()
        self.meet("read", path)
        return bytes(self._inode(path).data)

    def exists(self, path: str) -> bool:
        self.point()
        self.meet("exists", path)
        folder = self._folders.get(os.path.dirname(path))
        return path in self._folders or (folder is not None and os.path.basename(path) in folder.names)

    def size(self, path: str) -> int:
        self.point()
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        self.point()
        return self._inode(path).modified_ms

    def list(self, path: str) -> list[str]:
        self.point()
        self.meet("list", path)
        if path not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        children = {os.path.basename(p) for p in self._folders if p != path and os.path.dirname(p) == path}
        return sorted(children | set(self._folders[path].names))

    def mkdir(self, path: str) -> None:
        self.point()
        self.step("mkdir", path)
        while path not in self._folders:
            self._folders[path] = _Folder()
            path = os.path.dirname(path)

    def remove(self, path: str) -> None:
        self.point()
        folder, name = self._folder_of(path), os.path.basename(path)
        inode = self._inode(path)
        self.step("remove", path)
        self.give(len(inode.data))
        del folder.names[name]
        folder.changed()

    def rmdir(self, path: str) -> None:
        self.point()
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.step("rmdir", path)
        del self._folders[path]

    def rename(self, old: str, new: str) -> None:
        self.point()
        self.step("rename", old)
        if old in self._folders:
            inside = [p for p in self._folders if p == old or p.startswith(old + "/")]
            for path in inside:
                self._folders[new + path[len(old) :]] = self._folders.pop(path)
            return
        inode = self._inode(old)
        source, target = self._folder_of(old), self._folder_of(new)
        del source.names[os.path.basename(old)]
        target.names[os.path.basename(new)] = inode
        for folder in {id(f): f for f in (source, target)}.values():
            folder.changed()

    def sync_dir(self, path: str) -> None:
        self.point()
        self.step("sync_dir", path)
        self._folders[path].sync()

    def lock(self, folder: str, holder: str) -> _MemoryLock:
        self.meet("lock", folder)
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
        if folder in self._locks:
            raise FolderInUseError(folder, self._locks[folder].holder)
        return _MemoryLock(self._locks, folder, holder)

    async def load(self, path: str) -> bytes:
        return await self._in_thread(self.read, path) if self.threaded else self.read(path)

    async def replace(self, path: str, data: Buffer) -> None:
        if self.threaded:
            await self._in_thread(replace_file, self, path, data)
        else:
            replace_file(self, path, data)

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        return await finish_despite_cancel(asyncio.to_thread(work, *args, **more))

    # tests reach in here to damage files

    def paths(self) -> tuple[str, ...]:
        """All files there are."""
        found = ((folder, name) for folder, content in self._folders.items() for name in content.names)
        return tuple(sorted(f"{folder.rstrip('/')}/{name}" for folder, name in found))

    def contents(self, path: str) -> bytes:
        """A file as programs see it, whoever asks."""
        return bytes(self._inode(path).data)

    def edit(self, path: str, data: Buffer) -> None:
        """Put other bytes into a file behind its owner's back, durably: bit rot."""
        inode = self._inode(path)
        inode.data, inode.unchanged = bytearray(data), 0
        inode.sync()

    def flip(self, path: str, place: int) -> None:
        """Change one bit of a file behind its owner's back, on the device too where it has that byte."""
        inode = self._inode(path)
        inode.data[place] ^= 1
        if place < inode.unchanged:
            inode.durable[place] ^= 1

    def _folder_of(self, path: str) -> _Folder:
        parent = os.path.dirname(path)
        if parent not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", parent)
        return self._folders[parent]

    def _inode(self, path: str) -> _Inode:
        folder, name = self._folder_of(path), os.path.basename(path)
        if name not in folder.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return folder.names[name]
