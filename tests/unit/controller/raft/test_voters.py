import pytest

from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from tests.unit.controller.raft.one import key, voter_set


@pytest.mark.invariant("R13")
def test_a_node_on_another_disk_is_not_the_voter() -> None:
    assert key(1) in voter_set(1, 2)
    assert ReplicaKey(1, key(2).directory_id) not in voter_set(1, 2)


def test_a_voter_without_known_disk_is_any_disk_of_that_node() -> None:
    voters = VoterSet([Voter(ReplicaKey(1, UNKNOWN_DIRECTORY), "a:1")])
    assert key(1) in voters
    assert not voters.all_pinned
    pinned = voters.pinned_to(key(1))
    assert pinned.all_pinned
    assert pinned.get(1) == Voter(key(1), "a:1")


def test_sets_are_equal_whatever_the_order() -> None:
    assert VoterSet(reversed(list(voter_set(1, 2, 3)))) == voter_set(1, 2, 3)
    assert hash(voter_set(1, 2)) == hash(voter_set(1, 2))
    assert voter_set(1, 2).with_voter(Voter(key(3), "node3:9093")).without(1) == voter_set(2, 3)


def test_one_node_cannot_be_two_voters() -> None:
    with pytest.raises(ValueError, match="one node id"):
        VoterSet([Voter(key(1)), Voter(ReplicaKey(1, key(2).directory_id))])
