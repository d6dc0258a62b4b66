"""Changing the voters, one at a time.

Any majority of the old set and any majority of the new one share a replica if the sets differ by one voter:
no two leaders can then be elected by different rules. That holds only between neighbouring sets, hence the
two conditions of `require_ready`: the change before must be committed, and so must a record of the leader's
own epoch, because a change of an earlier epoch may be waiting, unseen, in another log.
"""

from rookery.controller.raft import leading
from rookery.controller.raft.errors import (
    InvalidVoterChangeError,
    NotCaughtUpError,
    NotLeaderError,
    NotReadyError,
)
from rookery.controller.raft.messages import Batch, BatchKind
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Leader
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet


def require_leader(replica: Replica) -> Leader:
    if not isinstance(replica.role, Leader):
        raise NotLeaderError(
            f"node {replica.me.id} does not lead epoch {replica.epoch}; ask node {replica.leader_id}",
            replica.leader_id,
            replica.epoch,
        )
    return replica.role


def add_voter(replica: Replica, voter: Voter, now_ms: float) -> int:
    role = require_leader(replica)
    require_ready(replica, role)
    if not voter.pinned:
        raise InvalidVoterChangeError(f"voter {voter.id} has no directory id: which disk should vote?")
    if replica.voters.get(voter.id):
        raise InvalidVoterChangeError(f"node {voter.id} is a voter already: {replica.voters}; remove it first")
    require_caught_up(replica, role, voter.key, now_ms)
    return append_voters(replica, role, replica.voters.with_voter(voter), now_ms)


def remove_voter(replica: Replica, key: ReplicaKey, now_ms: float) -> int:
    role = require_leader(replica)
    require_ready(replica, role)
    if key not in replica.voters:
        raise InvalidVoterChangeError(f"{key} is not a voter: {replica.voters}")
    if len(replica.voters) == 1:
        raise InvalidVoterChangeError(f"{key} is the only voter: without it nothing could be decided any more")
    return append_voters(replica, role, replica.voters.without(key.id), now_ms)


def require_ready(replica: Replica, role: Leader) -> None:
    if role.transfer:
        raise NotReadyError("leadership is being handed over; ask the next leader")
    if not leading.has_committed(replica, role):
        raise NotReadyError(f"no record of epoch {replica.epoch} is committed yet; try again shortly")
    if replica.log.voters_offset >= replica.high_watermark:
        raise NotReadyError(f"the voter change at offset {replica.log.voters_offset} is not committed yet")


def require_caught_up(replica: Replica, role: Leader, key: ReplicaKey, now_ms: float) -> None:
    """A voter that lacks committed records would make every commit wait for it."""
    progress = role.progress.of(key)
    if progress is None or progress.contact_ms < now_ms - replica.config.fetch_timeout_ms:
        raise NotCaughtUpError(f"{key} does not fetch from node {replica.me.id}; start it and try again")
    if progress.acknowledged < replica.high_watermark:
        raise NotCaughtUpError(
            f"{key} has records up to {progress.acknowledged} of {replica.high_watermark}; try again later"
        )


def append_voters(replica: Replica, role: Leader, voters: VoterSet, now_ms: float) -> int:
    """The new set is in force here from this moment, and elsewhere from when it is appended there."""
    offset = replica.log.end_offset
    replica.append(Batch(offset, replica.epoch, BatchKind.VOTERS, voters=voters))
    role.check_quorum_ms = now_ms  # whose silence matters has changed
    leading.settle(replica, role, now_ms)
    return offset


def pin_directories(replica: Replica, role: Leader, now_ms: float) -> None:
    """Voters from configuration are known by node id alone; once they fetch, their disks are written down."""
    if replica.voters.all_pinned or role.transfer or not leading.has_committed(replica, role):
        return
    if replica.log.voters_offset >= replica.high_watermark:
        return
    voters = replica.voters
    for key, _ in role.progress:
        voter = voters.get(key.id)
        if voter and not voter.pinned:
            voters = voters.pinned_to(key)
    if voters != replica.voters:
        append_voters(replica, role, voters, now_ms)
