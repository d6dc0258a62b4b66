"""Raft nodes in one process, over real sockets, for tests of the driver."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.service import RaftService
from rookery.controller.raft.settings import RaftConfig, RaftSettings
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from rookery.controller.server import ControlServer
from rookery.core.disk import Disk
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from rookery.core.metrics import Metrics
from rookery.core.net.tls import CurrentTls
from tests.cluster.quorum import free_ports

CLUSTER_ID = "the-cluster"
FAST = RaftConfig(
    election_timeout_ms=300,
    election_backoff_max_ms=150,
    fetch_timeout_ms=30_000,  # who dies is missed because its connections close; all share one loop, which may stall
    request_timeout_ms=600,
    fetch_max_wait_ms=200,
)


async def until(what: str, holds: Callable[[], object], within_s: float = 15.0) -> None:
    """Wait for a condition; AssertionError if it does not come true in time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        await asyncio.sleep(0.005)


@dataclass
class Words:
    """A listener that keeps what it was told."""

    values: list[bytes] = field(default_factory=list)
    snapshots: list[SnapshotId] = field(default_factory=list)
    leader: tuple[int, int] = (-1, 0)
    end: SnapshotId = field(default_factory=lambda: SnapshotId(0, 0))

    def on_commit(self, batch: CommittedBatch) -> None:
        self.values.extend(batch.values)
        self.end = SnapshotId(batch.last_offset + 1, batch.epoch)

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        self.snapshots.append(snapshot)
        self.values = list(values)
        self.end = snapshot

    def on_leader(self, leader_id: int, epoch: int) -> None:
        self.leader = (leader_id, epoch)


@dataclass
class Member:
    """One node with its server and its listener."""

    settings: RaftSettings
    endpoint: str
    disk: Disk | None = None
    tls: CurrentTls | None = None

    def __post_init__(self) -> None:
        self.words = Words()
        self.metrics = Metrics()
        self.node = RaftNode(self.settings, disk=self.disk, metrics=self.metrics)
        self.node.subscribe(self.words)
        self.server = ControlServer(self.endpoint, [RaftService(self.node).register], tls=self.tls, grace_s=0.05)

    async def start(self) -> None:
        await self.server.start()
        await self.node.start()

    async def stop(self) -> None:
        await self.node.stop()
        await self.server.stop()

    @property
    def leads(self) -> bool:
        return self.words.leader[0] == self.settings.node_id

    def again(self) -> "Member":
        """The same node, to be started anew on its disk."""
        return self.again_on(self.disk)

    def again_on(self, disk: Disk | None) -> "Member":
        return Member(self.settings, self.endpoint, disk, self.tls)

    def propose(self, *values: bytes) -> int:
        return self.node.propose(self.words.leader[1], values)


class Nodes:
    def __init__(
        self, folder: Path, size: int, tls: Mapping[int, CurrentTls] | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._folder = folder
        self._tls = tls or {}
        self._host = host
        ports = free_ports(size + 2)
        self.voters = VoterSet(
            Voter(ReplicaKey(node_id, UNKNOWN_DIRECTORY), f"{host}:{ports[node_id]}")
            for node_id in range(1, size + 1)
        )
        self._spare_port = ports[0]
        self.members = [self.member(voter.id, voter.endpoint, self.voters) for voter in self.voters]

    def member(self, node_id: int, endpoint: str, voters: VoterSet, bootstrap: tuple[str, ...] = ()) -> Member:
        tls = self._tls.get(node_id)
        settings = RaftSettings(
            cluster_id=CLUSTER_ID,
            node_id=node_id,
            directory_id=UUID(int=1000 + node_id),
            folder=str(self._folder / str(node_id)),
            voters=voters,
            bootstrap=bootstrap,
            tls=tls,
            raft=FAST,
            checkpoint_interval_ms=50,
        )
        return Member(settings, endpoint, tls=tls)

    async def restart(self, node_id: int, tls: CurrentTls) -> None:
        """Stop a member, and start it again on its files with other TLS."""
        at = next(at for at, each in enumerate(self.members) if each.settings.node_id == node_id)
        await self.members[at].stop()
        settings = replace(self.members[at].settings, tls=tls)
        self.members[at] = Member(settings, self.members[at].endpoint, tls=tls)
        await self.members[at].start()

    def newcomer(self, node_id: int) -> Member:
        """A node that is not a voter and finds the quorum by its addresses."""
        bootstrap = tuple(voter.endpoint for voter in self.voters)
        self.members.append(self.member(node_id, f"{self._host}:{self._spare_port}", VoterSet(), bootstrap))
        return self.members[-1]

    async def leader(self) -> Member:
        await until("somebody leads", lambda: any(member.leads for member in self.members))
        return next(member for member in self.members if member.leads)

    async def all_have(self, values: Sequence[bytes], members: Sequence[Member] | None = None) -> None:
        wanted, among = list(values), self.members if members is None else members
        await until("all nodes have all values", lambda: all(member.words.values == wanted for member in among))


@asynccontextmanager
async def nodes(
    folder: Path, size: int, tls: Mapping[int, CurrentTls] | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Nodes]:
    """Started nodes, all stopped at the end."""
    made = Nodes(folder, size, tls, host)
    try:
        for member in made.members:
            await member.start()
        yield made
    finally:
        for member in made.members:
            await member.stop()
