"""Who may vote: replicas named by id and directory id, the set of them, and majorities of it.

The voter set lives in the log as VOTERS records and in snapshots. The last VOTERS record of a replica's log
is in force there, committed or not; cutting the log brings the one before it back.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar
from uuid import UUID

UNKNOWN_DIRECTORY = UUID(int=0)


class ReplicaKey(NamedTuple):
    """One replica: a node and the disk it runs on. The same node on a new disk is another replica, because what the old
    disk had promised (votes, acknowledged records) is gone."""

    id: int
    directory_id: UUID

    def __str__(self) -> str:
        return f"{self.id}/{str(self.directory_id)[-4:]}"


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the quorum. A voter that came from configuration has no directory id until the first leader
    has received it; until then any disk of that node is taken for it."""

    key: ReplicaKey
    endpoint: str = ""

    @property
    def id(self) -> int:
        return self.key.id

    @property
    def pinned(self) -> bool:
        return self.key.directory_id != UNKNOWN_DIRECTORY


class VoterSet:
    """An immutable set of voters with distinct node ids, ordered by id."""

    __slots__ = ("_by_id", "_key", "all_pinned")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        ordered = sorted(voters, key=lambda voter: voter.key)
        self._by_id = {voter.id: voter for voter in ordered}
        self._key = tuple(ordered)
        self.all_pinned = all(voter.pinned for voter in ordered)
        if len(self._by_id) != len(ordered):
            raise ValueError(f"two voters with one node id: {', '.join(str(voter.key) for voter in ordered)}")

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._key)

    def __len__(self) -> int:
        return len(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return "{" + ", ".join(str(voter.key) for voter in self) + "}"

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def __contains__(self, key: ReplicaKey) -> bool:
        """Whether this very replica (node and disk) votes."""
        voter = self._by_id.get(key.id)
        return voter is not None and (voter.key == key or not voter.pinned)

    def others(self, key: ReplicaKey) -> Iterator[Voter]:
        """Every voter on another node."""
        return (voter for voter in self._key if voter.id != key.id)

    def with_voter(self, voter: Voter) -> "VoterSet":
        return VoterSet((*self, voter))

    def without(self, node_id: int) -> "VoterSet":
        return VoterSet(voter for voter in self if voter.id != node_id)

    def pinned_to(self, key: ReplicaKey) -> "VoterSet":
        """The same members, with the directory id of one of them now known."""
        return VoterSet(Voter(key, voter.endpoint) if voter.id == key.id else voter for voter in self)


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
