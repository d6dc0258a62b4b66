"""The leader, one rule at a time."""

from dataclasses import replace

import pytest

from rookery.controller.raft.core import LogSummary
from rookery.controller.raft.errors import NotLeaderError, NotReadyError
from rookery.controller.raft.messages import (
    BatchKind,
    BeginEpochRequest,
    EndEpochRequest,
    EpochEnd,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Refusal,
    SnapshotId,
    VoteRequest,
)
from rookery.controller.raft.ready import QuorumState
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from tests.unit.controller.raft.one import One, granted, key, only, sent, voter_set


def led(**arguments: object) -> One:
    """A leader whose first record is committed."""
    one = One(**arguments)  # type: ignore[arg-type]
    one.lead()
    one.fetched(2)
    return one


def test_the_first_leader_opens_its_epoch_and_writes_the_voters_down() -> None:
    one = One()
    ready = one.lead()
    assert [batch.kind for write in ready.log_writes for batch in write.batches] == [
        BatchKind.LEADER_CHANGE,
        BatchKind.VOTERS,
    ]
    assert ready.role is not None
    assert ready.role.epoch_start_offset == 0


def test_it_makes_itself_known_until_voters_fetch() -> None:
    one = One()
    assert [to for to, _ in sent(one.lead(), BeginEpochRequest)] == [2, 3]
    one.fetched(2)
    assert [to for to, _ in sent(one.wait(499), BeginEpochRequest)] == []
    one.fetched(2)
    assert [to for to, _ in sent(one.wait(1), BeginEpochRequest)] == [3]


@pytest.mark.invariant("R7")
def test_records_of_earlier_epochs_are_committed_only_with_one_of_its_own() -> None:
    one = One(log=LogSummary(end_offset=4, epochs=((1, 0),)), state=QuorumState(1))
    one.lead()
    one.fetched(2, offset=4)
    assert one.high_watermark == 0
    one.fetched(2, offset=one.log_end)
    assert one.high_watermark == one.log_end


@pytest.mark.invariant("R8")
def test_it_counts_itself_only_up_to_what_is_fsynced() -> None:
    one = led()
    one.holds_fsync = True
    one.propose()
    one.fetched(2, offset=2)
    assert one.high_watermark == 2
    one.flush()
    assert one.high_watermark == 2
    one.fetched(2)
    assert one.high_watermark == 3


@pytest.mark.invariant("R9", "R19")
def test_a_late_duplicate_of_a_fetch_takes_nothing_back() -> None:
    one = led()
    one.propose()
    one.fetched(2)
    one.fetched(2, offset=1)
    assert one.high_watermark == 3


def test_observers_acknowledge_nothing() -> None:
    one = One()
    one.lead()
    one.fetched(9)
    assert one.high_watermark == 0


@pytest.mark.invariant("R13")
def test_a_voter_on_a_new_disk_acknowledges_nothing() -> None:
    one = One()
    one.lead()
    one.fetched(2, replica=ReplicaKey(2, key(9).directory_id))
    assert one.high_watermark == 0


def test_a_fetch_waits_for_news() -> None:
    one = led()
    assert not sent(one.fetched(2), FetchResponse)
    ready = one.propose()
    assert [to for to, response in sent(ready, FetchResponse) if response.read_until == 3] == [2]


def test_a_fetch_without_news_is_answered_in_time() -> None:
    one = led()
    one.fetched(2, correlation=5)
    response = only(one.wait(500), FetchResponse)
    assert (response.correlation, response.read_until, response.refusal) == (5, 2, Refusal.NONE)


def test_one_fetch_waits_per_replica() -> None:
    one = led()
    one.fetched(2, correlation=5)
    response = only(one.fetched(2, correlation=6), FetchResponse)
    assert response.correlation == 5


def test_a_new_high_watermark_is_news() -> None:
    one = led()
    one.propose()
    one.fetched(9)
    ready = one.fetched(2)
    assert [(to, response.high_watermark) for to, response in sent(ready, FetchResponse)] == [(9, 3), (2, 3)]


@pytest.mark.invariant("R4")
def test_a_follower_whose_log_differs_learns_where_to_cut() -> None:
    one = One(log=LogSummary(end_offset=6, epochs=((1, 0), (3, 4))), state=QuorumState(4))
    one.lead()
    for last_epoch, offset, expected in ((2, 5, (1, 4)), (3, 9, (3, 6)), (1, 5, (1, 4))):
        ready = one.fetched(2, fetch_offset=offset, last_fetched_epoch=last_epoch)
        assert only(ready, FetchResponse).diverging == EpochEnd(*expected)
    assert one.high_watermark == 0


@pytest.mark.invariant("R15")
def test_what_is_only_in_a_snapshot_comes_as_a_snapshot() -> None:
    one = led()
    one.propose()
    one.fetched(2)
    snapshot = SnapshotId(3, 1)
    one.took(one.core.snapshot_written(snapshot, 3, one.now_ms))
    response = only(one.fetched(9, fetch_offset=0, last_fetched_epoch=0), FetchResponse)
    assert (response.snapshot, response.read_until) == (snapshot, 0)
    request = FetchSnapshotRequest(9, 7, 1, key(9), snapshot, 0)
    assert only(one.step(request), FetchSnapshotResponse).refusal is Refusal.NONE
    wrong = replace(request, snapshot=SnapshotId(8, 1))
    assert only(one.step(wrong), FetchSnapshotResponse).refusal is Refusal.SNAPSHOT_NOT_FOUND


@pytest.mark.invariant("R10")
def test_it_resigns_when_a_majority_is_silent() -> None:
    one = led()
    one.wait(2999)
    assert one.role == "leader"
    ready = one.wait(2)
    assert one.role == "unattached"
    assert [to for to, _ in sent(ready, EndEpochRequest)] == [2, 3]


@pytest.mark.invariant("R10")
def test_one_voter_of_two_others_is_enough() -> None:
    one = led()
    for _ in range(20):
        one.fetched(3)
        one.wait(1000)
    assert one.role == "leader"


@pytest.mark.invariant("R10")
def test_downloading_a_snapshot_is_a_sign_of_life() -> None:
    one = led()
    one.took(one.core.snapshot_written(SnapshotId(2, 1), 2, one.now_ms))
    for position in range(20):
        one.step(FetchSnapshotRequest(2, 7, 1, key(2), SnapshotId(2, 1), position))
        one.wait(1000)
    assert one.role == "leader"


@pytest.mark.invariant("R10")
def test_it_does_not_blame_the_others_for_its_own_standstill() -> None:
    one = led()
    one.stand_still(60_000)
    assert one.role == "leader"
    one.fetched(2)
    one.wait(1000)
    assert one.role == "leader"


@pytest.mark.invariant("R10")
def test_a_majority_that_stays_silent_after_a_standstill_is_given_up() -> None:
    one = led()
    one.stand_still(60_000)
    one.wait(1000)
    assert one.role == "unattached"


@pytest.mark.invariant("R10")
def test_alone_it_never_resigns() -> None:
    one = One(voters=voter_set(1))
    one.lead()
    one.wait(1_000_000)
    assert one.role == "leader"


def test_whoever_waits_learns_when_it_steps_down() -> None:
    one = led()
    one.fetched(9, correlation=6)
    ready = one.step(VoteRequest(3, 1, 9, key(3), key(1), last_epoch=9, log_end=9, pre_vote=False))
    assert [r.correlation for _, r in sent(ready, FetchResponse) if r.refusal is not Refusal.NONE] == [6]


def test_a_fetch_in_a_higher_epoch_ends_its_own() -> None:
    one = led()
    ready = one.fetched(2, epoch=5)
    assert (one.role, one.epoch) == ("unattached", 5)
    assert only(ready, FetchResponse).refusal is Refusal.NOT_LEADER_OR_FOLLOWER


@pytest.mark.invariant("R19")
def test_a_fetch_of_an_earlier_epoch_is_fenced_and_acknowledges_nothing() -> None:
    one = One(state=QuorumState(4))
    one.lead()
    response = only(one.fetched(2, epoch=4), FetchResponse)
    assert (response.refusal, response.epoch, response.leader_id) == (Refusal.FENCED_LEADER_EPOCH, 5, 1)
    assert one.high_watermark == 0


@pytest.mark.invariant("R17")
def test_a_transfer_waits_for_a_successor_with_the_whole_log() -> None:
    one = led()
    one.propose()
    one.took(one.core.transfer_leadership(one.now_ms, for_good=False))
    with pytest.raises(NotReadyError, match="handed over"):
        one.propose()
    ready = one.fetched(3)
    successors = [request.successors for _, request in sent(ready, EndEpochRequest)]
    assert successors == [(key(3), key(2)), (key(3), key(2))]
    assert one.role == "unattached"


@pytest.mark.invariant("R17")
@pytest.mark.parametrize(("for_good", "role"), [(False, "leader"), (True, "unattached")])
def test_a_transfer_that_nobody_can_take(for_good: bool, role: str) -> None:
    one = led()
    one.propose()
    one.took(one.core.transfer_leadership(one.now_ms, for_good=for_good))
    one.wait(1001)
    assert one.role == role
    if role == "leader":
        one.propose()


def test_a_single_voter_has_nobody_to_hand_over_to() -> None:
    one = One(voters=voter_set(1))
    one.lead()
    one.took(one.core.transfer_leadership(one.now_ms, for_good=False))
    one.propose()
    one.took(one.core.transfer_leadership(one.now_ms, for_good=True))
    assert one.role == "unattached"


def test_proposals_name_their_epoch() -> None:
    one = led()
    with pytest.raises(NotLeaderError, match="epoch 7 is over"):
        one.core.propose(7, 1, "record", one.now_ms)
    follower = One()
    follower.follow(leader=2)
    with pytest.raises(NotLeaderError) as refused:
        follower.core.propose(1, 1, "record", follower.now_ms)
    assert (refused.value.leader_id, refused.value.epoch) == (2, 1)


def unpinned() -> VoterSet:
    return VoterSet(Voter(ReplicaKey(id, UNKNOWN_DIRECTORY)) for id in (1, 2, 3))


@pytest.mark.invariant("R13")
def test_the_first_election_takes_all_voters_whose_disks_are_not_known_and_writes_the_disks_down() -> None:
    """Two empty disks may stand in for those that committed something with the third: nobody could tell."""
    one = One(voters=unpinned())
    ready = one.stand()
    for role in ("prospective", "candidate"):
        asked = sent(ready, VoteRequest)
        assert [to for to, _ in asked] == [2, 3]
        one.step(granted(*asked[0]))
        assert one.role == role, "a majority is not enough"
        ready = one.step(granted(*asked[1]))
    assert one.role == "leader"
    assert one.core.voters == VoterSet([Voter(key(1)), Voter(key(2)), Voter(key(3))])


@pytest.mark.invariant("R13")
def test_disks_of_voters_of_an_earlier_release_are_written_down_when_they_fetch() -> None:
    one = One(voters=unpinned())
    ready = one.stand()
    while one.role != "leader":
        for to, request in sent(ready, VoteRequest):
            ready = one.step(replace(granted(to, request), directory_id=UNKNOWN_DIRECTORY))
    assert not one.core.voters.all_pinned
    one.fetched(2)
    assert one.core.voters == VoterSet([Voter(key(1)), Voter(key(2)), Voter(ReplicaKey(3, UNKNOWN_DIRECTORY))])


def test_the_quorum_describes_itself() -> None:
    one = led()
    one.fetched(9, offset=1)
    described = one.core.describe(one.now_ms)
    assert [(voter.key.id, voter.log_end_offset) for voter in described.voters] == [(1, 2), (2, 2), (3, -1)]
    assert [(observer.key.id, observer.log_end_offset) for observer in described.observers] == [(9, 1)]
