"""When a node writes a snapshot of its committed image: on every controller, leading or not."""

from collections.abc import Callable

from rookery.controller.quorum import Quorum, SnapshotId
from rookery.controller.settings import ControllerSettings
from rookery.core.metadata.features import Release
from rookery.core.metadata.image import Image
from rookery.core.metadata.snapshot import snapshot_values


class Snapshots:
    """Asks for a snapshot after so many bytes of log, or after so long a time with any."""

    def __init__(self, settings: ControllerSettings, take: Callable[[Image], None]) -> None:
        self._settings = settings
        self._take = take
        self._bytes = 0
        self._oldest: float | None = None

    def committed(self, now: float, size: int) -> None:
        """`size` bytes of log are committed; 0 stands for a snapshot that was installed."""
        if size == 0:
            self._bytes, self._oldest = 0, None
            return
        self._bytes += size
        self._oldest = now if self._oldest is None else self._oldest

    def tick(self, now: float, image: Image) -> None:
        if self._oldest is None:
            return
        interval = self._settings.snapshot_interval_s
        if self._bytes >= self._settings.snapshot_bytes or 0 < interval <= now - self._oldest:
            self._bytes, self._oldest = 0, None
            self._take(image)


def snapshot_id(image: Image) -> SnapshotId:
    return SnapshotId(image.offset + 1, image.epoch)


def write_snapshot(quorum: Quorum, image: Image, release: Release) -> None:
    quorum.write_snapshot(snapshot_id(image), snapshot_values(image, release))
