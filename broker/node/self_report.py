"""What a node reports of its process and machine on ``/healthz?verbose``: release, clock, files, memory."""

import os
import resource
import time
from pathlib import Path

from rookery import __version__

OPEN_FILES = Path("/proc/self/fd")
MEMORY = Path("/proc/meminfo")


def self_report() -> dict[str, object]:
    """Where the system provides no value, it is -1."""
    total, available = _memory()
    return {
        "version": __version__,
        "now_ms": int(time.time() * 1000),
        "open_files": len(os.listdir(OPEN_FILES)) if OPEN_FILES.exists() else -1,
        "open_files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "memory_total_bytes": total,
        "memory_available_bytes": available,
    }


def _memory() -> tuple[int, int]:
    try:
        lines = MEMORY.read_text().splitlines()
    except OSError:
        return -1, -1
    found = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return found.get("MemTotal", -1), found.get("MemAvailable", -1)
