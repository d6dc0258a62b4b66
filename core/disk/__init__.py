"""The disk port: what the log asks of a file system. `FileDisk` is the machine's; `core.testing.disk` has one in
memory."""

from rookery.core.disk.files import FileDisk
from rookery.core.disk.port import (
    Buffer,
    Disk,
    File,
    FolderInUseError,
    Lock,
    put_file,
    replace_file,
    write_whole,
)

__all__ = [
    "Buffer",
    "Disk",
    "File",
    "FileDisk",
    "FolderInUseError",
    "Lock",
    "put_file",
    "replace_file",
    "write_whole",
]
