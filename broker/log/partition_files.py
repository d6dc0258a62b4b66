"""The one owner of a partition's files: it decides who may work on them at the same time.

Code that hands work on the files to a thread, or leaves them half changed while it waits, holds a lease. Leases of
readers (a flush, the cleaner, a snapshot, a scrubber) are shared; who cuts the log, renames its segments or takes the
folder away has the files alone. Requests are served in order; those in a hurry come first and ask the holders to give
up, which long readers do between two steps. Once closed, the files are not used any more: later requests are refused
with `FilesClosed`.

Appends and reads happen on the event loop in one step and need no lease: the replica keeps them away while its log is
being cut, and a closed log refuses them. All methods are for the event loop; only `Lease.revoked` is for threads.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from rookery.core.cancellation import finish_despite_cancel
from rookery.core.log import LogClosed

T = TypeVar("T")


class FilesClosed(LogClosed):
    """The replica was taken away, or the broker stops: what was to be done to its files is not needed any more."""

    def __init__(self, purpose: str) -> None:
        super().__init__(f"no {purpose}: the replica was removed or its broker stops")


class Lease:
    """Permission to work on the files. `revoked` is set when others need them soon: long work then ends itself."""

    __slots__ = ("alone", "purpose", "revoked")

    def __init__(self, purpose: str, *, alone: bool) -> None:
        self.purpose = purpose
        self.alone = alone
        self.revoked = threading.Event()

    async def run(self, thread: Executor, work: Callable[[], T]) -> T:
        """Do blocking work in a thread. The lease lasts as long as the work, also if the caller is cancelled."""
        job = asyncio.get_running_loop().run_in_executor(thread, work)
        return await finish_despite_cancel(job, self.revoked.set)


class _Request(NamedTuple):
    lease: Lease
    granted: "asyncio.Future[None]"


class PartitionFiles:
    """The leases of one partition. `on_free` is called whenever a lease for one alone has ended."""

    __slots__ = ("_drained", "_leases", "_requests", "closed", "on_free")

    def __init__(self) -> None:
        self.closed = False
        self.on_free: Callable[[], None] = lambda: None
        self._leases: list[Lease] = []  # both are short; a set and a deque take 1 KB more in each partition
        self._requests: list[_Request] = []
        self._drained: asyncio.Future[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether the files are unused."""
        return not self._leases and not self._requests

    @property
    def shareable(self) -> bool:
        """Whether a reader would be let in at once."""
        return self.readable and not self._requests

    @property
    def readable(self) -> bool:
        """Whether the files are not being changed now, though a change may be waiting."""
        return not self.closed and not any(lease.alone for lease in self._leases)

    # -- leases

    @asynccontextmanager
    async def shared(self, purpose: str) -> AsyncIterator[Lease]:
        """Read the files, beside other readers."""
        lease = await self._obtain(Lease(purpose, alone=False), hurry=False)
        try:
            yield lease
        finally:
            self.give_back(lease)

    @asynccontextmanager
    async def alone(self, purpose: str, *, hurry: bool = False) -> AsyncIterator[Lease]:
        """Change the files while they are not used otherwise. In a `hurry` the present holders are asked to give up."""
        lease = await self._obtain(Lease(purpose, alone=True), hurry=hurry)
        try:
            yield lease
        finally:
            self.give_back(lease)

    def try_shared(self, purpose: str) -> Lease | None:
        """The lease of a reader if it can be had at once; the caller gives it back. It passes those who wait, for
        records are acknowledged when it is done, and they may wait long for another reader. Whoever takes such leases
        one after the other, as the flush does, holds nobody up for longer than one."""
        if not self.readable:
            return None
        lease = Lease(purpose, alone=False)
        self._leases.append(lease)
        return lease

    def give_back(self, lease: Lease) -> None:
        self._end(lease)
        self._grant()
        if lease.alone:
            self.on_free()

    async def close(self) -> None:
        """Grant no more leases, ask the holders to give up, and wait for them."""
        self.closed = True
        self._revoke()
        while self._requests:
            request = self._requests.pop(0)
            if not request.granted.done():
                request.granted.set_exception(FilesClosed(request.lease.purpose))
        while self._leases:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    # -- who is next

    async def _obtain(self, lease: Lease, *, hurry: bool) -> Lease:
        if self.closed:
            raise FilesClosed(lease.purpose)
        request = _Request(lease, asyncio.get_running_loop().create_future())
        if hurry:
            self._revoke()
            self._requests.insert(0, request)
        else:
            self._requests.append(request)
        self._grant()
        try:
            await request.granted
        except BaseException:
            if request in self._requests:
                self._requests.remove(request)
            self._end(lease)
            self._grant()
            if lease.alone:
                self.on_free()
            raise
        return lease

    def _end(self, lease: Lease) -> None:
        if lease in self._leases:
            self._leases.remove(lease)

    def _revoke(self) -> None:
        for lease in self._leases:
            lease.revoked.set()

    def _grant(self) -> None:
        """Grant the waiting requests in order, as far as they do not conflict with leases that are held."""
        while self._requests:
            request = self._requests[0]
            if request.lease.alone and self._leases:
                break
            if any(lease.alone for lease in self._leases):
                break
            self._requests.pop(0)
            if not request.granted.done():
                self._leases.append(request.lease)
                request.granted.set_result(None)
        if not self._leases and self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
