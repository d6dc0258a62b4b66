"""What Raft needs to know of the log: where epochs begin, which voter sets it holds, how much of it is
fsynced.

The records themselves stay outside. Epochs never fall along a log, so a list of their first offsets gives
the epoch of every record, and two logs agree up to an offset if they have the same epoch just before it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from rookery.controller.raft.errors import CorruptStateError
from rookery.controller.raft.messages import Batch, EpochEnd, SnapshotId
from rookery.controller.raft.ready import LogWrite
from rookery.controller.raft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The log as found on disk; storage builds this while it recovers the log."""

    start_offset: int = 0
    """0, or the end of a snapshot that is kept."""
    end_offset: int = 0
    start_epoch: int = 0
    """Epoch of the snapshot that ends at start_offset; 0 if there is none."""
    start_voters: VoterSet | None = None
    """The voter set in the snapshot that ends at start_offset."""
    epochs: tuple[tuple[int, int], ...] = ()
    """(epoch, offset of its first record), ascending, of the records in the log."""
    voters: tuple[tuple[int, VoterSet], ...] = ()
    """(offset, voter set) of the VOTERS records in the log, ascending."""
    snapshot: SnapshotId | None = None
    """The latest snapshot on disk; it ends within [start_offset, end_offset]."""


class LogIndex:
    """The structure of one replica's log, kept in step with the writes handed to the driver."""

    def __init__(self, summary: LogSummary) -> None:
        self.start_offset = summary.start_offset
        self.start_epoch = summary.start_epoch
        self.end_offset = summary.end_offset
        self.flushed_offset = summary.end_offset
        self.snapshot = summary.snapshot
        self._epochs = list(summary.epochs)
        self._voters = list(summary.voters)
        self._unflushed: deque[tuple[int, int]] = deque()
        self._writes = 0
        if summary.start_voters is not None:
            self._voters.insert(0, (self.start_offset - 1, summary.start_voters))
        self._check(summary)

    def _check(self, found: LogSummary) -> None:
        offsets = [found.start_offset, *(offset for _, offset in self._epochs)]
        epochs = [found.start_epoch, *(epoch for epoch, _ in self._epochs)]
        snapshot_end = found.snapshot.end_offset if found.snapshot else 0
        sound = (
            offsets == sorted(offsets)
            and epochs == sorted(epochs)
            and (not self._epochs or self._epochs[-1][1] < found.end_offset)
            and bool(self._epochs) == (found.end_offset > found.start_offset)
            and (found.start_offset <= snapshot_end <= found.end_offset)
        )
        if not sound:
            raise CorruptStateError(
                f"the metadata log contradicts itself: {found}"
            )

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, be it in the log or in the snapshot before it."""
        return self._epochs[-1][0] if self._epochs else self.start_epoch

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """The last epoch in the log that is not above `epoch`, and where it ends; None if that is before
        the start."""
        index = bisect_right(self._epochs, epoch, key=_epoch_of)
        end = self._epochs[index][1] if index < len(self._epochs) else self.end_offset
        if index:
            return EpochEnd(self._epochs[index - 1][0], end)
        return EpochEnd(self.start_epoch, self.start_offset) if epoch >= self.start_epoch else None

    def epoch_before(self, offset: int) -> int:
        """Epoch of the record before `offset`."""
        index = bisect_right(self._epochs, offset - 1, key=_offset_of)
        return self._epochs[index - 1][0] if index else self.start_epoch

    @property
    def voters(self) -> VoterSet | None:
        """The last voter set in the log, committed or not; None if it holds none."""
        return self._voters[-1][1] if self._voters else None

    @property
    def voters_offset(self) -> int:
        """Where the last voter set stands."""
        return self._voters[-1][0] if self._voters else -1

    def voters_before(self, offset: int) -> VoterSet | None:
        """The voter set in force after the records below `offset`."""
        index = bisect_right(self._voters, offset - 1, key=_offset_of_voters)
        return self._voters[index - 1][1] if index else None

    @property
    def is_flushed(self) -> bool:
        """Whether every change of the log is known to be on disk."""
        return not self._unflushed

    # -- changing --------------------------------------------------------------------------------------------

    def append(self, batches: Iterable[Batch]) -> LogWrite:
        appended = tuple(batches)
        for batch in appended:
            self._append_one(batch)
        return self._write(LogWrite(self._writes + 1, appended))

    def _append_one(self, batch: Batch) -> None:
        if batch.base_offset != self.end_offset or batch.epoch < self.last_epoch or batch.count < 1:
            raise CorruptStateError(
                f"{batch} does not follow a log that ends at {self.end_offset} in epoch {self.last_epoch}"
            )
        if not self._epochs or batch.epoch > self.last_epoch:
            self._epochs.append((batch.epoch, batch.base_offset))
        if batch.voters is not None:
            self._voters.append((batch.base_offset, batch.voters))
        self.end_offset = batch.end_offset

    def truncate(self, end_offset: int) -> LogWrite:
        """Forget the records at and above `end_offset`, and the voter sets among them."""
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self._unflushed = deque((number, min(end, end_offset)) for number, end in self._unflushed)
        while self._epochs and self._epochs[-1][1] >= end_offset:
            self._epochs.pop()
        while self._voters and self._voters[-1][0] >= max(end_offset, self.start_offset):
            self._voters.pop()
        return self._write(LogWrite(self._writes + 1, truncate_to=end_offset))

    def _write(self, write: LogWrite) -> LogWrite:
        self._writes = write.number
        self._unflushed.append((write.number, self.end_offset))
        return write

    def flushed(self, number: int) -> None:
        """The writes up to `number` are on disk. A number from before a snapshot took the log's place says
        nothing."""
        while self._unflushed and self._unflushed[0][0] <= number:
            self.flushed_offset = self._unflushed.popleft()[1]

    def restart_at(self, snapshot: SnapshotId, voters: VoterSet) -> None:
        """The snapshot has taken the place of the whole log."""
        self.snapshot = snapshot
        self.start_offset = self.end_offset = self.flushed_offset = snapshot.end_offset
        self.start_epoch = snapshot.epoch
        self._epochs.clear()
        self._voters = [(snapshot.end_offset - 1, voters)]
        self._unflushed.clear()

    def advance_start(self, offset: int) -> None:
        """Forget what is below `offset`; a snapshot that ends there holds it."""
        self.start_epoch = self.epoch_before(offset)
        voters = self.voters_before(offset)
        self._epochs = [(epoch, max(first, offset)) for epoch, first in self._epochs_from(offset)]
        self._voters = [entry for entry in self._voters if entry[0] >= offset]
        if voters is not None:
            self._voters.insert(0, (offset - 1, voters))
        self.start_offset = offset

    def _epochs_from(self, offset: int) -> list[tuple[int, int]]:
        if offset >= self.end_offset:
            return []
        return self._epochs[bisect_right(self._epochs, offset, key=_offset_of) - 1 :]


def _epoch_of(entry: tuple[int, int]) -> int:
    return entry[0]


def _offset_of(entry: tuple[int, int]) -> int:
    return entry[1]


def _offset_of_voters(entry: tuple[int, VoterSet]) -> int:
    return entry[0]
