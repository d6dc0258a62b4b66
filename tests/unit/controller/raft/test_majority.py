"""The arithmetic of majorities against its definition."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.controller.raft.voters import Outcome, election_outcome, majority, reached_by_majority


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9))
def test_the_highest_value_a_majority_has_reached(values: list[int]) -> None:
    naive = max(v for v in values if sum(other >= v for other in values) * 2 > len(values))
    assert reached_by_majority(values) == naive


@pytest.mark.parametrize("members", range(1, 8))
def test_any_two_majorities_share_a_member(members: int) -> None:
    groups = [set(group) for group in combinations(range(members), majority(members))]
    assert all(one & other for one in groups for other in groups)


@pytest.mark.invariant("R12")
@pytest.mark.parametrize("members", range(1, 7))
def test_majorities_of_neighbouring_sets_share_a_member(members: int) -> None:
    old = [set(group) for group in combinations(range(members), majority(members))]
    new = [set(group) for group in combinations(range(members + 1), majority(members + 1))]
    assert all(one & other for one in old for other in new)


@given(st.integers(1, 7), st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_an_election_is_open_until_enough_have_answered(members: int, yes: set[int], no: set[int]) -> None:
    no -= yes
    voters = set(range(members))
    possible = [yes | set(late) for n in range(members + 1) for late in combinations(voters - yes - no, n)]
    wins = [len(votes & voters) * 2 > members for votes in possible]
    expected = Outcome.WON if all(wins) else Outcome.OPEN if any(wins) else Outcome.LOST
    assert election_outcome(voters, yes, no, majority(len(voters))) is expected


def test_nobody_decides_in_an_empty_quorum() -> None:
    with pytest.raises(ValueError, match="empty"):
        reached_by_majority([])
