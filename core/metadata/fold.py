"""State = fold(log): the image of a node that follows committed batches and snapshots."""

from collections.abc import Sequence

from rookery.core.metadata.codec import decode
from rookery.core.metadata.delta import Delta, ReplayError
from rookery.core.metadata.features import RELEASE, Release
from rookery.core.metadata.image import EMPTY, Changes, Image
from rookery.core.metadata_log import CommittedBatch, SnapshotId


class Fold:
    """Holds the newest image and moves only forward: what it has seen is passed over. Raises RecordError or
    UnsupportedLevelError where the cluster has moved on to what `release` does not understand."""

    def __init__(self, image: Image = EMPTY, release: Release = RELEASE) -> None:
        self.image = image
        self._release = release

    def on_commit(self, batch: CommittedBatch) -> Changes | None:
        """What `batch` changed; None where the image holds it already."""
        if batch.last_offset <= self.image.offset:
            return None
        delta = Delta(self.image)
        for offset, value in enumerate(batch.values, batch.base_offset):
            if offset > self.image.offset:
                delta.replay(decode(value, self._release), offset)
        return self.move(delta.apply(offset=batch.last_offset, epoch=batch.epoch))

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> Changes | None:
        """What is different in the snapshot; None where the image is as new."""
        if snapshot.end_offset - 1 <= self.image.offset:
            return None
        delta = Delta.from_snapshot(self.image)
        for value in values:
            delta.replay(decode(value, self._release), snapshot.end_offset - 1)
        return self.move(delta.apply(offset=snapshot.end_offset - 1, epoch=snapshot.epoch))

    def move(self, changes: Changes) -> Changes:
        """Take over what was replayed already; it must start from the image held."""
        if changes.before is not self.image:
            raise ReplayError(f"changes to {changes.before.offset} do not follow {self.image.offset}")
        if changes.after.features != self.image.features:
            self._release.check_understood(changes.after)
        self.image = changes.after
        return changes
