"""Processes and ports as the operating system knows them (Linux: /proc)."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from rookery.client.local.shape import HOST, NodePlan

_START_TOLERANCE_S = 1.0
_POLL_S = 0.02
_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""Nodes this process started; kept, so that they can be collected when they end."""


def started_at(pid: int) -> float | None:
    """When a process started, in seconds since 1970; None when it is gone or only a zombie is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] == "Z" and int(fields[17]) <= 1:
        return None  # with threads left it still holds its files and ports
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return float(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_running(pid: int, started: float) -> bool:
    """Whether that very process still runs: a later one with the same number does not count."""
    now = started_at(pid)
    return now is not None and abs(now - started) <= _START_TOLERANCE_S


def start_node(plan: NodePlan) -> tuple[int, float]:
    """Start a node in a session of its own, so that Ctrl-C in this terminal does not reach it."""
    with plan.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rookery.client.cli", "node", "--config", str(plan.properties)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    _children[process.pid] = process
    return process.pid, started_at(process.pid) or time.time()


def send_signal(pid: int, started: float, number: signal.Signals) -> bool:
    """Signal that very process; False when it no longer runs."""
    if not is_running(pid, started):
        return False
    os.kill(pid, number)
    return True


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll a condition for at most `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def reap(pid: int) -> None:
    """Collect a child that ended, so that it does not stay as a zombie."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def holder_of(port: int) -> str:
    """Which process listens on a port, as far as this user may see: ``pid 4711 (java)``, or an empty text."""
    inodes = _listening_inodes(port)
    for pid in filter(str.isdigit, os.listdir("/proc")) if inodes else ():
        try:
            if not inodes.isdisjoint(_open_files(pid)):
                return f"pid {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
        except OSError:  # another user's, or it has ended
            continue
    return ""


def _open_files(pid: str) -> Iterator[str]:
    for link in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(f"/proc/{pid}/fd/{link}")


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        lines = Path(table).read_text().splitlines()[1:] if Path(table).exists() else []
        for fields in map(str.split, lines):
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return inodes
