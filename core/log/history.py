"""Leader epochs of a log on disk: the checkpoint if the batches agree with it, else what the batches say."""

from bisect import bisect_right
from operator import attrgetter

from rookery.core.disk import Disk
from rookery.core.log import names
from rookery.core.log.checkpoints import CheckpointDamaged, decode_epochs
from rookery.core.log.epochs import NO_EPOCH, EpochStart, LeaderEpochs
from rookery.core.log.errors import LogDirFailed
from rookery.core.log.segment import Segment
from rookery.core.wire.batch import BatchHeader

_base_offset = attrgetter("base_offset")


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
