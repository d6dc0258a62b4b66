"""The end of the metadata log that a broker has fetched but may not use yet, because it is not committed."""

from collections import deque
from dataclasses import dataclass

from rookery.core.errors import CorruptMessageError
from rookery.core.metadata_log import CommittedBatch, SnapshotId, committed_batches
from rookery.core.wire.batch import batches
from rookery.core.wire.primitives import WireError


class ForkedError(Exception):
    """The leader's log contradicts records that were committed here."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One batch; `values` is None for Raft's own."""

    end_offset: int
    epoch: int
    size: int
    values: CommittedBatch | None


class Tail:
    """Everything below `committed` is delivered; what follows, up to `end_offset`, waits here."""

    def __init__(self) -> None:
        self.committed = 0
        self.size = 0
        self._committed_epoch = 0
        self._parts: deque[_Part] = deque()

    @property
    def end_offset(self) -> int:
        return self._parts[-1].end_offset if self._parts else self.committed

    @property
    def end_epoch(self) -> int:
        """The epoch of the record before `end_offset`."""
        return self._parts[-1].epoch if self._parts else self._committed_epoch

    def append(self, data: bytes) -> None:
        """Take whole batches; those that are here already are passed over."""
        try:
            for position, header in batches(data):
                if header.base_offset < self.end_offset:
                    continue
                if header.base_offset > self.end_offset:
                    raise CorruptMessageError(f"records {self.end_offset} to {header.base_offset} are missing")
                part = data[position : position + header.size]
                found = next(committed_batches(part, header.base_offset, header.next_offset), None)
                self._parts.append(_Part(header.next_offset, header.partition_leader_epoch, header.size, found))
                self.size += header.size
        except WireError as error:
            raise CorruptMessageError(f"records of the metadata log: {error}") from error

    def take(self, high_watermark: int) -> list[CommittedBatch]:
        """What is committed by now, in order."""
        taken = []
        while self._parts and self._parts[0].end_offset <= high_watermark:
            part = self._parts.popleft()
            self.size -= part.size
            self.committed, self._committed_epoch = part.end_offset, part.epoch
            if part.values is not None:
                taken.append(part.values)
        return taken

    def truncate(self, end_offset: int, epoch: int) -> None:
        """Forget what the leader does not have: of the epochs up to `epoch`, its log holds what ends at `end_offset`.
        ForkedError if something else was committed here."""
        if end_offset < self.committed or epoch < self._committed_epoch:
            raise ForkedError(
                f"the leader's log parts from this one at offset {end_offset} of epoch {epoch}, but records up to "
                f"{self.committed} of epoch {self._committed_epoch} were committed: the quorum has lost data, or this "
                "broker spoke to another cluster"
            )
        while self._parts and (self._parts[-1].end_offset > end_offset or self._parts[-1].epoch > epoch):
            self.size -= self._parts.pop().size

    def drop_uncommitted(self) -> None:
        """Forget everything that waits; it can be fetched again."""
        self._parts.clear()
        self.size = 0

    def restart_at(self, snapshot: SnapshotId) -> None:
        """A snapshot took the place of everything before its end."""
        self._parts.clear()
        self.size = 0
        self.committed, self._committed_epoch = snapshot.end_offset, snapshot.epoch
