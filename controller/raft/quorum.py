"""Majorities: the arithmetic on which everything else rests."""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import TypeVar

Number = TypeVar("Number", int, float)


def majority(members: int) -> int:
    """How many of `members` make any two such groups share one."""
    return members // 2 + 1


def reached_by_majority(values: Iterable[Number]) -> Number:
    """The highest value that a majority has reached: of log ends the committed one, of the times of last
    contact the moment since which a majority has been silent."""
    ordered = sorted(values, reverse=True)
    if not ordered:
        raise ValueError("an empty quorum decides nothing")
    return ordered[majority(len(ordered)) - 1]


class Outcome(Enum):
    OPEN = "open"
    WON = "won"
    LOST = "lost"


def election_outcome(
    voters: Collection[int], granted: Collection[int], refused: Collection[int], needed: int
) -> Outcome:
    """Where an election stands that takes `needed` votes; answers of nodes that are not voters do not count."""
    if sum(node in granted for node in voters) >= needed:
        return Outcome.WON
    if len(voters) - sum(node in refused for node in voters) < needed:
        return Outcome.LOST
    return Outcome.OPEN
