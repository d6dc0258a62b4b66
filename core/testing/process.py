"""Processes that share one event loop.

Every callback belongs to the process in whose context it was scheduled, and so does all that it schedules in turn. A
loop that respects this can kill a process between two callbacks, or stop it and let it go on later.
"""

from collections import deque
from contextvars import Context, ContextVar, copy_context
from typing import Any


class Process:
    """One life of a process on `host`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.cluster = 0
        """Identifies the cluster of a process."""
        self.alive = True
        self.paused = False
        self.missed: deque[Any] = deque()
        """Callbacks that were due while it was stopped."""
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


def current() -> Process:
    """The process whose callback runs now."""
    process = PROCESS.get()
    if process is None:
        raise RuntimeError("no process of the simulation is running")
    return process
