"""Which leader epoch began at which offset: the history that truncation after a failover follows.

The file `leader-epoch-checkpoint` and the batches say the same thing, so the file is a cache: it is written
with every flush and at close, and rebuilt from the batches when it is missing, damaged or behind.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from rookery.core.disk import Disk
from rookery.core.log import names
from rookery.core.log.checkpoints import CheckpointDamaged, decode_lines, encode_lines, parse_number
from rookery.core.log.errors import LogCorrupt, LogDirFailed
from rookery.core.log.segment import Segment
from rookery.core.wire.batch import BatchHeader

_base_offset = attrgetter("base_offset")
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
        """Record that `epoch` begins at `start_offset`. Later entries that contradict it are dropped."""
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
        """The largest epoch not above `epoch` and where it ended; unknown if this log has no such epoch.

        An epoch after the latest is unknown too: this log has no batch of it yet.
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


# --- on disk


def encode_epochs(entries: list[EpochStart]) -> bytes:
    return encode_lines(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(path: str, content: bytes) -> list[EpochStart]:
    entries = [EpochStart(parse_number(path, e), parse_number(path, s)) for e, s in decode_lines(path, content, 2)]
    for before, after in pairwise(entries):
        if before.epoch >= after.epoch or before.start_offset >= after.start_offset:
            raise CheckpointDamaged(path, f"{after} does not come after {before}")
    return entries


def checkpointed_epochs(disk: Disk, folder: str) -> list[EpochStart] | None:
    """What the checkpoint says; None if it is missing or damaged."""
    path = f"{folder}/{names.LEADER_EPOCHS}"
    try:
        return decode_epochs(path, disk.read(path)) if disk.exists(path) else None
    except CheckpointDamaged:
        return None
    except OSError as error:
        raise LogDirFailed("reading", path, error) from error


def read_epochs(disk: Disk, folder: str, segments: list[Segment], start: int, end: int) -> LeaderEpochs:
    """The epochs of the batches from `start` to `end`."""
    found = checkpointed_epochs(disk, folder)
    if found is not None:
        epochs = LeaderEpochs(found)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
        if _agrees(epochs, segments, start, end):
            return epochs
    epochs = LeaderEpochs()
    for segment in segments:
        for _, header in segment.headers(0):
            note_epoch(epochs, header)
    epochs.truncate_from_start(start)
    epochs.changed = True
    return epochs


def note_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    if header.partition_leader_epoch > epochs.latest_epoch:
        epochs.assign(header.partition_leader_epoch, header.base_offset)


def confirmed(epochs: LeaderEpochs, segments: list[Segment], end: int) -> bool:
    """Whether the batches before `end` have the epochs that are said."""
    try:
        return _agrees(epochs, segments, segments[0].base_offset, end)
    except LogCorrupt:
        return False


def _agrees(epochs: LeaderEpochs, segments: list[Segment], start: int, end: int) -> bool:
    """Whether the batches on both sides of every boundary, and the last batch, have the epoch that is said."""
    offsets = {start, end - 1}
    for entry in epochs.entries:
        offsets |= {entry.start_offset - 1, entry.start_offset}
    for offset in sorted(o for o in offsets if start <= o < end):
        header = _batch_at(segments, offset)
        if header is not None and epochs.epoch_at(max(header.base_offset, start)) != max(
            header.partition_leader_epoch, NO_EPOCH
        ):
            return False
    return True


def _batch_at(segments: list[Segment], offset: int) -> BatchHeader | None:
    """The first batch that ends at or after `offset`."""
    first = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
    found = (segment.find(offset) for segment in segments[first:])
    return next((place[1] for place in found if place is not None), None)
