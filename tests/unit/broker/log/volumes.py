"""A small file system of its own, to be filled up, made read-only or cut off."""

import contextlib
import fcntl
import os
import struct
import subprocess
from pathlib import Path

from tests import needs

_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


class SmallVolume:
    """A loop-mounted ext4 of a few megabytes."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        needs.root()
        needs.command("mkfs.ext4", "a file system of its own is filled and cut off")
        self._image = folder / f"disk-{megabytes}.img"
        self.root = folder / f"mnt-{megabytes}"
        self.root.mkdir()
        with self._image.open("wb") as image:
            image.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self.root))

    def fill(self, leave: int) -> Path:
        """Use up all space but about `leave` bytes; the file that does."""
        ballast = self.root / "ballast"
        status = os.statvfs(self.root)
        size = max(0, status.f_bavail * status.f_frsize - leave)
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        return ballast

    def make_read_only(self) -> None:
        """What a kernel does to a file system it no longer trusts; open descriptors cannot write either."""
        _run("mount", "-o", "remount,abort", str(self.root))

    def cut(self) -> None:
        """Pull the plug: what was not synced is gone, and every later write and sync fails with EIO."""
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def restore(self) -> None:
        """Mount what survived; the journal is replayed as after a real cut."""
        _run("umount", str(self.root))
        _run("mount", "-o", "loop", str(self._image), str(self.root))

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            _run("umount", "-l", str(self.root))
        self._image.unlink(missing_ok=True)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)
