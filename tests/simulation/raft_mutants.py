"""Planted bugs: each breaks one rule of the real code, and the simulator must notice.

A mutant replaces functions while it is planted; nothing of it is in the product. Those that name a real bug
repeat it. `tests/soak/soak_raft.py` searches for a seed that kills each; CI replays the recorded one.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from rookery.controller.raft import election, following, leading, membership, voters
from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.errors import NotReadyError
from rookery.controller.raft.log import LogIndex
from rookery.controller.raft.messages import (
    NO_LEADER,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    SnapshotId,
    VoteRequest,
    VoteResponse,
)
from rookery.controller.raft.progress import Progress, ProgressTable
from rookery.controller.raft.ready import LogWrite, QuorumState, Ready
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Candidate, Follower, Leader, Prospective, Role
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet, reached_by_majority
from tests.simulation.raft_node import SimNode
from tests.simulation.raft_run import Simulation, Verdict

FORK = ("R1", "R4", "R5", "R6", "R8", "R9", "fatal")
"""Once logs fork, chance decides which of these notices first; `fatal` is the product itself."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    bug: str
    invariants: tuple[str, ...]
    """Which of them may notice it first."""
    patches: tuple[tuple[Any, str, Any], ...] = ()
    node_type: type[SimNode] = SimNode

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, replacement in self.patches:
                stack.enter_context(patch.object(owner, name, replacement))
            yield

    def run(self, seed: int) -> Verdict:
        with self.planted():
            return Simulation(seed, node_type=self.node_type).run()


# -- votes and epochs ----------------------------------------------------------------------------------------


def changed_state_without_vote(self: Replica) -> QuorumState | None:
    state = (self.epoch, None)
    if state == self._reported_state:
        return None
    self._reported_state = state
    return QuorumState(self.epoch, None, self.epoch_leader)


class SendsBeforePersisting(SimNode):
    def take(self, ready: Ready) -> None:
        for send in ready.sends:
            self._send(send.to, send.message)
        super().take(ready)


class ForgetsVoteAtRestart(SimNode):
    def recovered_state(self) -> QuorumState:
        return replace(super().recovered_state(), voted_for=None)


def vote_again(self: Replica, candidate: ReplicaKey) -> None:
    self.voted_for = candidate


def vote_for_anybody(r: Replica, request: VoteRequest, now_ms: float) -> bool:
    if request.epoch > r.epoch:
        r.become_unattached(request.epoch, r.election_wait_ms(), now_ms)
    if r.leader_id != NO_LEADER or not election.is_up_to_date(r, request):
        return False
    r.vote_for(request.candidate)
    return True


def up_to_date_by_epoch(r: Replica, request: VoteRequest) -> bool:
    return request.last_epoch >= r.log.last_epoch


def would_vote_despite_leader(r: Replica, request: VoteRequest) -> bool:
    return election.is_up_to_date(r, request)


def count_any_vote(r: Replica, response: VoteResponse, now_ms: float) -> None:
    if isinstance(r.role, Prospective | Candidate):
        ballot = r.role.ballot
        (ballot.granted if response.granted else ballot.refused).add(response.sender)
        election.count(r, ballot, now_ms)


# -- acknowledging and committing ----------------------------------------------------------------------------


def settled_when_written(r: Replica) -> bool:
    return not r.installing


_acknowledged = leading.acknowledged


def acknowledged_when_written(r: Replica, role: Leader, voter: Voter) -> int:
    return r.log.end_offset if voter.id == r.me.id else _acknowledged(r, role, voter)


def committed_in_any_epoch(r: Replica, role: Leader) -> int:
    return reached_by_majority(leading.acknowledged(r, role, voter) for voter in r.voters)


def committed_with_removed_leader(r: Replica, role: Leader) -> int:
    ends = [leading.acknowledged(r, role, voter) for voter in r.voters]
    if not r.is_voter:
        ends.append(r.log.flushed_offset)
    offset = reached_by_majority(ends)
    return offset if offset > role.epoch_start_offset else r.high_watermark


def never_silent(r: Replica, role: Leader, now_ms: float) -> float:
    return now_ms


def half(members: int) -> int:
    return max(1, members // 2)


# -- log -----------------------------------------------------------------------------------------------------


def agrees_by_offset(r: Replica, request: FetchRequest) -> bool:
    return r.log.start_offset <= request.fetch_offset <= r.log.end_offset


def cut_unguarded_to_epoch_start(r: Replica, role: Follower, diverging: EpochEnd, now_ms: float) -> None:
    own = r.log.end_of_epoch(diverging.epoch - 1)
    r.truncate(max(own.end_offset if own else 0, r.log.start_offset))


def any_answer(role: Follower, response: FetchResponse) -> bool:
    return role.request is not None


_on_fetch_response = following.on_fetch_response


def take_high_watermark_before_cut(r: Replica, response: FetchResponse, now_ms: float) -> None:
    _on_fetch_response(r, response, now_ms)
    if isinstance(r.role, Follower) and response.diverging and response.correlation == r._correlation:
        r.advance_high_watermark(min(response.high_watermark, r.log.end_offset))


_truncate = LogIndex.truncate


def truncate_keeping_voters(self: LogIndex, end_offset: int) -> LogWrite:
    voters = list(self._voters)
    write = _truncate(self, end_offset)
    self._voters = voters
    return write


# -- voters --------------------------------------------------------------------------------------------------


def ready_without_own_commit(r: Replica, role: Leader) -> None:
    if r.log.voters_offset >= max(r.high_watermark, role.epoch_start_offset):
        raise NotReadyError("pending")


def ready_with_pending_change(r: Replica, role: Leader) -> None:
    if not leading.has_committed(r, role):
        raise NotReadyError("no commit")


def caught_up_always(r: Replica, role: Leader, key: ReplicaKey, now_ms: float) -> None:
    return None


def never_deposed(r: Replica) -> bool:
    return False


def is_me_on_any_disk(r: Replica, voter: ReplicaKey) -> bool:
    return voter.id == r.me.id


def contains_on_any_disk(self: VoterSet, key: ReplicaKey) -> bool:
    return self.get(key.id) is not None


def progress_on_any_disk(self: ProgressTable, voter: Voter) -> Progress | None:
    same_id = [progress for key, progress in self if key.id == voter.id]
    return max(same_id, key=lambda progress: progress.contact_ms, default=None)


# -- snapshots -----------------------------------------------------------------------------------------------


class SnapshotsUncommitted(SimNode):
    def snapshot_point(self) -> tuple[int, int]:
        end = self.disk.end_offset
        return end, self.chain_below(end) or 0


def snapshot_written_unchecked(self: RaftCore, snapshot: SnapshotId, log_start_offset: int, now_ms: float) -> Ready:
    self.replica.log.snapshot = snapshot
    self.replica.log.advance_start(log_start_offset)
    return self._settle(self.replica.role, now_ms)


_enter = Replica._enter


def enter_keeping_download(self: Replica, role: Role, epoch: int) -> None:
    if isinstance(self.role, Follower) and self.role.download:
        self.__dict__["kept_download"] = self.role.download
    _enter(self, role, epoch)
    if isinstance(role, Follower):
        role.download = self.__dict__.pop("kept_download", None)


def _all() -> Iterator[Mutant]:
    yield Mutant(
        "vote-not-persisted",
        "the vote is not part of what is written to quorum-state",
        ("R1", "R2"),
        ((Replica, "_changed_state", changed_state_without_vote),),
    )
    yield Mutant(
        "sent-before-persisted",
        "messages leave before quorum-state is on disk",
        ("R1", "R2"),
        node_type=SendsBeforePersisting,
    )
    yield Mutant(
        "first-election-by-majority",
        "voters whose disks nobody knows elect their first leader without waiting for all of them",
        FORK,
        ((election, "is_first", lambda replica: False),),
    )
    yield Mutant(
        "vote-forgotten-at-restart",
        "a restarted voter knows its epoch, but not whom it voted for",
        ("R1", "R2"),
        node_type=ForgetsVoteAtRestart,
    )
    yield Mutant(
        "second-vote",
        "a second candidate gets a vote in the same epoch",
        ("R1", "R2"),
        ((Replica, "vote_for", vote_again), (election, "vote", vote_for_anybody)),
    )
    yield Mutant(
        "vote-for-shorter-log",
        "only epochs are compared before a vote, not the lengths of logs",
        FORK,
        ((election, "is_up_to_date", up_to_date_by_epoch),),
    )
    yield Mutant(
        "no-pre-vote", "elections begin with a new epoch", ("R11", "R20"), ((election, "stand", election.run),)
    )
    yield Mutant(
        "pre-vote-despite-leader",
        "a replica that hears from its leader promises a vote",
        ("R11",),
        ((election, "would_vote", would_vote_despite_leader),),
    )
    yield Mutant(
        "stale-vote-counted",
        "answers to an earlier round count as votes",
        FORK,
        ((election, "on_vote_response", count_any_vote),),
    )
    yield Mutant("half-is-majority", "two of four decide", FORK, ((voters, "majority", half),))
    yield Mutant(
        "fetch-before-fsync",
        "a follower fetches on before its records are on disk",
        ("R8",),
        ((following, "is_settled", settled_when_written),),
    )
    yield Mutant(
        "leader-counts-unsynced",
        "the leader counts itself before its records are on disk",
        ("R8",),
        ((leading, "acknowledged", acknowledged_when_written),),
    )
    yield Mutant(
        "old-epoch-commit",
        "records of an earlier epoch are committed by counting copies",
        ("R7",),
        ((leading, "committed_offset", committed_in_any_epoch),),
    )
    yield Mutant(
        "no-check-quorum",
        "KAFKA-15489: a leader that cannot hear a majority stays in office",
        ("R10",),
        ((leading, "quorum_contact_ms", never_silent),),
    )
    yield Mutant(
        "epoch-of-fetch-unchecked",
        "the leader serves records to a follower whose log differs",
        FORK,
        ((leading, "agrees", agrees_by_offset),),
    )
    yield Mutant(
        "truncation-below-high-watermark",
        "KAFKA-12460: a follower cuts more than differs, below what it knows to be committed",
        ("R5", "R9"),
        ((following, "cut", cut_unguarded_to_epoch_start),),
    )
    yield Mutant(
        "stale-answer-applied",
        "an answer to an earlier fetch is taken for that to the last",
        FORK,
        ((following, "is_answer", any_answer),),
    )
    yield Mutant(
        "high-watermark-before-agreement",
        "a follower believes the high watermark before its log agrees with the leader's",
        FORK,
        ((following, "on_fetch_response", take_high_watermark_before_cut),),
    )
    yield Mutant(
        "voters-survive-truncation",
        "a voter set stays in force though its record was cut",
        ("R12", "R14", "R20", *FORK),
        ((LogIndex, "truncate", truncate_keeping_voters),),
    )
    yield Mutant(
        "change-without-own-commit",
        "Raft's single-server change as first published: voters change before a record of the epoch is committed",
        ("R12",),
        ((membership, "require_ready", ready_without_own_commit),),
    )
    yield Mutant(
        "two-pending-changes",
        "a voter change begins before the last one is committed",
        ("R12",),
        ((membership, "require_ready", ready_with_pending_change),),
    )
    yield Mutant(
        "new-voter-not-caught-up",
        "a voter is added that lacks committed records",
        ("R12",),
        ((membership, "require_caught_up", caught_up_always),),
    )
    yield Mutant(
        "removed-leader-counts-itself",
        "a leader that is no voter any more counts its own copy",
        ("R8",),
        ((leading, "committed_offset", committed_with_removed_leader),),
    )
    yield Mutant(
        "removed-leader-stays",
        "a leader whose removal is committed goes on leading",
        ("R14",),
        ((leading, "is_deposed", never_deposed),),
    )
    yield Mutant(
        "removed-replica-never-stands",
        "a replica whose removal is in no other log never stands for election",
        ("R20",),
        ((Replica, "may_stand", property(lambda self: self.is_voter and not self.installing)),),
    )
    yield Mutant(
        "wiped-disk-votes",
        "disk wiped voter: a node on a new disk acts as the voter it was on the old one",
        ("R13", *FORK),
        (
            (election, "is_me", is_me_on_any_disk),
            (VoterSet, "__contains__", contains_on_any_disk),
            (ProgressTable, "of_voter", progress_on_any_disk),
        ),
    )
    yield Mutant(
        "snapshot-beyond-commit",
        "a snapshot holds records that are not committed",
        ("R6", "R15"),
        ((RaftCore, "snapshot_written", snapshot_written_unchecked),),
        SnapshotsUncommitted,
    )
    yield Mutant(
        "download-from-two-leaders",
        "the second half of a snapshot comes from another leader than the first",
        ("R15",),
        ((Replica, "_enter", enter_keeping_download),),
    )


MUTANTS = {mutant.name: mutant for mutant in _all()}
