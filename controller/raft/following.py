"""The follower's side, for voters and observers: fetch, append, cut, download a snapshot, fetch on.

There is one request in flight at most, and none before everything written is fsynced: what a fetch offset
acknowledges is on disk.
"""

import math

from rookery.controller.raft import election
from rookery.controller.raft.errors import TruncationBelowHighWatermarkError
from rookery.controller.raft.messages import (
    ANY_BOOTSTRAP,
    NO_LEADER,
    Batch,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Refusal,
    SnapshotId,
)
from rookery.controller.raft.ready import SnapshotChunk
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Download, Follower, Outstanding, Unattached

# -- asking --------------------------------------------------------------------------------------------------


def fetch_on(replica: Replica, role: Follower, now_ms: float) -> None:
    """Send the next request, if it is time for one."""
    if role.request or now_ms < role.retry_ms:
        return
    role.retry_ms = -math.inf
    if not is_settled(replica):
        return
    if role.download:
        fetch_snapshot(replica, role, role.download, now_ms)
    else:
        wait_ms = replica.config.fetch_max_wait_ms
        role.request = send_fetch(replica, role.leader_id, wait_ms, now_ms)


def is_settled(replica: Replica) -> bool:
    """Whether the log on disk is what this replica says it is: only then may its end be reported."""
    return replica.log.is_flushed and not replica.installing


def send_fetch(replica: Replica, to: int, wait_ms: int, now_ms: float) -> Outstanding:
    outstanding = Outstanding(
        correlation=replica.next_correlation(),
        deadline_ms=now_ms + wait_ms + replica.config.answer_wait_ms,
        fetch_offset=replica.log.end_offset,
        last_fetched_epoch=replica.log.last_epoch,
    )
    request = FetchRequest(
        sender=replica.me.id,
        correlation=outstanding.correlation,
        epoch=replica.epoch,
        replica=replica.me,
        fetch_offset=outstanding.fetch_offset,
        last_fetched_epoch=outstanding.last_fetched_epoch,
        high_watermark=replica.high_watermark,
        max_wait_ms=wait_ms,
    )
    replica.send(to, request)
    return outstanding


def search(replica: Replica, role: Unattached, now_ms: float) -> None:
    """An observer without a leader asks the bootstrap servers for it."""
    role.search = send_fetch(replica, ANY_BOOTSTRAP, 0, now_ms)
    role.deadline_ms = now_ms + replica.config.retry_backoff_ms + election.back_off_ms(replica)


def fetch_snapshot(replica: Replica, role: Follower, download: Download, now_ms: float) -> None:
    role.request = Outstanding(replica.next_correlation(), now_ms + replica.config.answer_wait_ms)
    request = FetchSnapshotRequest(
        sender=replica.me.id,
        correlation=role.request.correlation,
        epoch=replica.epoch,
        replica=replica.me,
        snapshot=download.snapshot,
        position=download.position,
    )
    replica.send(role.leader_id, request)


# -- answers -------------------------------------------------------------------------------------------------


def on_fetch_response(replica: Replica, response: FetchResponse, now_ms: float) -> None:
    role = replica.role
    if isinstance(role, Unattached) and role.search and role.search.correlation == response.correlation:
        role.search = None
    if not isinstance(role, Follower) or not is_answer(role, response):
        return
    role.request = None
    if response.refusal is not Refusal.NONE:
        on_refusal(replica, role, response.leader_id, response.epoch, now_ms)
        return
    if not follows(response.batches, response.fetch_offset, replica.log.last_epoch, replica.epoch):
        role.retry_ms = now_ms + replica.config.retry_backoff_ms
        return
    good_answer(replica, role, now_ms)
    if response.snapshot is not None:
        begin_download(replica, role, response.snapshot)
    elif response.diverging is not None:
        cut(replica, role, response.diverging, now_ms)
    else:
        # Only now the log is known to be a prefix of the leader's: before, its records need not be those
        # committed.
        role.leader_high_watermark = max(role.leader_high_watermark, response.high_watermark)
        if response.batches:
            replica.append(*response.batches)
        follow_high_watermark(replica, role)


def is_answer(role: Follower, response: FetchResponse) -> bool:
    """Whether this answers the request in flight. What it repeats of the request makes even an answer from
    before a restart harmless: in one epoch a leader says the same about the same place of its log."""
    request = role.request
    return request is not None and (
        (response.correlation, response.sender, response.fetch_offset, response.last_fetched_epoch)
        == (request.correlation, role.leader_id, request.fetch_offset, request.last_fetched_epoch)
    )


def follows(batches: tuple[Batch, ...], offset: int, epoch: int, epoch_max: int) -> bool:
    """Whether the batches continue a log without gap and without an epoch that falls or is yet to come."""
    for batch in batches:
        if batch.base_offset != offset or not epoch <= batch.epoch <= epoch_max or batch.count < 1:
            return False
        offset, epoch = batch.end_offset, batch.epoch
    return True


def good_answer(replica: Replica, role: Follower, now_ms: float) -> None:
    role.fetch_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    role.answered = True
    replica.elections_lost = 0


def on_request_failed(replica: Replica, role: Follower, now_ms: float) -> None:
    """Try again soon. But a leader reported only by a peer, and out of reach for as long as an election may take, is
    given up: others who cannot reach it may wait for each other, one because it does not know yet that the leader is
    gone, the other because its log is the shorter one."""
    config = replica.config
    role.request = None
    role.retry_ms = now_ms + config.retry_backoff_ms
    reported_ms = role.fetch_deadline_ms - config.fetch_timeout_ms
    if not role.answered and now_ms >= reported_ms + config.election_timeout_ms:
        election.leader_left(replica, election.short_wait_ms(replica), now_ms)


def on_refusal(replica: Replica, role: Follower, leader_id: int, epoch: int, now_ms: float) -> None:
    """The leader resigned if it is in this epoch and knows no leader; other refusals are worth another
    try."""
    if epoch == replica.epoch and leader_id == NO_LEADER:
        replica.epoch_ended = True
        election.leader_left(replica, election.short_wait_ms(replica), now_ms)
    else:
        role.retry_ms = now_ms + replica.config.retry_backoff_ms


def cut(replica: Replica, role: Follower, diverging: EpochEnd, now_ms: float) -> None:
    """Drop the records that the leader does not have: they were never committed."""
    own = replica.log.end_of_epoch(diverging.epoch)
    if own is None:
        end_offset = replica.log.start_offset - 1
    elif own.epoch == diverging.epoch:
        end_offset = min(own.end_offset, diverging.end_offset)
    else:
        end_offset = own.end_offset
    if end_offset < replica.high_watermark:
        raise TruncationBelowHighWatermarkError(
            f"the leader of epoch {replica.epoch} wants the log cut to {end_offset}, but records below "
            f"{replica.high_watermark} are committed: a voter has lost data; do not restart before its disk is checked"
        )
    if end_offset < replica.log.end_offset:
        replica.truncate(end_offset)
    else:
        role.retry_ms = now_ms + replica.config.retry_backoff_ms


def follow_high_watermark(replica: Replica, role: Follower) -> None:
    replica.advance_high_watermark(min(role.leader_high_watermark, replica.log.flushed_offset))


# -- snapshots -----------------------------------------------------------------------------------------------


def begin_download(replica: Replica, role: Follower, snapshot: SnapshotId) -> None:
    if snapshot.end_offset < replica.high_watermark:
        raise TruncationBelowHighWatermarkError(
            f"the leader of epoch {replica.epoch} offers a snapshot up to {snapshot.end_offset}, but records below "
            f"{replica.high_watermark} are committed: a voter has lost data; do not restart before its disk is checked"
        )
    known = replica.download
    if known is None or (known.epoch, known.snapshot) != (replica.epoch, snapshot):
        replica.download = Download(replica.epoch, snapshot)
    role.download = replica.download


def on_fetch_snapshot_response(replica: Replica, response: FetchSnapshotResponse, now_ms: float) -> None:
    role = replica.role
    if not isinstance(role, Follower) or role.download is None or role.request is None:
        return
    download = role.download
    if response.correlation != role.request.correlation or response.snapshot != download.snapshot:
        return
    role.request = None
    if response.refusal is not Refusal.NONE:
        role.download = replica.download = None
        on_refusal(replica, role, response.leader_id, response.epoch, now_ms)
    elif response.position == download.position and (response.chunk or response.size == download.position):
        good_answer(replica, role, now_ms)
        take_chunk(replica, role, download, response)
    else:
        role.retry_ms = now_ms + replica.config.retry_backoff_ms


def take_chunk(replica: Replica, role: Follower, download: Download, response: FetchSnapshotResponse) -> None:
    replica.out.snapshot_chunk = SnapshotChunk(download.snapshot, download.position, response.chunk)
    download.position += len(response.chunk)
    if download.position >= response.size:
        role.download = replica.download = None
        replica.installing = replica.out.snapshot_install = download.snapshot


def pause(replica: Replica, role: Follower, now_ms: float) -> None:
    """The leader answers, but with nothing of use: ask again after a while, and do not give it up."""
    role.retry_ms = now_ms + replica.config.election_timeout_ms
    role.fetch_deadline_ms = max(role.fetch_deadline_ms, role.retry_ms + replica.config.fetch_timeout_ms)


# -- time ----------------------------------------------------------------------------------------------------


def tick(replica: Replica, role: Follower, held_up: bool, now_ms: float) -> None:
    if held_up or not is_settled(replica):
        # A slow disk or a standstill of its own is no reason to blame the leader.
        role.fetch_deadline_ms = max(role.fetch_deadline_ms, now_ms + replica.config.fetch_timeout_ms / 2)
    elif now_ms >= role.fetch_deadline_ms:
        lose_leader(replica, now_ms)
        return
    if role.request and now_ms >= role.request.deadline_ms:
        role.request = None
    fetch_on(replica, role, now_ms)


def lose_leader(replica: Replica, now_ms: float) -> None:
    if replica.may_stand:
        election.stand(replica, now_ms)
    else:
        replica.become_unattached(replica.epoch, 0.0, now_ms)


def tick_unattached(replica: Replica, role: Unattached, now_ms: float) -> None:
    if role.search and now_ms >= role.search.deadline_ms:
        role.search = None
    if now_ms < role.deadline_ms or role.search:
        return
    if replica.may_stand:
        election.stand(replica, now_ms)
    elif not is_settled(replica):
        role.deadline_ms = now_ms + replica.config.retry_backoff_ms
    else:
        search(replica, role, now_ms)
