"""The disk port: what the log asks of a file system, a real one and its in-memory twin.

`FileDisk` is the machine's file system; `MemoryDisk` keeps files in memory and models what a power cut,
a full disk or a failing device does to bytes that were written but not synced.
"""

from rookery.core.disk.files import FileDisk
from rookery.core.disk.memory import MemoryDisk, PowerCut
from rookery.core.disk.port import Buffer, Disk, File, FolderInUseError, Lock, replace_file, write_whole

__all__ = [
    "Buffer",
    "Disk",
    "File",
    "FileDisk",
    "FolderInUseError",
    "Lock",
    "MemoryDisk",
    "PowerCut",
    "replace_file",
    "write_whole",
]
