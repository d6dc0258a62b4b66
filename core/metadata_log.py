"""What readers of the metadata log are given, in controllers and brokers alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rookery.core.wire.batch import Buffer, batches, verify
from rookery.core.wire.records import read_records

METADATA_LOG = "__cluster_metadata-0"
"""The folder of the metadata log."""


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


class MetadataListener(Protocol):
    """Told, in log order, what the quorum decided. Calls never overlap and must not block."""

    def on_commit(self, batch: CommittedBatch) -> None:
        """`batch` can never be undone. Each offset is delivered once, ascending."""

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        """Forget everything and start from the state in `values`."""

    def on_leader(self, leader_id: int, epoch: int) -> None:
        """`leader_id` (-1: none known) leads `epoch`. Where this node leads, the call comes only after all
        that was committed before its own epoch has been delivered: its state is complete, it may act."""


def committed_batches(data: Buffer, start: int, end: int) -> Iterator[CommittedBatch]:
    """The data batches of `data` (whole v2 batches) in [start, end); control batches are left out.
    Raises WireError or CorruptMessageError for damaged bytes."""
    for position, header in batches(data):
        if header.base_offset < start or header.control:
            continue
        if header.next_offset > end:
            return
        verify(data, position, header)
        values = tuple(record.value or b"" for record in read_records(data, position))
        yield CommittedBatch(header.base_offset, header.partition_leader_epoch, values, header.base_timestamp)
