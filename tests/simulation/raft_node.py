"""One simulated node: drives the real core in the order `ready.py` demands, on a simulated clock, disk and
network."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Protocol

from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.errors import RaftFatalError
from rookery.controller.raft.messages import (
    ANY_BOOTSTRAP,
    Batch,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    Refusal,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from rookery.controller.raft.ready import QuorumState, Ready, RoleChange, SnapshotChunk
from rookery.controller.raft.voters import ReplicaKey, VoterSet
from tests.simulation.loop import VirtualLoop
from tests.simulation.net import Network
from tests.simulation.raft_disk import RaftDisk, StoredSnapshot
from tests.simulation.raft_oracles import Oracles, Violation
from tests.simulation.raft_swarm import Swarm

CHUNK = 24
BATCHES_PER_FETCH = 20


class World(Protocol):
    loop: VirtualLoop
    network: Network
    rng: Random
    swarm: Swarm
    oracles: Oracles
    bootstrap: VoterSet
    nodes: list["SimNode"]
    core_type: type[RaftCore]
    faults_armed: bool

    def trace(self, node: int, what: int, number: int) -> None: ...
    def crashed_at(self, node: "SimNode", point: str) -> None: ...
    def acknowledged(self, node: "SimNode", offset: int) -> None: ...


class SimNode:
    def __init__(self, world: World, id: int, disk: RaftDisk) -> None:
        self.world = world
        self.id = id
        self.disk = disk
        self.lost_disks: list[RaftDisk] = []
        self.clock_rate = 1.0 + world.swarm.drift * (2 * world.rng.random() - 1)
        self.core: RaftCore | None = None
        self.paused = False
        self.thawed_ms = float("-inf")
        self.slow_until_ms = 0.0
        self.incarnation = 0
        self._reset()

    def _reset(self) -> None:
        """What a process forgets when it ends."""
        self.epoch = 0
        self.epoch_start_offset = -1
        self.is_leader = False
        self.leader_id = -1
        self.high_watermark = 0
        self.told_high_watermark = 0
        self.applied = 0
        self.chain = 0
        self.readies: deque[Ready] = deque()
        self.persisting = False
        self.syncing = False
        self.timer_ms = float("inf")
        self.inbox: list[Message] = []
        self.download = bytearray()
        self.heard_ms: dict[ReplicaKey, float] = {}
        self.votes_asked: dict[tuple[int, int], VoteRequest] = {}
        self.leading_since_ms = 0.0

    # -- life ------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self.core is not None

    def local_ms(self) -> float:
        return self.world.loop.now * self.clock_rate

    def start(self) -> None:
        if self.core is not None:
            return
        self.incarnation += 1
        self._reset()
        summary = self.disk.recover()
        if self.disk.snapshot is not None:
            self.applied = self.high_watermark = self.told_high_watermark = self.disk.snapshot.id.end_offset
            self.chain = self.disk.snapshot.read()[0]
        state = self.recovered_state()
        self.epoch = state.epoch
        self.core = self.world.core_type(
            self.disk.key,
            self.world.bootstrap,
            summary,
            state,
            self.local_ms(),
            self.world.rng.random,
            self.world.swarm.config,
        )
        self.call(self.core.tick)

    def recovered_state(self) -> QuorumState:
        return self.disk.state or QuorumState()

    def crash(self) -> None:
        """kill -9 and a power cut in one: memory is gone, and of the disk what was not fsynced may be."""
        if self.core is not None:
            self.core = None
            self.paused = False
            self.disk.cut_power(self.world.rng)
            self._reset()

    def _crashes_at(self, point: str) -> bool:
        chance = self.world.swarm.crash_points.get(point, 0.0)
        if chance and self.world.faults_armed and self.world.rng.random() < chance:
            self.world.crashed_at(self, point)
            return True
        return False

    # -- input -----------------------------------------------------------------------------------------------

    def call(self, method: Callable[..., Ready], *arguments: object) -> None:
        """Every input of the core comes this way."""
        try:
            ready = method(*arguments, self.local_ms())
        except RaftFatalError as error:
            raise Violation("fatal", f"{self.disk.key}: {type(error).__name__}: {error}") from error
        self.take(ready)

    def take(self, ready: Ready) -> None:
        for send in ready.sends:
            match send.message:
                case VoteResponse(granted=True, pre_vote=True) if self.core is not None:
                    self.world.oracles.on_pre_vote(self, self.core.replica.role)
        self.readies.append(ready)
        self.work()
        self.arm()

    def receive(self, message: Message) -> None:
        if self.core is None:
            return
        if self.paused:
            self.inbox.append(message)
            return
        match message:
            case FetchRequest() | FetchSnapshotRequest():
                self.heard_ms[message.replica] = self.world.loop.now
            case VoteRequest(pre_vote=False):
                self.votes_asked[message.sender, message.correlation] = message
        self.call(self.core.step, message)

    def arm(self) -> None:
        if self.core is None or self.paused:
            return
        due_ms = self.core.next_deadline_ms() / self.clock_rate + 0.001  # never early by a rounding error
        if due_ms < self.timer_ms:
            self.timer_ms = due_ms
            self.world.loop.at(due_ms, self._timer, self.incarnation, due_ms)

    def _timer(self, incarnation: int, due_ms: float) -> None:
        if incarnation != self.incarnation or due_ms != self.timer_ms or self.core is None or self.paused:
            return
        self.timer_ms = float("inf")
        if self.core.next_deadline_ms() <= self.local_ms():
            before = self.core.replica.epoch
            self.call(self.core.tick)
            if self.core is not None and self.core.replica.epoch > before:
                self.world.oracles.on_epoch_raised_by_time(self, self.world.network, self.world.nodes)
        else:
            self.arm()

    def pause(self) -> None:
        self.paused = True

    def thaw(self) -> None:
        if not self.paused:
            return
        self.paused = False
        self.thawed_ms = self.world.loop.now
        waiting, self.inbox = self.inbox, []
        self.timer_ms = float("inf")
        incarnation = self.incarnation
        for message in waiting:
            if incarnation == self.incarnation:
                self.receive(message)
        if self.core is not None:
            late_ms = self.local_ms() - self.core.next_deadline_ms()
            held_up = late_ms >= self.core.replica.config.standstill_ms
            self.call(partial(self.core.tick, held_up=held_up))

    # -- carrying out, in order ------------------------------------------------------------------------------

    def work(self) -> None:
        while self.readies and not self.persisting and self.core is not None:
            ready = self.readies[0]
            if ready.quorum_state is None:
                self.readies.popleft()
                self.carry_out(ready)
            elif self._crashes_at("before-vote"):
                return
            else:
                self.persisting = True
                self.world.loop.after(self._fsync_ms(), self._persisted, self.incarnation, ready.quorum_state)

    def _persisted(self, incarnation: int, state: QuorumState) -> None:
        if incarnation != self.incarnation or self.core is None:
            return
        self.persist(state)
        if self._crashes_at("after-vote"):
            return
        self.persisting = False
        self.carry_out(self.readies.popleft())
        self.work()

    def persist(self, state: QuorumState) -> None:
        self.world.oracles.on_state(self.disk.key, state)
        self.disk.state = state

    def carry_out(self, ready: Ready) -> None:
        incarnation = self.incarnation
        if ready.snapshot_chunk is not None:
            self._take_chunk(ready.snapshot_chunk)
        if ready.snapshot_install is not None:
            self.world.loop.after(self._fsync_ms(), self._install, incarnation, ready.snapshot_install)
        for write in ready.log_writes:
            self._write(write.truncate_to, write.batches)
            self.disk.write(write)
        for send in ready.sends:
            self._send(send.to, send.message)
        if any(_is_vote(send.message) for send in ready.sends) and self._crashes_at("vote-sent"):
            return
        if ready.log_writes:
            self._sync()
        if ready.role is not None:
            self._take_role(ready.role)
        if ready.high_watermark is not None:
            self._commit(ready.high_watermark)

    def _write(self, truncate_to: int | None, batches: tuple[Batch, ...]) -> None:
        oracles = self.world.oracles
        if truncate_to is not None:
            removed = [batch for batch in self.disk.batches if batch.base_offset >= truncate_to]
            oracles.on_truncate(self, removed, truncate_to)
        end = self.disk.end_offset if truncate_to is None else truncate_to
        chain = self.chain_below(end) if batches else 0
        if chain is None:
            raise Violation("R4", f"{self.disk.key} appends at {end}, in the middle of a batch")
        for batch in batches:
            if batch.voters is not None and self.is_leader and batch.epoch == self.epoch:
                oracles.on_voter_change(self, batch, *self.voters_in_log(), self.world.nodes)
            chain = oracles.on_append(self, batch, chain)

    def chain_below(self, end: int) -> int | None:
        """The hash of the log below `end`; None if it does not reach so far."""
        known = self.world.oracles
        if end <= self.disk.start_offset:
            return known.chain_at.get(end)
        for batch in reversed(self.disk.batches):
            if batch.end_offset == end:
                return known.chains[batch.base_offset, batch.epoch]
            if batch.end_offset < end:
                return None
        return None

    def voters_in_log(self) -> tuple[VoterSet, int]:
        """The voter set in force by the records on this node's disk, and where it stands."""
        offset, voters = next(iter(reversed(list(self.disk.voter_sets()))), (-1, self.world.bootstrap))
        return voters, offset

    # -- disk ------------------------------------------------------------------------------------------------

    def _fsync_ms(self) -> float:
        mean = self.world.swarm.fsync_mean_ms
        slow = 50.0 if self.world.loop.now < self.slow_until_ms else 1.0
        longest = self.world.swarm.config.fetch_timeout_ms
        return min(self.world.rng.expovariate(1.0) * mean * slow, longest) if mean else 0.0

    def _sync(self) -> None:
        if self.syncing or not self.disk.waiting:
            return
        self.syncing = True
        number = self.disk.waiting[-1].number
        self.world.loop.after(self._fsync_ms(), self._synced, self.incarnation, number)

    def _synced(self, incarnation: int, number: int) -> None:
        if incarnation != self.incarnation or self.core is None or self._crashes_at("before-fsync"):
            return
        self.disk.sync(number)
        self.syncing = False
        if self._crashes_at("after-fsync"):
            return
        if self.paused:
            self.world.loop.after(5.0, self._report_flushed, incarnation, number)
        else:
            self._report_flushed(incarnation, number)
        if incarnation == self.incarnation:
            self._sync()

    def _report_flushed(self, incarnation: int, number: int) -> None:
        if incarnation != self.incarnation or self.core is None:
            return
        if self.paused:
            self.world.loop.after(5.0, self._report_flushed, incarnation, number)
            return
        self.call(self.core.flushed, number)

    # -- network ---------------------------------------------------------------------------------------------

    def _send(self, to: int, message: Message) -> None:
        match message:
            case FetchResponse() if message.read_until > message.fetch_offset:
                batches = self.disk.read(message.fetch_offset, message.read_until, BATCHES_PER_FETCH)
                message = replace(message, batches=batches)
            case FetchSnapshotResponse(refusal=Refusal.NONE):
                message = self._with_chunk(message)
            case VoteResponse(granted=True, pre_vote=False):
                asked = self.votes_asked.get((to, message.correlation))
                if asked is not None:
                    self.world.oracles.on_vote(self, asked, message)
        if to == ANY_BOOTSTRAP:
            to = self.world.rng.choice([node.id for node in self.world.nodes])
        self.world.network.send(self.id, to, message)
        target = self.world.nodes[to]
        if not target.is_running and isinstance(message, VoteRequest | FetchRequest | FetchSnapshotRequest):
            refused = (self._refused, self.incarnation, to, message.correlation)
            self.world.loop.after(self.world.swarm.network.delay_mean_ms, *refused)

    def _refused(self, incarnation: int, to: int, correlation: int) -> None:
        if incarnation == self.incarnation and self.core is not None and not self.paused:
            self.call(self.core.request_failed, to, correlation)

    def leader_connection_closed(self, leader_id: int) -> None:
        if self.core is not None and not self.paused and self.leader_id == leader_id:
            self.call(self.core.leader_connection_closed, leader_id)

    # -- committing ------------------------------------------------------------------------------------------

    def _take_role(self, role: RoleChange) -> None:
        became_leader = role.role == "leader" and not (self.is_leader and self.epoch == role.epoch)
        self.epoch = role.epoch
        self.leader_id = role.leader_id
        self.is_leader = role.role == "leader"
        self.epoch_start_offset = role.epoch_start_offset
        self.world.trace(self.id, 1, role.epoch)
        if became_leader:
            self.leading_since_ms = self.world.loop.now
            self.heard_ms.clear()
            self.world.oracles.on_leader(self, role.epoch)

    def _commit(self, high_watermark: int) -> None:
        oracles = self.world.oracles
        if high_watermark <= self.applied and high_watermark > self.high_watermark:
            self.high_watermark = self.told_high_watermark = high_watermark  # a snapshot brought it
            return
        oracles.on_high_watermark(self, self.high_watermark, high_watermark)
        self.world.trace(self.id, 2, high_watermark)
        self.high_watermark = self.told_high_watermark = high_watermark
        newly = self.disk.read(self.applied, high_watermark, 1_000_000)
        if newly and self.is_leader:
            oracles.on_leader_commit(self, newly[-1], self.world.nodes)
        for batch in newly:
            self.chain = oracles.on_apply(self, batch, self.chain)
            self.applied = batch.end_offset
        if self.applied != high_watermark:
            raise Violation("R6", f"{self.disk.key} has applied {self.applied}, but {high_watermark} is committed")
        if self.is_leader:
            self.world.acknowledged(self, high_watermark)
        self._maybe_snapshot()

    # -- snapshots -------------------------------------------------------------------------------------------

    def _maybe_snapshot(self) -> None:
        every = self.world.swarm.snapshot_every
        newest = self.disk.snapshot.id.end_offset if self.disk.snapshot else 0
        # In the end there are no more: so often that none can be downloaded in time would be a fault of its
        # own.
        if every and self.world.faults_armed and self.applied - newest >= every:
            self.world.loop.after(self._fsync_ms(), self._write_snapshot, self.incarnation)

    def _write_snapshot(self, incarnation: int) -> None:
        if incarnation != self.incarnation or self.core is None or self.paused or self.core.replica.installing:
            return
        newest = self.disk.snapshot.id.end_offset if self.disk.snapshot else 0
        end, chain = self.snapshot_point()
        if end <= newest:
            return
        epoch = next(batch.epoch for batch in reversed(self.disk.batches) if batch.end_offset == end)
        snapshot = StoredSnapshot.of(SnapshotId(end, epoch), chain, self.core.voters_at(end), self.id)
        self.world.oracles.on_snapshot(self, snapshot)
        self.disk.store(snapshot)
        start = max(newest, self.disk.start_offset) if self.world.swarm.keep_log else end
        self.call(self.core.snapshot_written, snapshot.id, start)
        self.disk.trim(start)
        self.world.oracles.on_trim(self)

    def snapshot_point(self) -> tuple[int, int]:
        """Where a snapshot would end now, and the state there."""
        return self.applied, self.chain

    def _with_chunk(self, response: FetchSnapshotResponse) -> FetchSnapshotResponse:
        for kept in self.disk.snapshots:
            if kept.id == response.snapshot:
                chunk = kept.content[response.position : response.position + CHUNK]
                return replace(response, size=len(kept.content), chunk=chunk)
        return replace(response, refusal=Refusal.SNAPSHOT_NOT_FOUND)

    def _take_chunk(self, chunk: SnapshotChunk) -> None:
        del self.download[chunk.position :]
        self.download += chunk.chunk

    def _install(self, incarnation: int, id: SnapshotId) -> None:
        if incarnation != self.incarnation or self.core is None:
            return
        if self.paused:
            self.world.loop.after(5.0, self._install, incarnation, id)
            return
        snapshot = StoredSnapshot(id, bytes(self.download))
        if self._crashes_at("before-install"):
            return
        self.world.oracles.on_install(self, snapshot)
        self.disk.store(snapshot)
        if self._crashes_at("mid-install"):
            return
        self.disk.restart_log()
        if self._crashes_at("after-install"):
            return
        self.world.oracles.on_trim(self)
        self.chain, voters = snapshot.read()
        self.applied = id.end_offset
        self.call(self.core.snapshot_installed, id, voters)


def _is_vote(message: Message) -> bool:
    return isinstance(message, VoteResponse) and message.granted and not message.pre_vote
