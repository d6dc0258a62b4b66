"""The leader's side: serving fetches, moving the high watermark, and when to resign."""

import math
from collections.abc import Mapping
from uuid import UUID

from rookery.controller.raft.messages import (
    Batch,
    BatchKind,
    BeginEpochRequest,
    EndEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Refusal,
    SnapshotId,
)
from rookery.controller.raft.progress import Progress, ProgressTable
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Leader, ParkedFetch, Transfer
from rookery.controller.raft.voters import ReplicaKey, Voter, reached_by_majority

# -- taking and leaving office -------------------------------------------------------------------------------


def begin_to_lead(replica: Replica, disks: Mapping[int, UUID], now_ms: float) -> None:
    """Elected: open the epoch with a record of its own, before which nothing older counts as committed, and announce
    it. The first leader ever also writes the voter set of the configuration into the log, with the disks that voted for
    it."""
    start = replica.log.end_offset
    opening = [Batch(start, replica.epoch, BatchKind.LEADER_CHANGE)]
    if replica.log.voters is None:
        voters = replica.voters.pinned_to(replica.me)
        for node_id, directory_id in disks.items():
            voters = voters.pinned_to(ReplicaKey(node_id, directory_id))
        opening.append(Batch(start + 1, replica.epoch, BatchKind.VOTERS, voters=voters))
    role = Leader(start, ProgressTable(replica.config.observers_max), since_ms=now_ms)
    role.check_quorum_ms = now_ms + replica.config.check_quorum_timeout_ms
    replica.become_leader(role)
    replica.elections_lost = 0
    replica.append(*opening)
    announce(replica, role, now_ms)


def announce(replica: Replica, role: Leader, now_ms: float) -> None:
    """Send BeginEpoch to voters that have not fetched of late."""
    interval_ms = replica.config.election_timeout_ms / 2
    role.announce_ms = now_ms + interval_ms
    for voter in replica.voters.others(replica.me):
        progress = role.progress.of_voter(voter)
        if progress is None or progress.contact_ms <= now_ms - interval_ms:
            request = BeginEpochRequest(
                sender=replica.me.id,
                correlation=replica.next_correlation(),
                epoch=replica.epoch,
                leader=replica.me,
                voter=voter.key,
                leader_endpoint=replica.leader_endpoint,
            )
            replica.send(voter.id, request)


def resign(replica: Replica, role: Leader, now_ms: float) -> None:
    """Resign, and send EndEpoch, which names the others as successors, the most caught up first."""
    others = sorted(replica.voters.others(replica.me), key=lambda voter: -acknowledged(replica, role, voter))
    replica.become_unattached(replica.epoch, replica.election_wait_ms(), now_ms)
    for voter in others:
        ending = EndEpochRequest(
            sender=replica.me.id,
            correlation=replica.next_correlation(),
            epoch=replica.epoch,
            leader_id=replica.me.id,
            successors=tuple(other.key for other in others),
        )
        replica.send(voter.id, ending)


def release(replica: Replica, role: Leader) -> None:
    """Leadership has ended: answer everything that waits for it."""
    for parked in role.parked.values():
        refuse_fetch(replica, parked.request, Refusal.NOT_LEADER_OR_FOLLOWER)


# -- fetches -------------------------------------------------------------------------------------------------


def refuse_fetch(replica: Replica, request: FetchRequest, refusal: Refusal) -> None:
    replica.send(
        request.sender,
        FetchResponse(
            sender=replica.me.id,
            correlation=request.correlation,
            epoch=replica.epoch,
            leader_id=replica.leader_id,
            fetch_offset=request.fetch_offset,
            last_fetched_epoch=request.last_fetched_epoch,
            high_watermark=replica.high_watermark,
            read_until=request.fetch_offset,
            refusal=refusal,
            leader_endpoint=replica.leader_endpoint,
        ),
    )


def on_fetch(replica: Replica, request: FetchRequest, now_ms: float) -> None:
    role = replica.role
    if not isinstance(role, Leader):
        refuse_fetch(replica, request, Refusal.NOT_LEADER_OR_FOLLOWER)
    elif request.epoch < replica.epoch:
        refuse_fetch(replica, request, Refusal.FENCED_LEADER_EPOCH)
    else:
        serve_fetch(replica, role, request, now_ms)


def serve_fetch(replica: Replica, role: Leader, request: FetchRequest, now_ms: float) -> None:
    """Take the acknowledgement; the answer follows now, if there is news, or later. One fetch waits per
    replica."""
    older = role.parked.pop(request.replica, None)
    if older is not None:
        answer(replica, older.request)
    if not agrees(replica, request):
        redirect(replica, role, request, now_ms)
        return
    progress = touch(replica, role, request.replica, now_ms)
    progress.fetched(request.fetch_offset, replica.log.end_offset, now_ms)
    settle(replica, role, now_ms)
    if replica.role is not role:
        refuse_fetch(replica, request, Refusal.NOT_LEADER_OR_FOLLOWER)
    elif has_news(replica, request) or request.max_wait_ms <= 0:
        answer(replica, request)
    else:
        deadline_ms = now_ms + min(request.max_wait_ms, replica.config.fetch_timeout_ms)
        role.parked[request.replica] = ParkedFetch(request, deadline_ms)
        role.parked_ms = min(role.parked_ms, deadline_ms)


def agrees(replica: Replica, request: FetchRequest) -> bool:
    """Whether the follower's log is a prefix of this one: it is if the record before the fetch offset is of
    the same epoch in both."""
    log = replica.log
    return (
        log.start_offset <= request.fetch_offset <= log.end_offset
        and log.epoch_before(request.fetch_offset) == request.last_fetched_epoch
    )


def redirect(replica: Replica, role: Leader, request: FetchRequest, now_ms: float) -> None:
    """The follower must cut its log, or take a snapshot, before it can go on."""
    log = replica.log
    touch(replica, role, request.replica, now_ms).contact_ms = now_ms
    end = log.end_of_epoch(request.last_fetched_epoch)
    if log.snapshot and (request.fetch_offset < log.start_offset or end is None):
        answer(replica, request, snapshot=log.snapshot)
    else:
        answer(replica, request, diverging=end or EpochEnd(log.start_epoch, log.start_offset))


def answer(
    replica: Replica,
    request: FetchRequest,
    diverging: EpochEnd | None = None,
    snapshot: SnapshotId | None = None,
) -> None:
    moved = diverging is not None or snapshot is not None
    replica.send(
        request.sender,
        FetchResponse(
            sender=replica.me.id,
            correlation=request.correlation,
            epoch=replica.epoch,
            leader_id=replica.me.id,
            fetch_offset=request.fetch_offset,
            last_fetched_epoch=request.last_fetched_epoch,
            high_watermark=replica.high_watermark,
            read_until=request.fetch_offset if moved else replica.log.end_offset,
            diverging=diverging,
            snapshot=snapshot,
            leader_endpoint=replica.leader_endpoint,
        ),
    )


def has_news(replica: Replica, request: FetchRequest) -> bool:
    return request.fetch_offset < replica.log.end_offset or request.high_watermark < replica.high_watermark


def answer_parked(replica: Replica, role: Leader) -> None:
    """Answer those for whom there is news."""
    news = (replica.log.end_offset, replica.high_watermark)
    if news == role.sent_news:
        return
    role.sent_news = news
    for key in [key for key, parked in role.parked.items() if has_news(replica, parked.request)]:
        answer(replica, role.parked.pop(key).request)


def answer_overdue(replica: Replica, role: Leader, now_ms: float) -> None:
    for key in [key for key, parked in role.parked.items() if parked.deadline_ms <= now_ms]:
        answer(replica, role.parked.pop(key).request)
    role.parked_ms = min((parked.deadline_ms for parked in role.parked.values()), default=math.inf)


def on_fetch_snapshot(replica: Replica, request: FetchSnapshotRequest, now_ms: float) -> None:
    role = replica.role
    if not isinstance(role, Leader):
        refusal = Refusal.NOT_LEADER_OR_FOLLOWER
    elif request.epoch < replica.epoch:
        refusal = Refusal.FENCED_LEADER_EPOCH
    elif replica.log.snapshot is None or request.snapshot.end_offset > replica.log.snapshot.end_offset:
        refusal = Refusal.SNAPSHOT_NOT_FOUND
    else:
        refusal = Refusal.NONE
        touch(replica, role, request.replica, now_ms).contact_ms = now_ms
    replica.send(
        request.sender,
        FetchSnapshotResponse(
            sender=replica.me.id,
            correlation=request.correlation,
            epoch=replica.epoch,
            leader_id=replica.leader_id,
            snapshot=request.snapshot,
            position=request.position,
            refusal=refusal,
            leader_endpoint=replica.leader_endpoint,
        ),
    )


# -- progress ------------------------------------------------------------------------------------------------


def touch(replica: Replica, role: Leader, key: ReplicaKey, now_ms: float) -> Progress:
    return role.progress.touch(key, replica.voters, now_ms - replica.config.observer_expiry_ms)


def acknowledged(replica: Replica, role: Leader, voter: Voter) -> int:
    """What is on the disk of `voter`. The leader counts itself like any other: only as a voter, only what is
    fsynced."""
    if voter.id == replica.me.id:
        return replica.log.flushed_offset
    progress = role.progress.of_voter(voter)
    return progress.acknowledged if progress else 0


def committed_offset(replica: Replica, role: Leader) -> int:
    """The high watermark as a majority sees it. Records of earlier epochs are not committed by counting
    copies, only together with a record of this epoch: before, another leader could still overwrite them."""
    offset = reached_by_majority(acknowledged(replica, role, voter) for voter in replica.voters)
    return offset if offset > role.epoch_start_offset else replica.high_watermark


def settle(replica: Replica, role: Leader, now_ms: float) -> None:
    """Apply the consequences of the last event."""
    replica.advance_high_watermark(committed_offset(replica, role))
    if is_deposed(replica) or is_succeeded(replica, role):
        resign(replica, role, now_ms)
        return
    answer_parked(replica, role)


def has_committed(replica: Replica, role: Leader) -> bool:
    """Whether a record of the leader's own epoch is committed."""
    return replica.high_watermark > role.epoch_start_offset


def is_deposed(replica: Replica) -> bool:
    """Removed from the voters, and the removal is committed."""
    return not replica.is_voter and replica.high_watermark > replica.log.voters_offset


def tick(replica: Replica, role: Leader, held_up: bool, now_ms: float) -> None:
    if held_up:
        # What the others sent while this node stood still is yet to be read.
        role.check_quorum_ms = max(role.check_quorum_ms, now_ms + replica.config.fetch_timeout_ms / 2)
    if now_ms >= role.check_quorum_ms:
        role.check_quorum_ms = quorum_contact_ms(replica, role, now_ms) + replica.config.check_quorum_timeout_ms
        if now_ms >= role.check_quorum_ms:
            resign(replica, role, now_ms)
            return
    if role.transfer and now_ms >= role.transfer.deadline_ms:
        if role.transfer.for_good:
            resign(replica, role, now_ms)
            return
        role.transfer = None
    if now_ms >= role.announce_ms:
        announce(replica, role, now_ms)
    if now_ms >= role.parked_ms:
        answer_overdue(replica, role, now_ms)


def quorum_contact_ms(replica: Replica, role: Leader, now_ms: float) -> float:
    """Since when a majority may have been silent. The leader counts itself; alone it is its own majority."""
    return reached_by_majority(contact_ms(replica, role, voter, now_ms) for voter in replica.voters)


def contact_ms(replica: Replica, role: Leader, voter: Voter, now_ms: float) -> float:
    if voter.id == replica.me.id:
        return now_ms
    progress = role.progress.of_voter(voter)
    return max(progress.contact_ms, role.since_ms) if progress else role.since_ms


# -- handing over --------------------------------------------------------------------------------------------


def begin_transfer(replica: Replica, role: Leader, for_good: bool, now_ms: float) -> None:
    if any(True for _ in replica.voters.others(replica.me)):
        role.transfer = Transfer(now_ms + replica.config.election_timeout_ms, for_good)
        settle(replica, role, now_ms)
    elif for_good:
        resign(replica, role, now_ms)


def is_succeeded(replica: Replica, role: Leader) -> bool:
    """Whether leadership is to be handed over and another voter has the whole log."""
    if role.transfer is None:
        return False
    end = replica.log.end_offset
    return any(acknowledged(replica, role, voter) >= end for voter in replica.voters.others(replica.me))
