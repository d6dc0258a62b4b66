"""Elections, one rule at a time."""

import pytest

from rookery.controller.raft.core import LogSummary
from rookery.controller.raft.errors import TwoLeadersError
from rookery.controller.raft.messages import EndEpochRequest, Refusal, VoteRequest, VoteResponse
from rookery.controller.raft.ready import QuorumState
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey
from tests.unit.controller.raft.one import (
    One,
    answer,
    begin_epoch,
    granted,
    key,
    only,
    refused,
    sent,
    vote_request,
    voter_set,
)

FOUR_RECORDS = LogSummary(end_offset=4, epochs=((1, 0), (2, 2)))


def test_a_fresh_voter_stands_at_once() -> None:
    one = One()
    ready = one.stand()
    assert one.now_ms <= 100
    assert [to for to, request in sent(ready, VoteRequest) if request.pre_vote] == [2, 3]


@pytest.mark.invariant("R11")
def test_promises_change_no_epoch_and_nothing_on_disk() -> None:
    one = One()
    assert one.stand().quorum_state is None
    other = One()
    ready = other.step(vote_request(2, epoch=7, pre_vote=True))
    assert only(ready, VoteResponse).granted
    assert (other.epoch, ready.quorum_state) == (0, None)


@pytest.mark.invariant("R2")
def test_a_candidate_votes_for_itself_in_a_new_epoch() -> None:
    one = One()
    ready = one.run()
    assert ready.quorum_state == QuorumState(1, key(1))
    assert {request.epoch for _, request in sent(ready, VoteRequest)} == {1}


def test_a_majority_of_votes_makes_a_leader() -> None:
    one = One()
    one.lead()
    assert (one.role, one.leader_id) == ("leader", 1)


def test_a_single_voter_needs_nobody() -> None:
    one = One(voters=voter_set(1))
    one.timeout()
    assert (one.role, one.epoch, one.high_watermark) == ("leader", 1, 2)


@pytest.mark.invariant("R2")
def test_one_vote_per_epoch_also_after_a_restart() -> None:
    one = One()
    ready = one.step(vote_request(2, epoch=1))
    assert only(ready, VoteResponse).granted
    assert ready.quorum_state is not None
    again = One(state=ready.quorum_state)
    assert not only(again.step(vote_request(3, epoch=1)), VoteResponse).granted
    assert only(again.step(vote_request(2, epoch=1)), VoteResponse).granted


@pytest.mark.invariant("R13")
def test_the_same_node_on_another_disk_is_another_candidate() -> None:
    one = One()
    one.step(vote_request(2, epoch=1))
    wiped = ReplicaKey(2, key(9).directory_id)
    assert not only(one.step(vote_request(2, epoch=1, candidate=wiped)), VoteResponse).granted


@pytest.mark.invariant("R13", "R18")
@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_vote_asked_of_another_disk_is_refused(pre_vote: bool) -> None:
    one = One()
    old_disk = ReplicaKey(1, key(9).directory_id)
    response = only(one.step(vote_request(2, epoch=1, voter=old_disk, pre_vote=pre_vote)), VoteResponse)
    assert (response.granted, response.refusal) == (False, Refusal.INVALID_VOTER_KEY)
    unknown = ReplicaKey(1, UNKNOWN_DIRECTORY)
    assert only(one.step(vote_request(2, epoch=2, voter=unknown)), VoteResponse).granted


@pytest.mark.invariant("R5")
@pytest.mark.parametrize(
    ("last_epoch", "log_end", "up_to_date"), [(2, 4, True), (2, 5, True), (3, 1, True), (2, 3, False), (1, 9, False)]
)
def test_votes_go_to_logs_that_hold_at_least_as_much(last_epoch: int, log_end: int, up_to_date: bool) -> None:
    one = One(log=FOUR_RECORDS, state=QuorumState(2))
    request = vote_request(2, epoch=3, last_epoch=last_epoch, log_end=log_end)
    assert only(one.step(request), VoteResponse).granted is up_to_date


@pytest.mark.invariant("R19")
def test_an_old_request_is_fenced() -> None:
    one = One(state=QuorumState(5))
    response = only(one.step(vote_request(2, epoch=4)), VoteResponse)
    assert (response.granted, response.refusal, response.epoch) == (False, Refusal.FENCED_LEADER_EPOCH, 5)


@pytest.mark.invariant("R11")
def test_who_is_in_contact_with_a_leader_promises_nothing_and_names_it() -> None:
    one = One()
    one.step(answer(one.follow(leader=2)))
    response = only(one.step(vote_request(3, epoch=1, pre_vote=True)), VoteResponse)
    assert (response.granted, response.leader_id, response.leader_endpoint) == (False, 2, "node2:9093")
    leader = One()
    leader.lead()
    assert not only(leader.step(vote_request(3, epoch=1, pre_vote=True)), VoteResponse).granted


def test_a_leader_known_by_hearsay_does_not_stop_an_election() -> None:
    one = One()
    one.follow(leader=2)
    assert only(one.step(vote_request(3, epoch=1, pre_vote=True)), VoteResponse).granted


def test_who_learns_of_a_leader_follows_it() -> None:
    one = One()
    (to, request), _ = sent(one.stand(), VoteRequest)
    one.step(refused(to, request, epoch=4, leader_id=3))
    assert (one.role, one.epoch, one.leader_id) == ("follower", 4, 3)


@pytest.mark.invariant("R19")
def test_an_answer_to_an_earlier_round_does_not_count() -> None:
    one = One()
    (to, promise), _ = sent(one.stand(), VoteRequest)
    one.step(granted(to, promise))
    assert one.role == "candidate"
    one.step(granted(to, promise))
    one.step(granted(3, promise))
    assert one.role == "candidate"


def test_after_a_lost_election_the_pauses_grow_up_to_a_bound() -> None:
    one = One()
    ready, pauses = one.stand(), []
    for _ in range(8):
        for to, request in sent(ready, VoteRequest):
            one.step(refused(to, request))
        begun = one.now_ms
        ready = one.timeout()
        pauses.append(one.now_ms - begun)
    assert pauses[0] < 50
    assert pauses == sorted(pauses)
    assert pauses[-1] <= one.core.replica.config.election_backoff_max_ms
    assert one.epoch == 0


def test_a_voter_that_is_starting_up_is_asked_again_soon() -> None:
    one = One()
    (to, request), _ = sent(one.stand(), VoteRequest)
    one.took(one.core.request_failed(to, request.correlation, one.now_ms))
    begun = one.now_ms
    assert [to for to, _ in sent(one.timeout(), VoteRequest)] == [2]
    assert one.now_ms - begun <= one.core.replica.config.retry_backoff_ms


def test_when_the_leaders_connection_closes_nobody_waits_for_the_fetch_timeout() -> None:
    one = One()
    one.step(answer(one.follow(leader=2)))
    one.took(one.core.leader_connection_closed(3, one.now_ms))
    assert one.role == "follower"
    one.took(one.core.leader_connection_closed(2, one.now_ms))
    begun = one.now_ms
    one.stand()
    assert one.now_ms - begun <= one.core.replica.config.election_timeout_ms / 20


@pytest.mark.invariant("R17")
@pytest.mark.parametrize(("rank", "wait_ms_max"), [(0, 0), (1, 200), (2, 400)])
def test_successors_stand_one_after_the_other(rank: int, wait_ms_max: float) -> None:
    one = One(voters=voter_set(1, 2, 3, 4))
    one.follow(leader=4)
    successors = [key(2), key(3)]
    successors.insert(rank, key(1))
    one.step(EndEpochRequest(4, 1, 1, 4, tuple(successors)))
    begun = one.now_ms
    one.stand()
    assert one.now_ms - begun <= wait_ms_max


def test_an_epoch_that_has_ended_has_no_leader_any_more() -> None:
    one = One()
    one.follow(leader=2)
    one.step(EndEpochRequest(2, 1, 1, 2, (key(3), key(1))))
    one.step(begin_epoch(2, 1, key(1)))
    assert (one.role, one.leader_id) == ("unattached", -1)


@pytest.mark.invariant("R1")
def test_two_leaders_of_one_epoch_stop_the_node() -> None:
    one = One()
    one.follow(leader=2)
    with pytest.raises(TwoLeadersError, match="both claim to lead epoch 1"):
        one.step(begin_epoch(3, 1, key(1)))


@pytest.mark.invariant("R3")
def test_a_higher_epoch_is_written_down_before_anything_is_said_in_it() -> None:
    one = One()
    one.lead()
    ready = one.step(vote_request(2, epoch=9, last_epoch=1, log_end=2))
    assert ready.quorum_state == QuorumState(9, key(2))
    assert one.role == "unattached"


def test_observers_never_stand() -> None:
    one = One(me=key(9))
    for _ in range(20):
        assert not sent(one.timeout(), VoteRequest)
