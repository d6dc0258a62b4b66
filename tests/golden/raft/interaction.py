"""A quorum moved by hand: each command is one step, everything the cores decide is written down.

Nothing happens by itself: messages wait until they are delivered or dropped, time passes when a command
says so. Fsyncs complete at once unless `hold-fsync` is on for a node. Random numbers are always 0.5.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.errors import RaftFatalError, RaftRefusedError
from rookery.controller.raft.messages import (
    Batch,
    BatchKind,
    BeginEpochRequest,
    EndEpochRequest,
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
from rookery.controller.raft.ready import QuorumState, Ready
from rookery.controller.raft.settings import RaftConfig
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from tests.simulation.raft_disk import RaftDisk, StoredSnapshot

STABLE_AFTER = 300
CHUNK = 40


@dataclass(slots=True)
class Node:
    disk: RaftDisk
    core: RaftCore | None = None
    holds_fsync: bool = False
    download: bytearray = field(default_factory=bytearray)


class Interaction:
    def __init__(self) -> None:
        self.now_ms = 0.0
        self.nodes: dict[int, Node] = {}
        self.under_way: list[tuple[int, int, Message]] = []
        self.bootstrap = VoterSet()
        self._out: list[str] = []
        self._directories = 100

    def run(self, line: str) -> str:
        """Carry out one command and return what happened."""
        name, *arguments = line.split()
        self._out = []
        command: Callable[..., None] = getattr(self, "do_" + name.replace("-", "_"))
        try:
            command(*arguments)
        except RaftRefusedError as error:
            self._say(f"refused: {type(error).__name__}: {error}")
        except RaftFatalError as error:
            self._say(f"FATAL: {type(error).__name__}: {error}")
        return "\n".join(self._out) or "nothing"

    def _say(self, text: str) -> None:
        self._out.append(text)

    # -- commands: nodes -------------------------------------------------------------------------------------

    def do_nodes(self, voters: str, spares: str = "", unpinned: str = "") -> None:
        """nodes 1,2,3 [4,5] [unpinned]: create and start voters and observers."""
        ids = [int(id) for id in voters.split(",")]
        keys = [ReplicaKey(id, UUID(int=id)) for id in ids]
        loose = "unpinned" in (spares, unpinned)
        self.bootstrap = VoterSet(Voter(ReplicaKey(key.id, UNKNOWN_DIRECTORY) if loose else key) for key in keys)
        extra = [int(id) for id in spares.split(",")] if spares and spares != "unpinned" else []
        for id in (*ids, *extra):
            self.nodes[id] = Node(RaftDisk(ReplicaKey(id, UUID(int=id))))
            self.do_start(str(id))

    def do_start(self, id: str) -> None:
        node = self.nodes[int(id)]
        node.core = RaftCore(
            node.disk.key,
            self.bootstrap,
            node.disk.recover(),
            node.disk.state or QuorumState(),
            self.now_ms,
            lambda: 0.5,
            RaftConfig(),
        )
        self._do(int(id), node.core.tick(self.now_ms))

    def do_crash(self, id: str) -> None:
        """The node stops; what it has not fsynced is lost."""
        node = self.nodes[int(id)]
        node.core = None
        node.disk.batches, node.disk.waiting = list(node.disk.synced), []
        self._say(f"{id} is down, its log ends at {node.disk.end_offset}")

    def do_wipe(self, id: str) -> None:
        """The node stops and gets a new disk."""
        self._directories += 1
        self.nodes[int(id)] = Node(RaftDisk(ReplicaKey(int(id), UUID(int=self._directories))))
        self._say(f"{id} is down, its disk is empty and named {self._directories:x}")

    def do_hold_fsync(self, id: str, state: str) -> None:
        node = self.nodes[int(id)]
        node.holds_fsync = state == "on"
        if not node.holds_fsync and node.core is not None:
            self._flush(int(id), node)

    # -- commands: time and messages -------------------------------------------------------------------------

    def do_wait(self, ms: str, *ids: str) -> None:
        """Time passes; the given nodes (or all) notice."""
        self.now_ms += float(ms)
        for id in map(int, ids or self.nodes):
            core = self.nodes[id].core
            if core is not None and core.next_deadline_ms() <= self.now_ms:
                self._do(id, core.tick(self.now_ms))

    def do_timeout(self, id: str) -> None:
        """Time passes until this node has to act; only it notices."""
        core = self._core(id)
        self.now_ms = max(self.now_ms, core.next_deadline_ms())
        self._do(int(id), core.tick(self.now_ms))

    def do_deliver(self, *filters: str) -> None:
        """deliver [1>2] [3>]: let messages under way arrive, those of some links or all."""
        due = [entry for entry in self.under_way if _matches(entry, filters)]
        self.under_way = [entry for entry in self.under_way if not _matches(entry, filters)]
        for source, to, message in due:
            self._arrive(source, to, message, set(self.nodes))

    def do_drop(self, *filters: str) -> None:
        for source, to, message in [entry for entry in self.under_way if _matches(entry, filters)]:
            self._say(f"lost: {source} -> {to} {_text(message)}")
        self.under_way = [entry for entry in self.under_way if not _matches(entry, filters)]

    def do_stabilize(self, *filters: str) -> None:
        """Deliver until nothing is under way, except between nodes of other groups: stabilize [1,2] [3,4]."""
        groups = [{int(id) for id in group.split(",")} for group in filters] or [set(self.nodes)]
        for _ in range(STABLE_AFTER):
            for entry in self.under_way:
                group = next((g for g in groups if entry[0] in g and (entry[1] in g or entry[1] < 0)), None)
                if group:
                    self.under_way.remove(entry)
                    self._arrive(*entry, group)
                    break
            else:
                return
        self._say("does not become stable")

    def _arrive(self, source: int, to: int, message: Message, reachable: set[int]) -> None:
        """What may go to any bootstrap server goes to the first that can be reached."""
        target = to if to >= 0 else min(reachable - {source})
        core = self.nodes[target].core
        if core is not None:
            self._do(target, core.step(message, self.now_ms))

    def do_close(self, id: str, leader: str) -> None:
        self._do(int(id), self._core(id).leader_connection_closed(int(leader), self.now_ms))

    # -- commands: wishes ------------------------------------------------------------------------------------

    def do_propose(self, id: str, text: str) -> None:
        core = self._core(id)
        offset, ready = core.propose(core.describe(self.now_ms).epoch, 1, text, self.now_ms)
        self._say(f"proposed at {offset}")
        self._do(int(id), ready)

    def do_add_voter(self, id: str, voter: str) -> None:
        offset, ready = self._core(id).add_voter(Voter(self.nodes[int(voter)].disk.key), self.now_ms)
        self._say(f"voter change at {offset}")
        self._do(int(id), ready)

    def do_remove_voter(self, id: str, voter: str) -> None:
        core = self._core(id)
        found = core.voters.get(int(voter))
        key = found.key if found else ReplicaKey(int(voter), UUID(int=int(voter)))
        offset, ready = core.remove_voter(key, self.now_ms)
        self._say(f"voter change at {offset}")
        self._do(int(id), ready)

    def do_transfer(self, id: str, for_good: str = "") -> None:
        self._do(int(id), self._core(id).transfer_leadership(self.now_ms, for_good=bool(for_good)))

    def do_snapshot(self, id: str) -> None:
        """Snapshot everything committed and delete the log behind it."""
        node, core = self.nodes[int(id)], self._core(id)
        end = core.describe(self.now_ms).high_watermark
        snapshot_id = SnapshotId(end, core.replica.log.epoch_before(end))
        node.disk.store(StoredSnapshot.of(snapshot_id, end, core.voters_at(end), int(id)))
        ready = core.snapshot_written(snapshot_id, end, self.now_ms)
        node.disk.trim(end)
        self._say(f"{id} wrote a snapshot of everything below {end}, epoch {snapshot_id.epoch}")
        self._do(int(id), ready)

    # -- commands: looking -----------------------------------------------------------------------------------

    def do_status(self, *ids: str) -> None:
        for id in map(int, ids or self.nodes):
            core = self.nodes[id].core
            if core is None:
                self._say(f"{id} down")
                continue
            now = core.describe(self.now_ms)
            self._say(
                f"{id} {now.role} epoch={now.epoch} leader={now.leader_id} log=[{now.log_start_offset},"
                f"{now.log_end_offset}) committed={now.high_watermark} voters={_voters(now.voter_set)}"
            )

    def do_log(self, *ids: str) -> None:
        for id in map(int, ids or self.nodes):
            disk = self.nodes[id].disk
            start = [f"below {disk.start_offset}: snapshot"] if disk.start_offset else []
            self._say(f"{id}: " + ", ".join([*start, *(_batch(batch) for batch in disk.batches)]))

    def _core(self, id: str) -> RaftCore:
        core = self.nodes[int(id)].core
        if core is None:
            raise AssertionError(f"node {id} is down")
        return core

    # -- carrying out ----------------------------------------------------------------------------------------

    def _do(self, id: int, ready: Ready) -> None:
        node = self.nodes[id]
        self._tell(id, ready)
        for write in ready.log_writes:
            node.disk.write(write)
        if ready.snapshot_chunk is not None:
            del node.download[ready.snapshot_chunk.position :]
            node.download += ready.snapshot_chunk.chunk
        for send in ready.sends:
            message = self._filled(node, send.message)
            self._say(f"{id} -> {'any' if send.to < 0 else send.to} {_text(message)}")
            self.under_way.append((id, send.to, message))
        if ready.high_watermark is not None:
            self._say(f"{id} commits up to {ready.high_watermark}")
        if ready.snapshot_install is not None:
            self._install(id, node, ready.snapshot_install)
        if not node.holds_fsync:
            self._flush(id, node)

    def _tell(self, id: int, ready: Ready) -> None:
        """What is not done by anybody but said to people."""
        node = self.nodes[id]
        if ready.quorum_state is not None:
            node.disk.state = ready.quorum_state
            vote = ready.quorum_state.voted_for
            self._say(f"{id} writes epoch={ready.quorum_state.epoch} vote={vote.id if vote else 'none'}")
        if ready.role is not None:
            role = ready.role
            self._say(f"{id} is {role.role} epoch={role.epoch} leader={role.leader_id} voters={_voters(role.voters)}")
        for write in ready.log_writes:
            if write.truncate_to is not None:
                self._say(f"{id} cuts its log to {write.truncate_to}")
            if write.batches:
                self._say(f"{id} appends {', '.join(_batch(batch) for batch in write.batches)}")

    def _flush(self, id: int, node: Node) -> None:
        if node.disk.waiting and node.core is not None:
            number = node.disk.waiting[-1].number
            node.disk.sync(number)
            self._do(id, node.core.flushed(number, self.now_ms))

    def _install(self, id: int, node: Node, snapshot_id: SnapshotId) -> None:
        snapshot = StoredSnapshot(snapshot_id, bytes(node.download))
        _, voters = snapshot.read()
        node.disk.store(snapshot)
        node.disk.restart_log()
        self._say(f"{id} installs the snapshot of everything below {snapshot_id.end_offset}")
        if node.core is not None:
            self._do(id, node.core.snapshot_installed(snapshot_id, voters, self.now_ms))

    def _filled(self, node: Node, message: Message) -> Message:
        if isinstance(message, FetchResponse):
            return replace(message, batches=node.disk.read(message.fetch_offset, message.read_until, 100))
        if isinstance(message, FetchSnapshotResponse) and message.refusal is Refusal.NONE:
            content = next(kept.content for kept in node.disk.snapshots if kept.id == message.snapshot)
            chunk = content[message.position : message.position + CHUNK]
            return replace(message, size=len(content), chunk=chunk)
        return message


# -- words ---------------------------------------------------------------------------------------------------


def _matches(entry: tuple[int, int, Message], filters: tuple[str, ...]) -> bool:
    source, to, _ = entry
    return not filters or any(wanted in (f"{source}>{to}", f"{source}>", f">{to}") for wanted in filters)


def _voters(voters: VoterSet) -> str:
    return "{" + ",".join(str(voter.id) if voter.pinned else f"{voter.id}?" for voter in voters) + "}"


def _batch(batch: Batch) -> str:
    match batch.kind:
        case BatchKind.LEADER_CHANGE:
            what = "leader"
        case BatchKind.VOTERS:
            what = f"voters{_voters(batch.voters or VoterSet())}"
        case BatchKind.DATA:
            what = str(batch.payload)
    return f"{batch.base_offset}:e{batch.epoch}:{what}"


def _text(message: Message) -> str:
    refusal = "" if getattr(message, "refusal", Refusal.NONE) is Refusal.NONE else f" {message.refusal.name}"  # type: ignore[union-attr]
    match message:
        case VoteRequest():
            kind = "PreVote?" if message.pre_vote else "Vote?"
            return f"{kind} epoch={message.epoch} last={message.log_end}:e{message.last_epoch}"
        case VoteResponse():
            kind = "PreVote" if message.pre_vote else "Vote"
            answer = "yes" if message.granted else "no"
            return f"{kind} {answer} epoch={message.epoch} leader={message.leader_id}{refusal}"
        case BeginEpochRequest():
            return f"BeginEpoch epoch={message.epoch}"
        case EndEpochRequest():
            return f"EndEpoch epoch={message.epoch} successors={[key.id for key in message.successors]}"
        case FetchRequest():
            return f"Fetch? epoch={message.epoch} from={message.fetch_offset}:e{message.last_fetched_epoch}"
        case FetchResponse():
            return f"Fetch epoch={message.epoch} {_fetched(message)} committed={message.high_watermark}{refusal}"
        case FetchSnapshotRequest():
            return f"FetchSnapshot? {message.snapshot.end_offset}:e{message.snapshot.epoch} at={message.position}"
        case FetchSnapshotResponse():
            return f"FetchSnapshot at={message.position} {len(message.chunk)} of {message.size} bytes{refusal}"
    return f"{type(message).__name__.removesuffix('Response')} ok epoch={message.epoch}{refusal}"


def _fetched(message: FetchResponse) -> str:
    if message.diverging:
        return f"diverging={message.diverging.end_offset}:e{message.diverging.epoch}"
    if message.snapshot:
        return f"snapshot={message.snapshot.end_offset}:e{message.snapshot.epoch}"
    return f"records={len(message.batches)}"
