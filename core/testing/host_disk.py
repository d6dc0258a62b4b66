"""The disk of a host whose processes can be killed: it outlives them.

A process gets the disk for one life. When that life ends, nothing it has begun goes on: its files are closed, its locks
released, and later operations of its threads fail. The disk below is the machine's, or one in memory.
"""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rookery.core.disk import Buffer, Disk, File, Lock


class HostDisk:
    """`one_at_a_time` for a disk that threads must not use at once."""

    def __init__(self, below: Disk, *, one_at_a_time: bool = False) -> None:
        self.below = below
        self.one_at_a_time = one_at_a_time
        self.is_full = False
        self.fails = False

    def life(self) -> "LifeDisk":
        """The disk for one process."""
        return LifeDisk(self)

    def check(self, operation: str, path: str) -> None:
        """Raise the fault that this operation meets."""
        if self.fails:
            raise OSError(errno.EIO, "the disk fails", path)
        if self.is_full and operation == "write":
            raise OSError(errno.ENOSPC, "no space left on the disk", path)


class LifeDisk:
    """The disk as one process has it; `end` is the end of that process."""

    def __init__(self, host: HostDisk) -> None:
        self._host = host
        self._disk = host.below
        self._turn = threading.Condition(threading.RLock())
        self._under_way = 0
        self._over = False
        self._files: set[_LifeFile] = set()
        self._locks: set[_LifeLock] = set()

    def end(self) -> None:
        """Wait for operations under way, then close everything. Later ones fail."""
        with self._turn:
            self._over = True
            self._turn.wait_for(lambda: self._under_way == 0)
            for file in list(self._files):
                file.close()
            for lock in list(self._locks):
                lock.release()

    @contextmanager
    def operation(self, name: str, path: str) -> Iterator[None]:
        with self._turn:
            if self._over:
                raise OSError(errno.EIO, "the process was killed", path)
            self._host.check(name, path)
            if self._host.one_at_a_time:
                yield
                return
            self._under_way += 1
        try:
            yield
        finally:
            with self._turn:
                self._under_way -= 1
                self._turn.notify_all()

    def open(self, path: str, *, create: bool = False) -> File:
        with self.operation("open", path):
            return self.keep(self._disk.open(path, create=create), path)

    def keep(self, file: File, path: str) -> File:
        kept = _LifeFile(self, file, path, self._files)
        self._files.add(kept)
        return kept

    def read(self, path: str) -> bytes:
        with self.operation("read", path):
            return self._disk.read(path)

    def exists(self, path: str) -> bool:
        with self.operation("exists", path):
            return self._disk.exists(path)

    def size(self, path: str) -> int:
        with self.operation("size", path):
            return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        with self.operation("modified", path):
            return self._disk.modified_ms(path)

    def list(self, path: str) -> list[str]:
        with self.operation("list", path):
            return self._disk.list(path)

    def mkdir(self, path: str) -> None:
        with self.operation("write", path):
            self._disk.mkdir(path)

    def remove(self, path: str) -> None:
        with self.operation("remove", path):
            self._disk.remove(path)

    def rmdir(self, path: str) -> None:
        with self.operation("rmdir", path):
            self._disk.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        with self.operation("rename", old):
            self._disk.rename(old, new)

    def sync_dir(self, path: str) -> None:
        with self.operation("sync", path):
            self._disk.sync_dir(path)

    def lock(self, folder: str, holder: str) -> Lock:
        with self.operation("lock", folder):
            kept = _LifeLock(self._disk.lock(folder, holder), self._locks)
            self._locks.add(kept)
            return kept

    async def load(self, path: str) -> bytes:
        self._host.check("read", path)
        return await self._disk.load(path)

    async def replace(self, path: str, data: Buffer) -> None:
        self._host.check("write", path)
        await self._disk.replace(path, data)


class _LifeFile:
    def __init__(self, disk: LifeDisk, file: File, path: str, open_files: "set[_LifeFile]") -> None:
        self._disk = disk
        self._file = file
        self._path = path
        self._open_files = open_files

    def write(self, data: Buffer) -> int:
        with self._disk.operation("write", self._path):
            return self._file.write(data)

    def pread(self, size: int, position: int) -> bytes:
        with self._disk.operation("read", self._path):
            return self._file.pread(size, position)

    def size(self) -> int:
        with self._disk.operation("size", self._path):
            return self._file.size()

    def truncate(self, size: int) -> None:
        with self._disk.operation("truncate", self._path):
            self._file.truncate(size)

    def sync(self) -> None:
        with self._disk.operation("sync", self._path):
            self._file.sync()

    def fileno(self) -> int:
        return self._file.fileno()

    def dup(self) -> File:
        with self._disk.operation("open", self._path):
            return self._disk.keep(self._file.dup(), self._path)

    def close(self) -> None:
        self._open_files.discard(self)
        with suppress(OSError):
            self._file.close()


class _LifeLock:
    def __init__(self, lock: Lock, held: "set[_LifeLock]") -> None:
        self._lock = lock
        self._held = held

    def release(self) -> None:
        if self in self._held:
            self._held.discard(self)
            self._lock.release()
