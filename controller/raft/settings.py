"""What one Raft node is told when it is built."""

from dataclasses import dataclass, field
from uuid import UUID

from rookery.controller.raft.config import RaftConfig
from rookery.controller.raft.voters import ReplicaKey, VoterSet
from rookery.core.log import LogConfig
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.net.tls import Tls


@dataclass(frozen=True, slots=True)
class RaftSettings:
    cluster_id: str
    node_id: int
    directory_id: UUID
    folder: str
    """metadata.log.dir: the metadata log lies in a folder of its own in there."""
    voters: VoterSet = field(default_factory=VoterSet)
    """controller.quorum.voters: the first voters of a new cluster."""
    bootstrap: tuple[str, ...] = ()
    """controller.quorum.bootstrap.servers: where a node that is not a voter yet finds the quorum."""
    tls: Tls | None = None
    raft: RaftConfig = field(default_factory=RaftConfig)
    log: LogConfig = field(default_factory=LogConfig)
    checkpoint_interval_ms: int = 5_000
    """replica.high.watermark.checkpoint.interval.ms"""
    release: Release = RELEASE

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def endpoints(self) -> dict[int, str]:
        return {voter.id: voter.endpoint for voter in self.voters if voter.endpoint}
