"""The port between the controller (what to write) and Raft (how it becomes true).

The controller proposes values and learns of committed ones; it knows nothing of votes, disks or peers. Raft's
driver implements `Quorum`; tests and simulators use the in-memory twin `LocalQuorum`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """Values that were proposed together and are now committed, in order."""

    base_offset: int
    epoch: int
    values: tuple[bytes, ...]
    append_ms: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.values) - 1


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """A snapshot holds everything below `end_offset`; `epoch` is the epoch of the last record in it."""

    end_offset: int
    epoch: int


class QuorumListener(Protocol):
    """Told, in log order, what the quorum decided. Calls never overlap and must not block."""

    def on_commit(self, batch: CommittedBatch) -> None:
        """`batch` can never be undone. Each offset is delivered once, ascending."""

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        """Forget everything and start from the state in `values`."""

    def on_leader(self, leader_id: int, epoch: int) -> None:
        """`leader_id` (-1: none known) leads `epoch`. Where this node leads, the call comes only after all
        that was committed before its own epoch has been delivered: its state is complete, it may act."""


class Quorum(Protocol):
    """What the controller may ask of Raft."""

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        """Append `values` as one atomic batch in `epoch` and return the offset of the last. They are not
        committed yet: `on_commit` tells. Raises NotControllerError unless this node leads `epoch`."""

    def write_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        """Persist a snapshot of the state after `snapshot.end_offset - 1` and let the log behind it go."""

    @property
    def leader(self) -> tuple[int, int]:
        """(leader id or -1, epoch) as known here."""
