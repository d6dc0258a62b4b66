"""Who leads, against an oracle that spells the order out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.controller.state.election import Candidates, Elected, Election, elect

BROKERS = (1, 2, 3, 4)
SOME = st.lists(st.sampled_from(BROKERS), unique=True, max_size=4).map(tuple)


def oracle(c: Candidates, election: Election, alive: set[int]) -> tuple[int, bool]:
    """(leader, clean), one rule a line, in order of preference."""
    rules: list[tuple[list[int], bool]] = []
    if election is Election.PREFERRED:
        rules.append(([c.replicas[0]] if c.replicas[0] in c.isr else [], True))
    rules.append(([c.leader] if c.leader in c.isr else [], True))
    rules.append(([b for b in c.replicas if b in c.isr], True))
    if not c.isr:
        rules.append(([b for b in c.replicas if b in c.elr], True))
        if not c.elr:
            rules.append(([c.last_known], False))
    if election is Election.UNCLEAN:
        rules.append((list(c.replicas), False))
    for who, clean in rules:
        for broker in who:
            if broker in alive and broker in c.replicas:
                return broker, clean
    return -1, True


@pytest.mark.row(65, 66)
@pytest.mark.invariant("M9")
@settings(deadline=None, max_examples=500)
@given(
    replicas=SOME.filter(bool),
    isr=SOME,
    elr=SOME,
    last=st.sampled_from((-1, *BROKERS)),
    leader=st.sampled_from((-1, *BROKERS)),
    alive=st.sets(st.sampled_from(BROKERS)),
    election=st.sampled_from(Election),
)
def test_the_order_of_election(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    last: int,
    leader: int,
    alive: set[int],
    election: Election,
) -> None:
    candidates = Candidates(replicas, isr, elr, last, leader)
    elected = elect(candidates, election, alive.__contains__)
    assert (elected.leader, elected.clean) == oracle(candidates, election, alive)


@pytest.mark.invariant("M9")
def test_the_last_known_leader_must_be_alive() -> None:
    candidates = Candidates((1, 2), (), (), last_known=1, leader=-1)
    assert elect(candidates, Election.ONLINE, {2}.__contains__) == Elected(-1)
    assert elect(candidates, Election.ONLINE, {1}.__contains__) == Elected(1, clean=False)
