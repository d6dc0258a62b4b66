"""A true power cut: a small ext4 of its own, shut down by ioctl, so that what was not synced is gone."""

import fcntl
import os
import struct
import subprocess
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
SIZE_MB = 256


class Volume:
    """A loop-mounted file system. `cut` pulls the plug, `restore` mounts what survived.

    It is mounted below a shared mount, so that unmounting reaches the copies which `ip netns exec` makes of
    all mounts; one such copy would keep the dead file system alive.
    """

    def __init__(self, folder: Path) -> None:
        self._image = folder / "disk.img"
        self._shared = folder / "shared"
        self.root = self._shared / "mnt"
        self.root.mkdir(parents=True)
        _run("mount", "--bind", str(self._shared), str(self._shared))
        _run("mount", "--make-shared", str(self._shared))
        self.dying = False
        with self._image.open("wb") as image:
            image.truncate(SIZE_MB << 20)
        _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", str(self._image))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.root))

    def cut(self) -> None:
        """Nothing that is not on the device by now ever gets there; every later call fails.

        A sync that overlaps the cut may still return as if it had worked, which no machine without power can
        do: nothing counts as acknowledged once `dying` is set.
        """
        self.dying = True
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def restore(self) -> None:
        """Mount again; the journal is replayed as after a real cut."""
        _run("umount", str(self.root))
        self._mount()
        self.dying = False
        try:
            (self.root / "alive").write_bytes(b"")
        except OSError as error:
            reason = "another mount namespace still holds the volume that was cut"
            raise RuntimeError(reason) from error

    def close(self) -> None:
        """Unmount, even if a failed test still holds files open."""
        _run("umount", "--lazy", str(self.root))
        _run("umount", "--lazy", str(self._shared))
        self._image.unlink()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)
