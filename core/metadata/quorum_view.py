"""The metadata quorum as its leader describes it."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or an observer. Times are wall clock milliseconds; -1 stands for unknown or never."""

    id: int
    directory_id: UUID
    endpoint: str
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumView:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
