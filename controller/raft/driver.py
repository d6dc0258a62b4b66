"""The shell around the pure core: everything that a running replica does.

    inputs                          core      Ready, carried out in one order (`_carry_out`)
    messages of peers  (step)     ┐          ┌ 1 quorum-state: written and synced
    time               (_tick)    │          │ 2 snapshot, log: written
    proposals, changes of voters  ├─► core ─►┤ 3 messages: sent
    answers of the disk (_sync)   │          │ 4 log: synced meanwhile by `_sync`, an input for the core
    lost requests                 ┘          │ 5 committed records: applied, and who waits for them answered
                                             └ 6 role: reported

An input reaches the core at once. Each `Ready` that the core returns joins a queue, which one task works off: writing
takes time, and nothing may overtake it. All that was appended while a sync ran shares the next one. Every task of the
replica belongs to the one task group of `_run`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from typing import Any, TypeVar

from rookery.controller.raft import messages as m
from rookery.controller.raft.answers import FETCH_BYTES_MAX, Answer, Calls, Commits
from rookery.controller.raft.batches import data_batch
from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.delivery import Delivery
from rookery.controller.raft.election import is_first
from rookery.controller.raft.errors import MetadataDamagedError, RaftFatalError, RaftRefusedError
from rookery.controller.raft.metrics import RaftMetrics
from rookery.controller.raft.ready import LogWrite, Ready, RoleChange
from rookery.controller.raft.roles import Candidate, Prospective
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.raft.storage import RaftStorage
from rookery.controller.raft.translation import CallerIdentity
from rookery.controller.raft.transport import Transport
from rookery.core.cancellation import finish_despite_cancel
from rookery.core.clock import Clock
from rookery.core.errors import CorruptMessageError, NotControllerError, RecordListTooLargeError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import FeatureRange
from rookery.core.metadata_log import SnapshotId
from rookery.core.net.control import Control

_log = get_logger("controller.raft")
T = TypeVar("T")
LEADER = "leader"
HANDOVER_EXTRA_S = 1.0
_TIMER_MIN_S = 0.001
DAMAGED_TODO = "if this goes on, check the disk of the leader and this one; the leader's next snapshot is tried, too"
ROTTEN_TODO = "check the disk of this node; where others vote, rebuild the node from them"
UNREADABLE_TODO = "check the disk of this node; it is read again, and other replicas wait for what it cannot give"
CHECK_AGAIN_S = 10.0
"""Damage and read errors are looked for, and reported, at most this often."""
REDUNDANT = 3
"""So many voters do without one of them."""
UNWRITTEN_TODO = "free or repair the disk; until a snapshot succeeds, the metadata log grows"
START_ALL = "start all of controller.quorum.voters: the first leader of a new quorum needs the votes of all of them"


class _StoppedError(Exception):
    """The node stops before a snapshot is complete; what there is of it is removed at the next start."""


class _UntilStopped:
    """The values of a snapshot, which a thread iterates over, until it is stopped."""

    def __init__(self, values: Iterable[bytes]) -> None:
        self._values = values
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def __iter__(self) -> Iterator[bytes]:
        for value in self._values:
            if self._stopped:
                raise _StoppedError
            yield value


class Driver:
    """One started replica: the core, its files, its peers and those who wait for it."""

    def __init__(
        self,
        settings: RaftSettings,
        core: RaftCore,
        storage: RaftStorage,
        *,
        caller: Callable[[], CallerIdentity],
        clock: Clock,
        metrics: RaftMetrics,
        control: Control,
    ) -> None:
        """`caller` gives the sender's identity and the protocol version for calls to peers."""
        self.settings = settings
        self.core = core
        self.storage = storage
        self.calls = Calls(storage, self._damaged, self._unreadable, self._downloads)
        self.commits = Commits(clock, metrics)
        self.delivery = Delivery(storage)
        self.transport = Transport(
            caller,
            settings.raft,
            self,
            me=settings.node_id,
            endpoints=settings.endpoints,
            bootstrap=settings.bootstrap,
            tls=settings.tls,
            control=control,
        )
        self.features: dict[int, Sequence[FeatureRange]] = {}
        """What voters reported of their releases when they fetched."""
        self._clock = clock
        self._metrics = metrics
        self.task: asyncio.Task[None]
        """Runs while the replica does; ends with the exception that makes it unsafe to go on."""
        self._group = asyncio.TaskGroup()
        self._readies: deque[Ready] = deque()
        self._arrived = asyncio.Event()
        self._unsynced = asyncio.Event()
        self._written = 0
        self._files = asyncio.Lock()
        """Held while the log is synced, and while the set of its files changes."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="raft-disk")
        self._timer: asyncio.TimerHandle | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._role: RoleChange | None = None
        self._not_leading = asyncio.Event()
        self._not_leading.set()
        self._leaderless_since: float | None = clock.monotonic()
        """A node that has just started knows no leader, even if it elects itself before it says anything."""
        self._missing: list[int] = []
        self._writing_snapshot = False
        self._checked: tuple[SnapshotId | None, float] = (None, 0.0)
        self._checking = False
        self._next_damage_report = -inf

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.task = asyncio.create_task(self._run(), name="raft-driver")
        self._input(self.core.tick)

    async def stop(self) -> BaseException | None:
        """Hand leadership over and end all tasks; `close` must follow. Returns what had ended them before."""
        if not self.task.done():
            await self._hand_over()
        self.task.cancel()
        await asyncio.wait([self.task])
        return None if self.task.cancelled() else self.task.exception()

    async def close(self) -> None:
        """Close connections and files."""
        await self.transport.close()
        await asyncio.to_thread(self.storage.close)

    async def _run(self) -> None:
        """Work until cancelled. Raises what makes it unsafe to go on."""
        try:
            async with self._group as group:
                group.create_task(self._work(), name="raft-work")
                group.create_task(self._sync(), name="raft-sync")
                group.create_task(self._fail(), name="raft-failure")
                group.create_task(self.delivery.run(), name="raft-delivery")
                group.create_task(self._housekeeping(), name="raft-housekeeping")
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._thread.shutdown(wait=True)

    async def _hand_over(self) -> None:
        """Give up leadership, for a successor if there is one, and wait until the others know."""
        self._input(lambda now_ms: self.core.transfer_leadership(now_ms, for_good=True))
        patience_s = self.settings.raft.election_timeout_ms / 1000 + HANDOVER_EXTRA_S
        try:
            async with asyncio.timeout(patience_s):
                await self._not_leading.wait()
        except TimeoutError:
            _log.warning("raft.handover.failed", node=self.settings.node_id, waited_s=patience_s)
        await self.transport.drain(patience_s)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start `work` with this replica's tasks. Once these are being cancelled it is dropped: it would be, too."""
        try:
            self._group.create_task(work)
        except RuntimeError:
            work.close()

    # -- inputs ----------------------------------------------------------------------------------------------

    def now_ms(self) -> float:
        return self._clock.monotonic() * 1000

    def to_wall_ms(self) -> float:
        """What turns a time of the core into one of the wall clock, when added."""
        return self._clock.wall_ms() - self.now_ms()

    def _input(self, act: Callable[[float], Ready]) -> None:
        """Give the core an input; what follows from it happens soon."""
        self._take(self._guard(lambda: act(self.now_ms())))

    def _guard(self, act: Callable[[], T]) -> T:
        """Run `act` on the core; a broken invariant stops the node, whatever the input."""
        try:
            return act()
        except RaftFatalError as error:
            if not self._failure.done():
                self._failure.set_exception(error)
            raise

    def _take(self, ready: Ready) -> None:
        """Queue what the core returned, and set its timer."""
        self._readies.append(ready)
        self._arrived.set()
        deadline_ms = self.core.next_deadline_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms != float("inf"):
            wait_s = max((deadline_ms - self.now_ms()) / 1000, _TIMER_MIN_S)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _damaged(self, error: MetadataDamagedError) -> None:
        """Another replica needs data that is damaged here. This node ends if the other voters can go on without it,
        since the next leader can give the data; otherwise it stays, as the only one that has the rest."""
        self._report_damage("raft.metadata.damaged", error, ROTTEN_TODO)
        self._end_if_redundant(error)

    def _unreadable(self, error: Exception) -> None:
        """The disk did not give what another replica asked for. It may the next time, but another leader can give it
        now."""
        self._report_damage("raft.metadata.unreadable", error, UNREADABLE_TODO)
        self._end_if_redundant(error)

    def _report_damage(self, event: str, error: Exception, todo: str) -> None:
        now = self._clock.monotonic()
        if now >= self._next_damage_report:
            self._next_damage_report = now + CHECK_AGAIN_S
            _log.error(event, reason=str(error), todo=todo)

    def _end_if_redundant(self, error: Exception) -> None:
        if len(self.core.replica.voters) >= REDUNDANT and not self._failure.done():
            self._failure.set_exception(error)

    def _downloads(self, snapshot: SnapshotId) -> None:
        now, (last, checked_at) = self._clock.monotonic(), self._checked
        if not self._checking and (snapshot != last or now - checked_at > CHECK_AGAIN_S):
            self._checked = (snapshot, now)
            self._checking = True
            self.spawn(self._check(snapshot))

    async def _check(self, snapshot: SnapshotId) -> None:
        """When its download begins: a snapshot may rot after it was written. A disk that does not give it is asked
        again, for as long as the snapshot is the latest: the node that downloads it checks it, too."""
        try:
            while snapshot == self.storage.latest_snapshot:
                if await self._is_checked(snapshot):
                    return
                await asyncio.sleep(CHECK_AGAIN_S)
        finally:
            self._checking = False

    async def _is_checked(self, snapshot: SnapshotId) -> bool:
        try:
            await finish_despite_cancel(asyncio.to_thread(self.storage.check_snapshot, snapshot))
        except MetadataDamagedError as error:
            self._damaged(error)
        except OSError as error:
            self._report_damage("raft.metadata.unreadable", error, UNREADABLE_TODO)
            return False
        return True

    def _tick(self) -> None:
        self._timer = None
        late_ms = self.now_ms() - self.core.next_deadline_ms()
        held_up = late_ms >= self.settings.raft.standstill_ms
        if held_up:
            _log.warning("raft.held_up", late_ms=round(late_ms))
        with suppress(RaftFatalError):  # `_guard` has noted it
            self._input(lambda now_ms: self.core.tick(now_ms, held_up=held_up))

    async def ask(
        self, request: Callable[[int], m.Request], *, held_ms: int = 0, max_bytes: int = 0
    ) -> Answer:
        """The core's answer to a request of a peer, made by `request` with the correlation given. TimeoutError if there
        is none in time; the core may hold a fetch back for `held_ms`."""

        def step(correlation: int) -> None:
            message = request(correlation)
            self._input(lambda now_ms: self.core.step(message, now_ms))

        timeout_s = (self.settings.raft.request_timeout_ms + held_ms) / 1000
        return await self.calls.answer(step, timeout_s=timeout_s, max_bytes=max_bytes)

    def received(self, response: m.Response) -> None:
        """A peer answered (`transport.Inbox`)."""
        self._input(lambda now_ms: self.core.step(response, now_ms))

    def request_failed(self, to: int, correlation: int) -> None:
        self._input(lambda now_ms: self.core.request_failed(to, correlation, now_ms))

    def leader_connection_closed(self, leader_id: int) -> None:
        self._input(lambda now_ms: self.core.leader_connection_closed(leader_id, now_ms))

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        """See `controller.quorum.Quorum`."""
        batch = data_batch(values, self._clock.wall_ms())
        if len(batch) > FETCH_BYTES_MAX:
            raise RecordListTooLargeError(f"{len(values)} values of {len(batch)} bytes; at most {FETCH_BYTES_MAX}")
        try:
            offset = self.change(lambda now_ms: self.core.propose(epoch, len(values), batch, now_ms))
        except RaftRefusedError as error:
            raise NotControllerError(str(error)) from error
        self.commits.proposed(offset, len(values))
        return offset

    def change(self, act: Callable[[float], tuple[int, Ready]]) -> int:
        """Have the core append something; the offset to wait for with `commits`. Raises RaftRefusedError."""
        offset, ready = self._guard(lambda: act(self.now_ms()))
        self._take(ready)
        return offset

    # -- what the core decided -------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._readies:
                await self._carry_out(self._readies.popleft())

    async def _carry_out(self, ready: Ready) -> None:
        """The duties that `ready.py` lists, in their order."""
        state, chunk = ready.quorum_state, ready.snapshot_chunk
        if state is not None:
            await self._in_thread(lambda: self.storage.save_state(state))
        if chunk is not None:
            await finish_despite_cancel(asyncio.to_thread(self.storage.snapshots.write_chunk, chunk))
        if ready.snapshot_install is not None:
            await self._install(ready.snapshot_install)
        for write in ready.log_writes:
            await self._write(write)
        for send in ready.sends:
            if isinstance(send.message, m.Response):
                self.calls.respond(send.message)
            else:
                self.transport.send(send, self.spawn)
        if ready.high_watermark is not None:
            self.commits.committed(ready.high_watermark)
            self.delivery.committed(ready.high_watermark)
        if ready.role is not None:
            self._role_changed(ready.role)

    async def _write(self, write: LogWrite) -> None:
        now_ms, me = self._clock.wall_ms(), self.settings.node_id
        if write.truncate_to is None:
            self.storage.write(write, me, now_ms)
        else:
            async with self._files:
                self.storage.write(write, me, now_ms)
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
                await self._in_thread(job.run)
                self.storage.flushed(job)
            self._metrics.fsync_ms.add((self._clock.monotonic() - started) * 1000)
            self._input(lambda now_ms, number=number: self.core.flushed(number, now_ms))  # type: ignore[misc]

    async def _install(self, snapshot: SnapshotId) -> None:
        """The leader's snapshot takes the place of the log."""
        try:
            voters = await self._in_thread(lambda: self.storage.install(snapshot))
        except CorruptMessageError as error:
            _log.error("raft.snapshot.damaged", reason=str(error), todo=DAMAGED_TODO)
            self._input(lambda now: self.core.snapshot_damaged(snapshot, now))
            return
        now_ms = self._clock.wall_ms()
        async with self._files:
            self.storage.restart_at(snapshot, now_ms)
        await self._in_thread(lambda: self.storage.save_committed(snapshot.end_offset))
        self.storage.delete_before(snapshot.end_offset, now_ms)
        self._input(lambda now: self.core.snapshot_installed(snapshot, voters, now))
        _log.info("raft.snapshot.installed", end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        self.delivery.snapshot_installed()

    def _role_changed(self, now: RoleChange) -> None:
        before, self._role = self._role, now
        self._log_change(before, now)
        if now.role == LEADER:
            self._not_leading.clear()
        elif not self._not_leading.is_set():
            self._not_leading.set()
            self.commits.leadership_lost()
        if before is None or (before.leader_id, before.epoch) != (now.leader_id, now.epoch):
            self.delivery.leader(now.leader_id, now.epoch, now.epoch_start_offset)

    def _log_change(self, before: RoleChange | None, now: RoleChange) -> None:
        node = self.settings.node_id
        if before is None or before.voters != now.voters:
            voters = [f"{voter.key}@{voter.endpoint}" for voter in now.voters]
            _log.info("raft.voters", node=node, epoch=now.epoch, voters=voters)
        if before is None or (before.role, before.epoch, before.leader_id) != (now.role, now.epoch, now.leader_id):
            _log.info("raft.role", node=node, role=now.role, epoch=now.epoch, leader=now.leader_id)
        clock = self._clock.monotonic()
        if now.leader_id == m.NO_LEADER:
            self._leaderless_since = self._leaderless_since or clock
        elif self._leaderless_since is not None:
            self._metrics.election_latency_ms.add((clock - self._leaderless_since) * 1000)
            self._leaderless_since = None

    async def _in_thread(self, act: Callable[[], T]) -> T:
        """Run a short blocking step (an fsync) in the thread kept for that, to its end."""
        return await finish_despite_cancel(asyncio.get_running_loop().run_in_executor(self._thread, act))

    async def _fail(self) -> None:
        await self._failure

    # -- snapshots of the application ------------------------------------------------------------------------

    def write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        """Begin to write what the application made; a thread iterates over `values`. ValueError unless it ends at a
        committed record of its epoch. One at a time: a second one is dropped."""
        committed, storage = self.core.replica.high_watermark, self.storage
        if snapshot.end_offset > committed:
            raise ValueError(f"snapshot end {snapshot.end_offset} is past the committed {committed}")
        if snapshot.end_offset > storage.start_offset and storage.epoch_before(snapshot.end_offset) != snapshot.epoch:
            raise ValueError(f"the record before {snapshot.end_offset} is not of epoch {snapshot.epoch}")
        self.spawn(self._write_snapshot(snapshot, values))

    async def _write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        if self._writing_snapshot or not self._is_newest(snapshot):
            return
        self._writing_snapshot = True
        now_ms, voters = self._clock.wall_ms(), self.core.voters_at(snapshot.end_offset)
        wanted = _UntilStopped(values)
        work = asyncio.to_thread(self.storage.snapshots.write, snapshot, voters, wanted, now_ms)
        try:
            await finish_despite_cancel(work, wanted.stop)
        except OSError as error:  # the log has everything; the next one is tried
            _log.error("raft.snapshot.failed", end_offset=snapshot.end_offset, reason=str(error), todo=UNWRITTEN_TODO)
        else:
            if self._is_newest(snapshot):  # or a newer one came from the leader meanwhile
                await self._release_log(snapshot, now_ms)
        finally:
            self._writing_snapshot = False

    async def _release_log(self, snapshot: SnapshotId, now_ms: int) -> None:
        """Delete what a written snapshot makes superfluous. The last two are kept, and the log since the older one, so
        that a follower that is a little behind need not download a snapshot."""
        storage = self.storage
        previous, storage.latest_snapshot = storage.latest_snapshot, snapshot
        start = storage.start_offset if previous is None else previous.end_offset
        self._input(lambda now: self.core.snapshot_written(snapshot, start, now))
        async with self._files:
            storage.delete_before(start, now_ms)
        storage.roll(now_ms)
        _log.info("raft.snapshot", end_offset=snapshot.end_offset, epoch=snapshot.epoch, log_start=start)

    def _is_newest(self, snapshot: SnapshotId) -> bool:
        latest = self.storage.latest_snapshot
        return latest is None or snapshot.end_offset > latest.end_offset

    # -- housekeeping ----------------------------------------------------------------------------------------

    async def _housekeeping(self) -> None:
        """Save now and then how much is committed, and report which voters a new quorum waits for."""
        noted, replica = 0, self.core.replica
        while True:
            await asyncio.sleep(self.settings.checkpoint_interval_ms / 1000)
            self._report_missing_voters()
            high_watermark = min(replica.high_watermark, self.storage.flushed_offset)
            if high_watermark > noted and replica.installing is None:
                await self._in_thread(lambda offset=high_watermark: self.storage.save_committed(offset))  # type: ignore[misc]
                noted = high_watermark

    def _report_missing_voters(self) -> None:
        replica = self.core.replica
        ballot = replica.role.ballot if isinstance(replica.role, Prospective | Candidate) else None
        missing = [] if ballot is None else [voter.id for voter in replica.voters if voter.id not in ballot.granted]
        if missing and is_first(replica) and missing != self._missing:
            _log.warning("raft.first_election.waits", node=replica.me.id, voters=missing, todo=START_ALL)
            self._missing = missing
