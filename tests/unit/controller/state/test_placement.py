"""Where replicas of new partitions go."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.controller.state.placement import Candidate, place
from rookery.core.errors import InvalidReplicationFactorError


def brokers(count: int, racks: int = 0) -> list[Candidate]:
    return [Candidate(n, f"rack-{n % racks}" if racks else None) for n in range(1, count + 1)]


@pytest.mark.row(53, 54)
def test_four_brokers_three_partitions_three_replicas() -> None:
    assert place(brokers(4), partitions=3, replication_factor=3) == [(1, 2, 3), (2, 3, 4), (3, 4, 1)]


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[Candidate], int, int, int]:
    count = draw(st.integers(1, 9))
    racks = draw(st.sampled_from((None, "a", "b", "c")) | st.just(None))
    known = [
        Candidate(n, draw(st.sampled_from(("a", "b", "c"))) if racks else None) for n in range(1, count + 1)
    ]
    factor = draw(st.integers(1, count))
    return known, draw(st.integers(1, 40)), factor, draw(st.integers(0, 1000))


@pytest.mark.row(53, 55, 56, 72)
@settings(deadline=None)
@given(layout=layouts())
def test_replicas_are_distinct_leaders_even_and_racks_used(
    layout: tuple[list[Candidate], int, int, int],
) -> None:
    known, partitions, factor, position = layout
    placed = place(known, partitions=partitions, replication_factor=factor, position=position)
    assert len(placed) == partitions
    rack_of = {broker.id: broker.rack for broker in known}
    racks = len(set(rack_of.values()))
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert len({rack_of[broker] for broker in replicas}) == min(factor, racks)
    leaders = Counter({broker.id: 0 for broker in known})
    leaders.update(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 1


@pytest.mark.row(55)
def test_the_next_topic_goes_on_where_the_last_one_ended() -> None:
    leaders = [
        place(brokers(3), partitions=1, replication_factor=1, position=position)[0][0] for position in range(6)
    ]
    assert leaders == [1, 2, 3, 1, 2, 3]


def test_the_followers_of_a_leader_differ_from_round_to_round() -> None:
    placed = place(brokers(4), partitions=12, replication_factor=2)
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4}


def test_brokers_out_of_service_get_replicas_only_where_the_others_do_not_suffice() -> None:
    known = [Candidate(1), Candidate(2, active=False), Candidate(3)]
    assert place(known, partitions=2, replication_factor=2) == [(1, 3), (3, 1)]
    for replicas in place(known, partitions=4, replication_factor=3):
        assert replicas[0] in (1, 3)
        assert replicas[2] == 2


@pytest.mark.parametrize(
    ("known", "factor", "why"),
    [
        (brokers(2), 3, "2 are registered"),
        (brokers(2), 0, "at least 1"),
        ([Candidate(1, active=False)], 1, "no broker is active"),
        ([], 1, "no broker is active"),
    ],
)
def test_an_impossible_factor_is_refused_with_the_reason(known: list[Candidate], factor: int, why: str) -> None:
    with pytest.raises(InvalidReplicationFactorError, match=why):
        place(known, partitions=1, replication_factor=factor)
