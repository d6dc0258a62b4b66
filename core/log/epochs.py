"""Which leader epoch began at which offset: the history that truncation after a failover follows.

The file `leader-epoch-checkpoint` and the batches say the same thing, so the file is a cache: it is written
with every flush and at close, and rebuilt from the batches when it is missing, damaged or behind.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

NO_EPOCH = -1
NO_OFFSET = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The answer of OffsetForLeaderEpoch: an epoch, and where it ended in this log."""

    epoch: int
    end_offset: int


UNKNOWN = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """Epochs and their start offsets, both strictly ascending."""

    __slots__ = ("_epochs", "_starts", "changed", "latest_epoch")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = NO_EPOCH  # kept, since every append compares its own with it
        for epoch, start in entries:
            self.assign(epoch, start)
        self.changed = False  # since the file was written

    @property
    def entries(self) -> list[EpochStart]:
        return [EpochStart(*pair) for pair in zip(self._epochs, self._starts, strict=True)]

    @property
    def latest(self) -> EpochStart | None:
        return EpochStart(self._epochs[-1], self._starts[-1]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Say that `epoch` begins at `start_offset`. Later entries that contradict it are dropped."""
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} cannot start at offset {start_offset}")
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._change()

    def end_offset_for(self, epoch: int, log_end: int) -> EpochEnd:
        """The largest epoch not above `epoch` and where it ended; unknown if this log cannot tell.

        An epoch after the latest is unknown too: this log has not heard of it.
        """
        if epoch == NO_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNKNOWN
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end)
        after = bisect_right(self._epochs, epoch)
        if after == 0:
            # every known epoch is later: what came before ended where the first one starts
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[after - 1], self._starts[after])

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`, or -1."""
        after = bisect_right(self._starts, offset)
        return self._epochs[after - 1] if after else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`: forget epochs that start there or later."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self._change()

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now starts at `start_offset`: the epoch there starts there, older ones are forgotten."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering > 0 or (covering == 0 and self._starts[0] != start_offset):
            del self._epochs[:covering], self._starts[:covering]
            self._starts[0] = start_offset
            self._change()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._change()

    def _change(self) -> None:
        self.changed = True
        self.latest_epoch = self._epochs[-1] if self._epochs else NO_EPOCH
