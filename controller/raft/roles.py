"""The roles a replica can have in an epoch, each with what only it needs, and how one may follow another."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from rookery.controller.raft.messages import FetchRequest, SnapshotId
from rookery.controller.raft.progress import ProgressTable
from rookery.controller.raft.voters import ReplicaKey


@dataclass(slots=True)
class Outstanding:
    """The one request in flight to the leader."""

    correlation: int
    deadline_ms: float
    fetch_offset: int = -1
    last_fetched_epoch: int = -1


@dataclass(slots=True)
class Unattached:
    """Knows no leader. A voter stands for election at `deadline_ms`; an observer asks the bootstrap servers
    then."""

    deadline_ms: float
    search: Outstanding | None = None
    name = "unattached"

    def deadlines(self) -> Iterator[float]:
        yield self.search.deadline_ms if self.search else self.deadline_ms


@dataclass(slots=True)
class Ballot:
    """One round of asking for votes, or for promises of votes."""

    deadline_ms: float
    """When to give this round up and begin the next."""
    granted: set[int] = field(default_factory=set)
    disks: dict[int, UUID] = field(default_factory=dict)
    """Which disk of a voter granted its vote."""
    refused: set[int] = field(default_factory=set)
    asked: dict[int, int] = field(default_factory=dict)
    """Node id -> correlation of the request that may still be answered."""
    resend_ms: dict[int, float] = field(default_factory=dict)
    """Node id -> when to ask again, after a request that failed."""
    failures: int = 0

    def deadlines(self) -> Iterator[float]:
        yield self.deadline_ms
        yield from self.resend_ms.values()


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected. Its epoch does not rise, so a replica cut off from the others does not disturb
    them when it comes back."""

    ballot: Ballot
    name = "prospective"

    def deadlines(self) -> Iterator[float]:
        return self.ballot.deadlines()


@dataclass(slots=True)
class Candidate:
    """Asks for votes in an epoch of its own."""

    ballot: Ballot
    name = "candidate"

    def deadlines(self) -> Iterator[float]:
        return self.ballot.deadlines()


@dataclass(slots=True)
class Download:
    """A snapshot on its way from the leader of `epoch`; another leader's file may differ in bytes, so it is not
    continued with one."""

    epoch: int
    snapshot: SnapshotId
    position: int = 0


@dataclass(slots=True)
class Follower:
    """Copies the leader's log. An observer is a follower outside the voter set."""

    leader_id: int
    leader_endpoint: str
    fetch_deadline_ms: float
    """Without a good answer by then the leader is given up."""
    answered: bool = False
    """Whether the leader itself has answered since it is followed. Until then only a peer has reported it."""
    request: Outstanding | None = None
    retry_ms: float = -math.inf
    """Not before this moment may the next request leave."""
    download: Download | None = None
    leader_high_watermark: int = 0
    name = "follower"

    def deadlines(self) -> Iterator[float]:
        yield self.fetch_deadline_ms
        if self.request:
            yield self.request.deadline_ms
        elif self.retry_ms > -math.inf:
            yield self.retry_ms


@dataclass(slots=True)
class ParkedFetch:
    """A fetch that is answered when there is news, or at its deadline."""

    request: FetchRequest
    deadline_ms: float


@dataclass(slots=True)
class Transfer:
    """A handing over of leadership in progress: no proposals are taken."""

    deadline_ms: float
    for_good: bool


@dataclass(slots=True)
class Leader:
    """Appends and serves the log of its epoch."""

    epoch_start_offset: int
    """Offset of the record that opened the epoch."""
    progress: ProgressTable
    since_ms: float
    announce_ms: float = 0.0
    """When to announce the epoch again to voters that do not fetch."""
    check_quorum_ms: float = 0.0
    """When to look whether a majority is still there."""
    sent_news: tuple[int, int] = (-1, -1)
    """Log end and high watermark when parked fetches were last looked through."""
    parked: dict[ReplicaKey, ParkedFetch] = field(default_factory=dict)
    parked_ms: float = math.inf
    """No parked fetch is due before this moment."""
    transfer: Transfer | None = None
    name = "leader"

    def deadlines(self) -> Iterator[float]:
        yield self.announce_ms
        yield self.check_quorum_ms
        yield self.parked_ms
        if self.transfer:
            yield self.transfer.deadline_ms


Role = Unattached | Prospective | Candidate | Follower | Leader

NEXT_IN_EPOCH: dict[type[Role], frozenset[type[Role]]] = {
    Unattached: frozenset({Unattached, Prospective, Follower}),
    Prospective: frozenset({Prospective, Follower, Unattached}),
    Candidate: frozenset({Leader, Prospective, Follower, Unattached}),
    Follower: frozenset({Unattached, Prospective}),
    Leader: frozenset({Unattached}),
}
"""Which role may follow which within one epoch. A higher epoch leads to Unattached, Follower or, from
Prospective, Candidate."""
