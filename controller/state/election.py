"""Who leads a partition. The order is what keeps committed records:

1. the leader it has, if it may go on; for a preferred election the first replica, if it is in sync;
2. the first live replica in sync, in replica order;
3. nobody being in sync, the first live eligible replica (ELR): it holds everything committed;
4. the ELR being empty too, the leader there was last, if it is alive and this is enabled;
5. any live replica, only where the topic allows unclean elections or an operator asks for one.

4 and 5 may lose records: the leader is marked RECOVERING and is alone in sync.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from rookery.core.types import NO_NODE


class Election(Enum):
    ONLINE = auto()
    PREFERRED = auto()
    UNCLEAN = auto()


class Candidates(NamedTuple):
    """All that an election looks at; `elr` and `last_known` count only while no replica is in sync."""

    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    last_known: int
    leader: int


class Elected(NamedTuple):
    leader: int
    clean: bool = True


NOT_ELECTED = Elected(NO_NODE)


def elect(candidates: Candidates, election: Election, can_lead: Callable[[int], bool]) -> Elected:
    """The leader by the order above; `can_lead` returns whether a broker is alive and can serve its replica."""
    for broker in _in_sync(candidates, election):
        if can_lead(broker):
            return Elected(broker)
    if not candidates.isr:
        for broker in candidates.replicas:
            if broker in candidates.elr and can_lead(broker):
                return Elected(broker)
        last = candidates.last_known
        if not candidates.elr and last in candidates.replicas and can_lead(last):
            return Elected(last, clean=False)
    if election is Election.UNCLEAN:
        for broker in candidates.replicas:
            if can_lead(broker):
                return Elected(broker, clean=False)
    return NOT_ELECTED


def _in_sync(candidates: Candidates, election: Election) -> Iterator[int]:
    """Who is in sync, in the order in which they may lead."""
    replicas, isr = candidates.replicas, candidates.isr
    if election is Election.PREFERRED and replicas[0] in isr:
        yield replicas[0]
    if candidates.leader in isr and candidates.leader in replicas:
        yield candidates.leader
    yield from (broker for broker in replicas if broker in isr)
