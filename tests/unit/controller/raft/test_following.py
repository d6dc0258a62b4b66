"""Followers and observers, one rule at a time."""

from itertools import pairwise

import pytest

from rookery.controller.raft.core import LogSummary
from rookery.controller.raft.errors import TruncationBelowHighWatermarkError
from rookery.controller.raft.messages import (
    ANY_BOOTSTRAP,
    EpochEnd,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Refusal,
    SnapshotId,
    VoteRequest,
)
from rookery.controller.raft.ready import QuorumState, Ready, SnapshotChunk
from rookery.controller.raft.settings import RaftConfig
from tests.unit.controller.raft.one import One, answer, begin_epoch, data, key, only, opening, sent, voter_set


def truncated(ready: Ready) -> list[int]:
    return [write.truncate_to for write in ready.log_writes if write.truncate_to is not None]


@pytest.mark.invariant("R8")
def test_nothing_is_fetched_before_everything_is_fsynced() -> None:
    one = One()
    one.holds_fsync = True
    ready = one.step(answer(one.follow(), batches=(opening(0, 1), data(1, 1)), high_watermark=1))
    assert not sent(ready, FetchRequest)
    assert ready.high_watermark is None
    ready = one.flush()
    assert only(ready, FetchRequest).fetch_offset == 2
    assert ready.high_watermark == 1


@pytest.mark.invariant("R6")
def test_the_high_watermark_is_not_believed_before_the_logs_agree() -> None:
    one = One(log=LogSummary(end_offset=6, epochs=((1, 0), (2, 2), (3, 4))), state=QuorumState(3))
    request = one.follow(epoch=4)
    ready = one.step(answer(request, diverging=EpochEnd(2, 3), high_watermark=9))
    assert (truncated(ready), one.high_watermark) == ([3], 0)


@pytest.mark.invariant("R4")
@pytest.mark.parametrize(
    ("diverging", "end"), [((1, 1), 1), ((1, 2), 2), ((1, 9), 2), ((2, 3), 3), ((0, 0), 0)]
)
def test_a_log_is_cut_to_where_both_agree_at_most(diverging: tuple[int, int], end: int) -> None:
    one = One(log=LogSummary(end_offset=6, epochs=((1, 0), (2, 2), (3, 4))), state=QuorumState(3))
    ready = one.step(answer(one.follow(epoch=4), diverging=EpochEnd(*diverging)))
    assert truncated(ready) == [end]
    assert only(ready, FetchRequest).fetch_offset == end


@pytest.mark.invariant("R9")
def test_committed_records_are_never_cut() -> None:
    one = One()
    ready = one.step(answer(one.follow(), batches=(opening(0, 1), data(1, 1)), high_watermark=0))
    one.step(answer(only(ready, FetchRequest), high_watermark=2))
    request = one.follow(leader=3, epoch=2)
    with pytest.raises(TruncationBelowHighWatermarkError, match="records below 2 are committed"):
        one.step(answer(request, leader=3, diverging=EpochEnd(1, 1)))


@pytest.mark.invariant("R19")
@pytest.mark.parametrize(
    "change",
    [{"correlation": 1}, {"sender": 3}, {"fetch_offset": 1}, {"last_fetched_epoch": 1}],
    ids=lambda change: next(iter(change)),
)
def test_answers_to_other_requests_are_ignored(change: dict[str, int]) -> None:
    one = One()
    response = answer(one.follow(), batches=(opening(0, 1),), **change)
    assert one.step(response) == Ready()


def test_batches_that_do_not_fit_are_dropped_and_asked_for_again() -> None:
    one = One()
    request = one.follow()
    for batches in ((data(1, 1),), (data(0, 1), data(2, 1)), (data(0, 7),), (data(0, 1, count=0),)):
        assert not one.step(answer(request, batches=batches)).log_writes
        request = only(one.timeout(), FetchRequest)
    assert one.log_end == 0


def test_a_lost_request_is_repeated_before_the_leader_is_given_up() -> None:
    one = One()
    first = one.follow()
    second = only(one.timeout(), FetchRequest)
    assert one.now_ms < one.core.replica.config.fetch_timeout_ms
    assert second.correlation != first.correlation


def test_without_an_answer_the_leader_is_given_up() -> None:
    one = One()
    one.follow()
    one.wait(2000)
    assert one.role == "prospective"


def test_a_slow_disk_of_its_own_is_not_the_leaders_fault() -> None:
    one = One()
    one.holds_fsync = True
    one.step(answer(one.follow(), batches=(opening(0, 1),)))
    for _ in range(10):
        one.wait(1000)
    assert one.role == "follower"
    assert only(one.flush(), FetchRequest).fetch_offset == 1


@pytest.mark.invariant("R10")
def test_a_standstill_of_its_own_is_not_the_leaders_fault() -> None:
    one = One()
    one.follow()
    fetch = only(one.stand_still(60_000), FetchRequest)
    assert one.role == "follower"
    one.step(answer(fetch, batches=(opening(0, 1),)))
    one.wait(1999)
    assert one.role == "follower"


def test_a_leader_that_stays_silent_after_a_standstill_is_given_up() -> None:
    one = One()
    one.follow()
    one.stand_still(60_000)
    one.wait(1000)
    assert one.role == "prospective"


def test_a_leader_that_left_is_not_asked_again() -> None:
    one = One()
    one.step(answer(one.follow(), refusal=Refusal.NOT_LEADER_OR_FOLLOWER, leader_id=-1))
    assert one.role == "unattached"
    one.step(begin_epoch(2, 1, key(1)))
    assert one.role == "unattached"


def test_an_observer_finds_the_leader_through_the_bootstrap_servers() -> None:
    one = One(me=key(9), voters=voter_set())
    ((to, request),) = sent(one.timeout(), FetchRequest)
    assert (to, request.max_wait_ms) == (ANY_BOOTSTRAP, 0)
    ready = one.step(
        answer(request, leader_id=3, epoch=4, refusal=Refusal.NOT_LEADER_OR_FOLLOWER, leader_endpoint="c:9093")
    )
    assert [(send.to, send.endpoint) for send in ready.sends] == [(3, "c:9093")]
    assert (one.role, one.epoch) == ("follower", 4)


def fail_until(one: One, role: str, within_ms: float) -> None:
    """Every request to the leader fails, for a time or until this replica has another role."""
    until_ms = one.now_ms + within_ms
    while one.role != role and one.now_ms < until_ms:
        for to, request in sent(one.timeout(), FetchRequest):
            one.took(one.core.request_failed(to, request.correlation, one.now_ms))


@pytest.mark.invariant("R20")
def test_a_leader_known_by_hearsay_that_cannot_be_reached_is_given_up_soon() -> None:
    """The fetch timeout is for a leader that was heard: until then those who lost it wait only for each other."""
    config = RaftConfig(fetch_timeout_ms=600_000)
    one = One(config=config)
    request = one.follow()
    one.took(one.core.request_failed(2, request.correlation, one.now_ms))
    assert one.role == "follower", "it may be starting up"
    fail_until(one, "prospective", 2 * config.election_timeout_ms)
    assert one.role == "prospective"

    heard = One(config=config)
    heard.step(answer(heard.follow()))
    fail_until(heard, "prospective", 10 * config.election_timeout_ms)
    assert heard.role == "follower"


def test_an_observer_keeps_asking_with_growing_pauses() -> None:
    one = One(me=key(9), voters=voter_set())
    times = []
    for _ in range(10):
        ready = one.timeout()
        times.append(one.now_ms)
        request = only(ready, FetchRequest)
        one.took(one.core.request_failed(ANY_BOOTSTRAP, request.correlation, one.now_ms))
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 1100


def test_an_observer_that_loses_the_leader_searches_again() -> None:
    one = One(me=key(9), voters=voter_set(1, 2, 3))
    one.follow(leader=2)
    one.wait(2000)
    assert [to for to, _ in sent(one.timeout(), FetchRequest)] == [ANY_BOOTSTRAP]


# -- snapshots -----------------------------------------------------------------------------------------------

SNAPSHOT = SnapshotId(5, 1)


def chunk(request: FetchSnapshotRequest, content: bytes, size: int) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(2, request.correlation, 1, 2, SNAPSHOT, request.position, size, content)


@pytest.mark.invariant("R15")
def test_a_snapshot_comes_in_pieces_and_takes_the_place_of_the_log() -> None:
    one = One()
    request = only(one.step(answer(one.follow(), snapshot=SNAPSHOT)), FetchSnapshotRequest)
    ready = one.step(chunk(request, b"abc", 5))
    assert ready.snapshot_chunk == SnapshotChunk(SNAPSHOT, 0, b"abc")
    request = only(ready, FetchSnapshotRequest)
    assert request.position == 3
    ready = one.step(chunk(request, b"de", 5))
    assert (ready.snapshot_chunk, ready.snapshot_install) == (SnapshotChunk(SNAPSHOT, 3, b"de"), SNAPSHOT)
    assert not ready.sends
    ready = one.took(one.core.snapshot_installed(SNAPSHOT, voter_set(1, 2), one.now_ms))
    fetch = only(ready, FetchRequest)
    assert (fetch.fetch_offset, fetch.last_fetched_epoch, fetch.high_watermark) == (5, 1, 5)
    assert one.core.voters == voter_set(1, 2)


@pytest.mark.invariant("R15")
def test_a_damaged_download_changes_nothing_and_is_asked_for_again_after_a_while() -> None:
    one = One()
    request = only(one.step(answer(one.follow(), snapshot=SNAPSHOT)), FetchSnapshotRequest)
    one.step(chunk(request, b"abc", 3))
    assert not one.took(one.core.snapshot_damaged(SNAPSHOT, one.now_ms)).sends, "not at once: it may be all there is"
    ready = one.timeout()
    assert one.role == "follower"
    fetch = only(ready, FetchRequest)
    assert (fetch.fetch_offset, fetch.high_watermark) == (0, 0)
    assert only(one.step(answer(fetch, snapshot=SNAPSHOT)), FetchSnapshotRequest).position == 0


@pytest.mark.invariant("R15")
def test_nobody_stands_for_election_while_a_snapshot_replaces_its_log() -> None:
    one = One()
    request = only(one.step(answer(one.follow(), snapshot=SNAPSHOT)), FetchSnapshotRequest)
    one.step(chunk(request, b"abc", 3))
    one.step(VoteRequest(3, 1, 7, key(3), key(1), last_epoch=6, log_end=9, pre_vote=False))
    for _ in range(20):
        one.wait(1000)
        assert one.role in ("follower", "unattached")
    one.took(one.core.snapshot_installed(SNAPSHOT, voter_set(1, 2), one.now_ms))
    one.wait(3000)
    assert one.role == "prospective"


@pytest.mark.invariant("R15")
def test_a_download_starts_anew_with_another_leader() -> None:
    one = One()
    request = only(one.step(answer(one.follow(), snapshot=SNAPSHOT)), FetchSnapshotRequest)
    one.step(chunk(request, b"abc", 5))
    fetch = one.follow(leader=3, epoch=2)
    ready = one.step(answer(fetch, leader=3, snapshot=SNAPSHOT))
    assert only(ready, FetchSnapshotRequest).position == 0


@pytest.mark.invariant("R15")
def test_a_download_goes_on_where_it_was_when_its_leader_is_found_again() -> None:
    one = One()
    request = only(one.step(answer(one.follow(), snapshot=SNAPSHOT)), FetchSnapshotRequest)
    one.step(chunk(request, b"abc", 5))
    one.wait(2000)
    assert one.role == "prospective"
    fetch = only(one.step(begin_epoch(2, 1, key(1))), FetchRequest)
    request = only(one.step(answer(fetch, snapshot=SNAPSHOT)), FetchSnapshotRequest)
    assert request.position == 3
    ready = one.step(chunk(request, b"de", 5))
    assert (ready.snapshot_chunk, ready.snapshot_install) == (SnapshotChunk(SNAPSHOT, 3, b"de"), SNAPSHOT)


def test_a_snapshot_that_is_gone_is_asked_for_anew() -> None:
    one = One()
    request = only(one.step(answer(one.follow(), snapshot=SNAPSHOT)), FetchSnapshotRequest)
    gone = FetchSnapshotResponse(2, request.correlation, 1, 2, SNAPSHOT, 0, refusal=Refusal.SNAPSHOT_NOT_FOUND)
    one.step(gone)
    assert only(one.timeout(), FetchRequest).fetch_offset == 0


@pytest.mark.invariant("R9")
def test_a_snapshot_below_the_high_watermark_stops_the_node() -> None:
    one = One(log=LogSummary(9, 9, 1, voter_set(1, 2, 3), snapshot=SnapshotId(9, 1)), state=QuorumState(1))
    with pytest.raises(TruncationBelowHighWatermarkError, match="offers a snapshot up to 5"):
        one.step(answer(one.follow(), snapshot=SNAPSHOT))
