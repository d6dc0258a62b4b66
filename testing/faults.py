"""A fault that lasts until it is undone."""

import asyncio
import os
from collections.abc import Callable
from types import TracebackType


class UnsupportedFault(Exception):
    """The cluster cannot do that in the way it runs; the message says why, and which way can."""


def flip_in_file(path: str, place: int) -> None:
    """Change one bit of a file of this machine, in place: what is appended to it meanwhile is not lost."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        before = os.pread(descriptor, 1, place)
        os.pwrite(descriptor, bytes([before[0] ^ 1]), place)
    finally:
        os.close(descriptor)


class Fault:
    """Undone by `undo`, at the end of a `with` block, or with the cluster. ``async with`` leaves the caller's loop free
    while it is undone."""

    def __init__(self, what: str, undo: Callable[[], None]) -> None:
        self.what = what
        self._undo: Callable[[], None] | None = undo

    @property
    def lasts(self) -> bool:
        return self._undo is not None

    def undo(self) -> None:
        """Once; later calls do nothing."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    async def __aenter__(self) -> "Fault":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.undo)

    def __repr__(self) -> str:
        return f"<Fault {self.what}{'' if self.lasts else ', undone'}>"
