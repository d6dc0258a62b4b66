"""The machine's file system behind the disk port."""

import asyncio
import fcntl
import os
import socket
import stat
import time
from collections.abc import Callable

import aiofiles
import aiofiles.os

from rookery.core.cancellation import finish_despite_cancel
from rookery.core.disk.port import LOCK, Buffer, FolderInUseError

_PIECE = 1 << 20
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
Synced = Callable[[float], None]
"""Called with the seconds a device took, in whatever thread waited for it."""


class _OpenFile:
    """One descriptor. Appends go to the end of the file whatever was truncated before (O_APPEND)."""

    __slots__ = ("_fd", "_synced")

    def __init__(self, fd: int, synced: Synced) -> None:
        self._fd = fd
        self._synced = synced

    def write(self, data: Buffer) -> int:
        return os.write(self._fd, data)

    def pread(self, size: int, position: int) -> bytes:
        found = os.pread(self._fd, size, position)
        if len(found) == size or not found:
            return found
        parts, total = [found], len(found)
        while total < size and (more := os.pread(self._fd, size - total, position + total)):
            parts.append(more)
            total += len(more)
        return b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        begun = time.perf_counter()
        os.fdatasync(self._fd)
        self._synced(time.perf_counter() - begun)

    def fileno(self) -> int:
        return self._fd

    def dup(self) -> "_OpenFile":
        return _OpenFile(os.dup(self._fd), self._synced)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class _FolderLock:
    """A lock on the file `.lock`, which says who holds it."""

    __slots__ = ("_fd",)

    def __init__(self, folder: str, holder: str) -> None:
        fd = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{holder} (process {os.getpid()} on {socket.gethostname()})\n".encode(), 0)
        except BlockingIOError:
            current = os.pread(fd, 1000, 0).decode("utf-8", "replace").strip()
            os.close(fd)
            raise FolderInUseError(folder, current) from None
        except OSError:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class FileDisk:
    """Files and folders of the operating system. Holds no state, so one instance serves every thread."""

    def __init__(self, synced: Synced = lambda seconds: None) -> None:
        """`synced` is called for every file that was made durable."""
        self._synced = synced

    def open(self, path: str, *, create: bool = False) -> _OpenFile:
        return _OpenFile(os.open(path, _FLAGS | (os.O_CREAT if create else 0), 0o644), self._synced)

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = [os.read(fd, os.fstat(fd).st_size + 1)]
            while parts[-1]:
                parts.append(os.read(fd, _PIECE))
            return b"".join(parts)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path)[stat.ST_SIZE]

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        os.remove(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, folder: str, holder: str) -> _FolderLock:
        return _FolderLock(folder, holder)

    async def load(self, path: str) -> bytes:
        return await finish_despite_cancel(self._load(path))

    async def replace(self, path: str, data: Buffer) -> None:
        await finish_despite_cancel(self._replace(path, data))

    async def _load(self, path: str) -> bytes:
        async with aiofiles.open(path, "rb") as file:
            return await file.read()

    async def _replace(self, path: str, data: Buffer) -> None:
        temporary = path + ".tmp"
        async with aiofiles.open(temporary, "wb") as file:
            await file.write(data)
            await file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        await aiofiles.os.replace(temporary, path)
        await asyncio.to_thread(self.sync_dir, os.path.dirname(path))
