"""The state of the quorum for people and metrics (DescribeQuorum)."""

from dataclasses import dataclass

from rookery.controller.raft import leading
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Leader
from rookery.controller.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    key: ReplicaKey
    log_end_offset: int
    """As acknowledged to the leader; -1 if it has not fetched in this epoch."""
    last_fetch_ms: float
    last_caught_up_ms: float
    """-inf for never."""


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    role: str
    epoch: int
    leader_id: int
    voted_for: ReplicaKey | None
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    voter_set: VoterSet
    voters: tuple[ReplicaDescription, ...]
    """Known to the leader only, like observers; elsewhere empty."""
    observers: tuple[ReplicaDescription, ...]


def describe(replica: Replica, now_ms: float) -> QuorumDescription:
    voters: tuple[ReplicaDescription, ...] = ()
    observers: tuple[ReplicaDescription, ...] = ()
    if isinstance(replica.role, Leader):
        voters = tuple(describe_voters(replica, replica.role, now_ms))
        observers = tuple(describe_observers(replica, replica.role))
    return QuorumDescription(
        role=replica.role.name,
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        voted_for=replica.voted_for,
        high_watermark=replica.high_watermark,
        log_start_offset=replica.log.start_offset,
        log_end_offset=replica.log.end_offset,
        voter_set=replica.voters,
        voters=voters,
        observers=observers,
    )


def describe_voters(replica: Replica, role: Leader, now_ms: float) -> list[ReplicaDescription]:
    never = float("-inf")
    described = []
    for voter in replica.voters:
        progress = role.progress.of_voter(voter)
        if voter.id == replica.me.id:
            described.append(ReplicaDescription(replica.me, replica.log.end_offset, now_ms, now_ms))
        elif progress is None:
            described.append(ReplicaDescription(voter.key, -1, never, never))
        else:
            end = leading.acknowledged(replica, role, voter)
            described.append(ReplicaDescription(voter.key, end, progress.contact_ms, progress.caught_up_ms))
    return described


def describe_observers(replica: Replica, role: Leader) -> list[ReplicaDescription]:
    return [
        ReplicaDescription(key, progress.acknowledged, progress.contact_ms, progress.caught_up_ms)
        for key, progress in role.progress
        if key not in replica.voters
    ]
