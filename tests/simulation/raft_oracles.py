"""What must hold in every run, checked from outside: on what nodes write, send and tell, not on what the
core thinks.

The ids are those of docs/invariants.md. A violation ends the run.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from rookery.controller.raft.messages import Batch, BatchKind, VoteRequest, VoteResponse
from rookery.controller.raft.ready import QuorumState
from rookery.controller.raft.roles import Follower, Leader, Role
from rookery.controller.raft.voters import ReplicaKey, VoterSet
from tests.simulation.net import Network
from tests.simulation.raft_disk import RaftDisk, StoredSnapshot, chained

if TYPE_CHECKING:
    from tests.simulation.raft_node import SimNode


class Violation(AssertionError):
    """An invariant is broken."""

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def ensure(condition: bool, invariant: str, message: str) -> None:
    if not condition:
        raise Violation(invariant, message)


@dataclass(slots=True)
class Committed:
    batch: Batch
    chain: int
    epoch: int
    """In which it was committed, maybe later than it was written."""


@dataclass(slots=True)
class Oracles:
    bootstrap: VoterSet
    leaders: dict[int, ReplicaKey] = field(default_factory=dict)
    votes: dict[tuple[ReplicaKey, int], ReplicaKey] = field(default_factory=dict)
    states: dict[ReplicaKey, QuorumState] = field(default_factory=dict)
    chains: dict[tuple[int, int], int] = field(default_factory=dict)
    """(base offset, epoch) -> hash of the log up to that batch, whoever appended it first."""
    committed: dict[int, Committed] = field(default_factory=dict)
    """Base offset -> what was committed there."""
    chain_at: dict[int, int] = field(default_factory=lambda: {0: 0})
    """End offset -> hash of all committed records below it."""
    committed_end: int = 0
    voters: VoterSet = field(default_factory=VoterSet)
    """The last committed voter set."""

    # -- epochs, votes, leaders ------------------------------------------------------------------------------

    def on_state(self, key: ReplicaKey, state: QuorumState) -> None:
        before = self.states.get(key, QuorumState())
        ensure(state.epoch >= before.epoch, "R3", f"{key} goes back from {before} to {state}")
        self.states[key] = state

    def on_vote(self, node: "SimNode", request: VoteRequest, response: VoteResponse) -> None:
        """A vote leaves the node."""
        key = node.disk.key
        asked = request.voter
        if asked.directory_id != UUID(int=0):
            ensure(asked == key, "R13", f"{key} gives the vote that {asked} was asked for")
        given = self.votes.setdefault((key, response.epoch), request.candidate)
        ensure(given == request.candidate, "R2", f"{key} votes for {given} and {request.candidate} in {response.epoch}")
        state = node.disk.state
        kept = state is not None and (state.epoch > response.epoch or state.voted_for == request.candidate)
        ensure(kept, "R2", f"{key} votes for {request.candidate} in {response.epoch}, but on its disk is {state}")

    def on_leader(self, node: "SimNode", epoch: int) -> None:
        key = node.disk.key
        other = self.leaders.setdefault(epoch, key)
        ensure(other == key, "R1", f"{other} and {key} both lead epoch {epoch}")
        last = self._committed_before(epoch)
        found = node.chain_below(last)
        ensure(found is not None, "R5", f"{key} leads epoch {epoch} with a log that lacks records below {last}")
        ensure(found == self.chain_at[last], "R5", f"{key} leads epoch {epoch} with other records below {last}")

    def _committed_before(self, epoch: int) -> int:
        """The end of what was committed in earlier epochs; a leader that is overtaken need not know of
        later ones."""
        for kept in reversed(self.committed.values()):
            if kept.epoch < epoch:
                return kept.batch.end_offset
        return 0

    # -- log -------------------------------------------------------------------------------------------------

    def on_append(self, node: "SimNode", batch: Batch, before: int) -> int:
        """Returns the hash of the log with `batch`."""
        chain = chained(before, batch)
        known = self.chains.setdefault((batch.base_offset, batch.epoch), chain)
        ensure(known == chain, "R4", f"{node.disk.key} appends {batch} to another log than others did")
        return chain

    def on_truncate(self, node: "SimNode", removed: list[Batch], end_offset: int) -> None:
        key = node.disk.key
        ensure(end_offset >= node.high_watermark, "R9", f"{key} cuts to {end_offset} below {node.high_watermark}")
        ensure(not node.is_leader, "R5", f"{key} leads and cuts its log to {end_offset}")
        for batch in removed:
            kept = self.committed.get(batch.base_offset)
            ensure(kept is None or kept.batch.epoch != batch.epoch, "R5", f"{key} cuts the committed {batch}")

    def on_voter_change(
        self, node: "SimNode", batch: Batch, before: VoterSet, before_offset: int, nodes: list["SimNode"]
    ) -> None:
        """A leader appends a voter set."""
        key = node.disk.key
        old, new = {voter.id for voter in before}, {voter.id for voter in batch.voters or ()}
        ensure(len(old ^ new) <= 1, "R12", f"{key} goes from {before} to {batch.voters} in one step")
        if old != new:
            start = node.epoch_start_offset
            ensure(node.told_high_watermark > start, "R12", f"{key} changes voters before it committed offset {start}")
            ensure(
                node.told_high_watermark > before_offset,
                "R12",
                f"{key} changes voters while the change at {before_offset} is pending",
            )
        for voter in batch.voters or ():
            if voter.id not in old:
                end = max((disk.end_offset for disk in disks_of(nodes, voter.key)), default=0)
                known = node.told_high_watermark
                ensure(end >= known, "R12", f"{key} makes {voter.key} a voter, which has {end} of {known} records")

    # -- commit ----------------------------------------------------------------------------------------------

    def on_high_watermark(self, node: "SimNode", old: int, new: int) -> None:
        ensure(new > old, "R9", f"the high watermark of {node.disk.key} goes from {old} to {new}")
        end = node.disk.end_offset
        ensure(new <= end, "R9", f"{node.disk.key} commits {new} beyond its end {end}")

    def on_leader_commit(self, node: "SimNode", last: Batch, nodes: list["SimNode"]) -> None:
        """A leader moved the high watermark to the end of `last`."""
        key, epoch = node.disk.key, node.epoch
        ensure(last.epoch == epoch, "R7", f"{key} commits {last} of an earlier epoch than its own, {epoch}")
        voters, _ = node.voters_in_log()
        holders = [voter.key for voter in voters if any(disk.holds(last) for disk in disks_of(nodes, voter.key))]
        ensure(
            len(holders) * 2 > len(voters),
            "R8",
            f"{key} commits {last}, which of {voters} only {holders} have on disk",
        )

    def on_apply(self, node: "SimNode", batch: Batch, before: int) -> int:
        """Returns the hash of all that the node has applied."""
        chain = chained(before, batch)
        known = self.committed.get(batch.base_offset)
        if known is None:
            ensure(
                batch.base_offset == self.committed_end,
                "R6",
                f"{node.disk.key} applies {batch}, but {self.committed_end} is the next offset to be committed",
            )
            self.committed[batch.base_offset] = Committed(batch, chain, node.epoch)
            self.chain_at[batch.end_offset] = chain
            self.committed_end = batch.end_offset
            if batch.kind is BatchKind.VOTERS and batch.voters is not None:
                self.voters = batch.voters
        else:
            ensure(known.chain == chain, "R6", f"{node.disk.key} applies {batch}, others applied {known.batch}")
        return chain

    # -- snapshots -------------------------------------------------------------------------------------------

    def on_snapshot(self, node: "SimNode", snapshot: StoredSnapshot) -> None:
        """A snapshot was written or is about to be installed."""
        end, key = snapshot.id.end_offset, node.disk.key
        ensure(end <= self.committed_end, "R15", f"{snapshot.id} of {key} is beyond what is committed")
        try:
            chain, _ = snapshot.read()
        except ValueError as error:
            raise Violation("R15", f"{key}: {error}") from error
        ensure(chain == self.chain_at.get(end), "R15", f"{snapshot.id} of {key} is not the state at {end}")

    def on_install(self, node: "SimNode", snapshot: StoredSnapshot) -> None:
        ensure(not node.is_leader, "R15", f"{node.disk.key} leads epoch {node.epoch} and loads {snapshot.id}")
        ensure(
            snapshot.id.end_offset >= node.high_watermark,
            "R9",
            f"{node.disk.key} loads {snapshot.id} below its high watermark {node.high_watermark}",
        )
        self.on_snapshot(node, snapshot)

    def on_trim(self, node: "SimNode") -> None:
        disk = node.disk
        ends = [0, *(kept.id.end_offset for kept in disk.snapshots)]
        start = disk.start_offset
        ensure(start in ends, "R15", f"the log of {disk.key} starts at {start}, but snapshots end at {ends}")

    # -- disturbance -----------------------------------------------------------------------------------------

    def on_epoch_raised_by_time(self, node: "SimNode", network: Network, nodes: list["SimNode"]) -> None:
        alone = len(node.voters_in_log()[0]) == 1
        cut_off = network.is_isolated(node.id, [other.id for other in nodes])
        ensure(alone or not cut_off, "R11", f"{node.disk.key} is cut off and raises its epoch")

    def on_pre_vote(self, node: "SimNode", role: Role) -> None:
        in_office = isinstance(role, Leader) or (isinstance(role, Follower) and role.answered)
        ensure(not in_office, "R11", f"{node.disk.key} wants an election, though it is {role}")

    # -- liveness of the leader ------------------------------------------------------------------------------

    def on_watch(self, node: "SimNode", now_ms: float, patience_ms: float) -> None:
        """From time to time, of a leader that is neither paused nor behind with its work."""
        voters, offset = node.voters_in_log()
        member = any(voter.id == node.id for voter in voters)
        ensure(
            member or node.high_watermark <= offset,
            "R14",
            f"{node.disk.key} still leads epoch {node.epoch}, though it was removed at {offset}",
        )
        heard = sorted(now_ms if voter.id == node.id else last_heard_ms(node, voter.key) for voter in voters)
        silent_ms = now_ms - max(heard[(len(heard) - 1) // 2], node.thawed_ms)  # what it could not hear does not count
        ensure(
            silent_ms <= patience_ms,
            "R10",
            f"{node.disk.key} leads epoch {node.epoch} without word from a majority of {voters} for {silent_ms:.0f} ms",
        )


def last_heard_ms(node: "SimNode", key: ReplicaKey) -> float:
    if key.directory_id == UUID(int=0):
        return max((at for heard, at in node.heard_ms.items() if heard.id == key.id), default=node.leading_since_ms)
    return node.heard_ms.get(key, node.leading_since_ms)


def disks_of(nodes: list["SimNode"], key: ReplicaKey) -> list[RaftDisk]:
    """The disk of the voter `key`, even if it was lost meanwhile: the loss of a minority is borne."""
    node = nodes[key.id]
    if key.directory_id == UUID(int=0):
        return [node.disk]
    return [disk for disk in (node.disk, *node.lost_disks) if disk.key == key]
