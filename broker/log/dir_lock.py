"""One process per log dir: a lock on the file `.lock` in it, which the system releases when the process
ends."""

import fcntl
import os

NAME = ".lock"


class DirInUseError(Exception):
    """Another process holds the dir."""


class DirLock:
    """Held from `take` to `release`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> None:
        fd = os.open(f"{self._path}/{NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DirInUseError(f"{self._path} is in use by another process; stop that one first") from None
        except OSError:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
