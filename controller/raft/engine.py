"""Carries out what the core decides: the driver's duties of `ready.py`, in their order.

Inputs reach the core at once; each `Ready` it returns joins a queue that one task works off, because writing
the quorum-state takes time and nothing may overtake it. Log writes are appended from that task and synced by
another one, in a thread: all that was appended while a sync ran shares the next one.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.errors import RaftFatalError
from rookery.controller.raft.messages import Response
from rookery.controller.raft.metrics import RaftMetrics
from rookery.controller.raft.ready import LogWrite, Ready, RoleChange, Send
from rookery.controller.raft.storage import RaftStorage
from rookery.core.cancellation import finish_despite_cancel
from rookery.core.clock import Clock
from rookery.core.errors import CorruptMessageError
from rookery.core.event_logging import get_logger
from rookery.core.metadata_log import SnapshotId

_log = get_logger("controller.raft")
T = TypeVar("T")
_TIMER_MIN_S = 0.001
DAMAGED_TODO = "if this goes on, check the disk of the leader and this one; the leader's next snapshot is tried, too"


class Effects(Protocol):
    """What the engine does not do itself."""

    def send(self, send: Send) -> None: ...

    def committed(self, high_watermark: int) -> None: ...

    def role_changed(self, role: RoleChange) -> None: ...

    def snapshot_installed(self, snapshot: SnapshotId) -> None: ...


class Engine:
    """The core, its storage and its timer."""

    def __init__(
        self, core: RaftCore, storage: RaftStorage, effects: Effects, clock: Clock, metrics: RaftMetrics
    ) -> None:
        self.core = core
        self.storage = storage
        self._effects = effects
        self._clock = clock
        self._metrics = metrics
        self._readies: deque[Ready] = deque()
        self._arrived = asyncio.Event()
        self._unsynced = asyncio.Event()
        self._written = 0
        self._files = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="raft-disk")
        self._timer: asyncio.TimerHandle | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def now_ms(self) -> float:
        return self._clock.monotonic() * 1000

    def input(self, act: Callable[[float], Ready]) -> None:
        """Give the core an input; what follows from it happens soon."""
        self.take(self.guard(lambda: act(self.now_ms())))

    def guard(self, act: Callable[[], T]) -> T:
        """Run `act` on the core; a broken invariant stops the node, whoever asked."""
        try:
            return act()
        except RaftFatalError as error:
            if not self._failure.done():
                self._failure.set_exception(error)
            raise

    def take(self, ready: Ready) -> None:
        """Queue what the core returned, and see to its timer."""
        self._readies.append(ready)
        self._arrived.set()
        self._arm()

    async def run(self) -> None:
        """Work until cancelled. Raises what makes it unsafe to go on."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._work(), name="raft-work")
                group.create_task(self._sync(), name="raft-sync")
                group.create_task(self._fail(), name="raft-failure")
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._thread.shutdown(wait=True)

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Run a short blocking step (an fsync) in the thread kept for that, to its end."""
        return await finish_despite_cancel(asyncio.get_running_loop().run_in_executor(self._thread, act))

    async def with_files(self, act: Callable[[], T]) -> T:
        """Change the set of the log's files while no sync is under way."""
        async with self._files:
            return act()

    def _arm(self) -> None:
        deadline_ms = self.core.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms != float("inf"):
            wait_s = max((deadline_ms - self.now_ms()) / 1000, _TIMER_MIN_S)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        late_ms = self.now_ms() - self.core.next_deadline_ms()
        held_up = late_ms >= self.core.replica.config.standstill_ms
        if held_up:
            _log.warning("raft.held_up", late_ms=round(late_ms))
        with suppress(RaftFatalError):  # `guard` has taken it down
            self.input(lambda now_ms: self.core.tick(now_ms, held_up=held_up))

    async def _fail(self) -> None:
        await self._failure

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._readies:
                await self._carry_out(self._readies.popleft())

    async def _carry_out(self, ready: Ready) -> None:
        state, chunk = ready.quorum_state, ready.snapshot_chunk
        if state is not None:
            await self.in_thread(lambda: self.storage.save_state(state))
        if chunk is not None:
            await asyncio.to_thread(self.storage.snapshots.write_chunk, chunk)
        if ready.snapshot_install is not None:
            await self._install(ready.snapshot_install)
        for write in ready.log_writes:
            await self._write(write)
        for send in ready.sends:
            self._effects.send(send)
        if ready.high_watermark is not None:
            self._effects.committed(ready.high_watermark)
        if ready.role is not None:
            self._effects.role_changed(ready.role)

    async def _write(self, write: LogWrite) -> None:
        now_ms, me = self._clock.wall_ms(), self.core.replica.me.id
        if write.truncate_to is None:
            self.storage.write(write, me, now_ms)
        else:
            await self.with_files(lambda: self.storage.write(write, me, now_ms))
        self._written = write.number
        self._unsynced.set()
        if self.core.replica.leader_id != me:
            self._metrics.fetched.add(0.0, sum(batch.count for batch in write.batches))

    async def _sync(self) -> None:
        while True:
            await self._unsynced.wait()
            self._unsynced.clear()
            started = self._clock.monotonic()
            async with self._files:
                number, job = self._written, self.storage.begin_flush()
                await self.in_thread(job.run)
                self.storage.flushed(job)
            self._metrics.fsync_ms.add((self._clock.monotonic() - started) * 1000)
            self.input(lambda now_ms, number=number: self.core.flushed(number, now_ms))  # type: ignore[misc]

    async def _install(self, snapshot: SnapshotId) -> None:
        try:
            voters = await self.in_thread(lambda: self.storage.install(snapshot))
        except CorruptMessageError as error:
            _log.error("raft.snapshot.damaged", reason=str(error), todo=DAMAGED_TODO)
            self.input(lambda now: self.core.snapshot_damaged(snapshot, now))
            return
        now_ms = self._clock.wall_ms()
        await self.with_files(lambda: self.storage.restart_at(snapshot, now_ms))
        await self.in_thread(lambda: self.storage.save_committed(snapshot.end_offset))
        self.storage.delete_before(snapshot.end_offset, now_ms)
        self.input(lambda now: self.core.snapshot_installed(snapshot, voters, now))
        self._effects.snapshot_installed(snapshot)

    # -- what happened to requests (transport.Inbox) ---------------------------------------------------------

    def received(self, response: Response) -> None:
        self.input(lambda now_ms: self.core.step(response, now_ms))

    def request_failed(self, to: int, correlation: int) -> None:
        self.input(lambda now_ms: self.core.request_failed(to, correlation, now_ms))

    def leader_connection_closed(self, leader_id: int) -> None:
        self.input(lambda now_ms: self.core.leader_connection_closed(leader_id, now_ms))
