"""The port between the controller (what to write) and Raft (how it is committed).

The controller proposes values and learns of committed ones; it knows nothing of votes, disks or peers. Raft's
driver implements `Quorum`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rookery.core.metadata.image import FeatureRange
from rookery.core.metadata_log import SnapshotId

VoterFeatures = Mapping[int, Sequence[FeatureRange] | None]
"""What the releases of voters understand, by node id; None of a voter that has not reported it."""


class Quorum(Protocol):
    """What the controller may ask of Raft."""

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        """Append `values` as one atomic batch in `epoch` and return the offset of the last. They are not
        committed yet: `on_commit` reports that. Raises NotControllerError unless this node leads `epoch`."""

    def write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        """Begin to persist a snapshot of the state after `snapshot.end_offset - 1`; the log behind it goes when that is
        done. A thread may iterate over `values`, after this call."""

    @property
    def leader(self) -> tuple[int, int]:
        """(leader id or -1, epoch) as known here."""

    def voter_features(self) -> VoterFeatures:
        """Of all voters but this node, as they reported to the leader."""
