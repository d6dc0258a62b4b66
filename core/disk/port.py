"""The narrow set of file operations that storage is written against.

Paths are plain strings. Every method may raise `OSError`; nothing here retries, and nothing is durable
before `File.sync` (bytes of a file) and `Disk.sync_dir` (names in a folder) returned.
"""

import os
from typing import Protocol

Buffer = bytes | bytearray | memoryview
LOCK = ".lock"
"""The file in a folder that the lock of the folder lies on."""


class FolderInUseError(Exception):
    """Another process works in the folder."""

    def __init__(self, folder: str, holder: str) -> None:
        super().__init__(
            f"{folder} is in use by {holder or 'another process'}: stop that process first, or give this one folders "
            "of its own (log.dirs, metadata.log.dir)"
        )


class Lock(Protocol):
    """Keeps other processes out of a folder; the system releases it when the process ends."""

    def release(self) -> None: ...


class File(Protocol):
    """An open file that is written at its end only and read anywhere."""

    def write(self, data: Buffer) -> int:
        """Append with one system call; returns how many bytes were taken, which may be fewer than given."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Make the bytes of the file durable (fdatasync). A failure must never be retried."""

    def fileno(self) -> int:
        """The descriptor, for sendfile and mmap; raises `OSError` where there is none."""

    def dup(self) -> "File":
        """Another handle on the same open file, which may be used and closed by itself."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A tree of folders and files."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def read(self, path: str) -> bytes:
        """The whole of a small file."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, in wall-clock milliseconds."""

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""

    def mkdir(self, path: str) -> None:
        """Make a folder and its parents; quiet if it is there."""

    def remove(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces `new`."""

    def sync_dir(self, path: str) -> None:
        """Make names made, renamed and removed in a folder durable."""

    def lock(self, folder: str, holder: str) -> Lock:
        """Take the folder for this process. `holder` names this process to others that want the folder.
        FolderInUseError if it is taken, by whomever: two locks of one process exclude each other too."""

    async def load(self, path: str) -> bytes:
        """`read` without holding up the event loop."""

    async def replace(self, path: str, data: Buffer) -> None:
        """`replace_file` without holding up the event loop."""


def write_whole(file: File, data: Buffer, size_before: int) -> None:
    """Append all of `data`, or none of it: after a failure the file is cut back to `size_before`.

    The write error is raised either way; if the cut fails too, its error is raised from the first, and
    then the tail of the file is unknown and the folder must be given up.
    """
    try:
        written = file.write(data)
        if written != len(data):
            rest = memoryview(data)
            while written < len(data):
                written += file.write(rest[written:])
    except OSError as error:
        try:
            file.truncate(size_before)
        except OSError as second:
            raise second from error
        raise


def replace_file(disk: Disk, path: str, data: Buffer) -> None:
    """Put `data` at `path` so that a crash leaves the old content or the new, never a mixture.

    Temporary file, fsync, rename, fsync of the folder.
    """
    put_file(disk, path, data)
    disk.sync_dir(os.path.dirname(path))


def put_file(disk: Disk, path: str, data: Buffer) -> None:
    """The same, but the caller syncs the folder: that done, the file is there, and before it may be."""
    temporary = path + ".tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        write_whole(file, data, 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
