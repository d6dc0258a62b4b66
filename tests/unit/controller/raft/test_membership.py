"""Changing voters, one rule at a time."""

import pytest

from rookery.controller.raft.core import LogSummary
from rookery.controller.raft.errors import (
    InvalidVoterChangeError,
    NotCaughtUpError,
    NotLeaderError,
    NotReadyError,
)
from rookery.controller.raft.messages import Batch, BatchKind, EndEpochRequest, EpochEnd, VoteRequest
from rookery.controller.raft.ready import QuorumState
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter
from tests.unit.controller.raft.one import One, answer, key, sent, voter_set

pytestmark = pytest.mark.invariant("R12")
FOUR = Voter(key(4), "node4:9093")


def led(*ids: int) -> One:
    one = One(voters=voter_set(*ids))
    one.lead()
    for id in ids[1:]:
        one.fetched(id)
    return one


def add(one: One, voter: Voter = FOUR) -> None:
    one.took(one.core.add_voter(voter, one.now_ms)[1])


def remove(one: One, id: int) -> None:
    one.took(one.core.remove_voter(key(id), one.now_ms)[1])


def test_a_new_set_is_in_force_from_the_moment_it_is_appended() -> None:
    one = led(1, 2, 3)
    one.fetched(4)
    add(one)
    assert one.core.voters == voter_set(1, 2, 3, 4)
    one.fetched(2)
    assert one.high_watermark == 2
    one.fetched(4)
    assert one.high_watermark == 3


def test_only_the_leader_changes_voters() -> None:
    one = One()
    with pytest.raises(NotLeaderError):
        add(one)
    with pytest.raises(NotLeaderError):
        remove(one, 2)


def test_not_before_a_record_of_its_own_epoch_is_committed() -> None:
    one = One()
    one.lead()
    with pytest.raises(NotReadyError, match="no record of epoch 1 is committed"):
        remove(one, 3)


def test_not_before_the_last_change_is_committed() -> None:
    one = led(1, 2, 3)
    remove(one, 3)
    with pytest.raises(NotReadyError, match="offset 2 is not committed"):
        remove(one, 2)
    one.fetched(2)
    remove(one, 2)
    assert one.core.voters == voter_set(1)


def test_not_while_leadership_is_handed_over() -> None:
    one = led(1, 2, 3)
    one.propose()
    one.took(one.core.transfer_leadership(one.now_ms, for_good=False))
    with pytest.raises(NotReadyError, match="handed over"):
        remove(one, 3)


def test_a_new_voter_must_fetch_and_be_caught_up() -> None:
    one = led(1, 2, 3)
    with pytest.raises(NotCaughtUpError, match="does not fetch"):
        add(one)
    one.fetched(4, offset=1)
    with pytest.raises(NotCaughtUpError, match="records up to 1 of 2"):
        add(one)
    one.fetched(4)
    one.wait(2001)
    with pytest.raises(NotCaughtUpError, match="does not fetch"):
        add(one)


def test_changes_that_make_no_sense() -> None:
    one = led(1, 2)
    for voter in (Voter(key(2)), Voter(ReplicaKey(2, key(9).directory_id)), Voter(ReplicaKey(4, UNKNOWN_DIRECTORY))):
        with pytest.raises(InvalidVoterChangeError):
            add(one, voter)
    with pytest.raises(InvalidVoterChangeError, match="not a voter"):
        remove(one, 3)
    remove(one, 2)
    with pytest.raises(InvalidVoterChangeError, match="only voter"):
        remove(one, 1)


def test_fewer_voters_may_commit_what_waited() -> None:
    one = led(1, 2, 3, 4)
    one.propose()
    one.fetched(2)
    assert one.high_watermark == 2
    remove(one, 4)
    assert one.high_watermark == 3


@pytest.mark.invariant("R14")
def test_a_leader_that_removed_itself_leaves_when_that_is_committed() -> None:
    one = led(1, 2, 3)
    remove(one, 1)
    one.fetched(2)
    assert (one.role, one.high_watermark) == ("leader", 2)
    ready = one.fetched(3)
    assert (one.role, one.high_watermark) == ("unattached", 3)
    assert [to for to, _ in sent(ready, EndEpochRequest)] == [2, 3]
    for _ in range(10):
        assert not sent(one.timeout(), VoteRequest)


@pytest.mark.invariant("R14")
def test_a_removed_leader_needs_a_majority_of_the_others() -> None:
    one = led(1, 2, 3)
    remove(one, 1)
    for _ in range(3):
        one.fetched(2, offset=2)
        one.wait(1001)
    assert one.role == "unattached"


def test_a_change_that_is_cut_is_undone() -> None:
    one = One()
    voters = Batch(0, 1, BatchKind.VOTERS, voters=voter_set(1, 2, 3, 4))
    one.step(answer(one.follow(), batches=(voters,)))
    assert one.core.voters == voter_set(1, 2, 3, 4)
    one.step(answer(one.follow(leader=3, epoch=2), leader=3, diverging=EpochEnd(0, 0)))
    assert one.core.voters == voter_set(1, 2, 3)


@pytest.mark.invariant("R20")
def test_a_replica_whose_removal_nobody_else_may_have_stands_but_does_not_vote_for_itself() -> None:
    log = LogSummary(end_offset=2, epochs=((1, 0),), voters=((0, voter_set(1, 2)), (1, voter_set(2))))
    one = One(log=log, state=QuorumState(1))
    assert [to for to, _ in sent(one.stand(), VoteRequest)] == [2]
    assert one.role == "prospective"
