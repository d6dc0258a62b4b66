"""Periodic work of a controller. Each controller writes snapshots of its committed image; the active one also hands
leadership back to preferred replicas and keeps the log moving."""

from collections.abc import Callable, Iterator, Sequence

from rookery.controller.settings import ControllerSettings
from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.elect_leaders import imbalanced, rebalance
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Image
from rookery.core.metadata.records import NoOpRecord, PartitionRecord, Record

_log = get_logger("controller")
ELECTIONS_MAX = 1000
"""Preferred elections at a time, so that a rebalance never stops the world; the rest follows at the next tick."""

Work = tuple[str, Callable[[Image], Decision[None]], bool]
"""Its name, the decision, and whether it may touch every partition."""


class Upkeep:
    """Keeps the timers; the work itself is handled like any request."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._rebalance_at = 0.0
        self._idle_at = 0.0
        self.position = 0

    def begin(self, now: float, image: Image) -> None:
        """This node has become active."""
        self._rebalance_at = now + self._settings.rebalance_check_s
        self._idle_at = now + self._settings.idle_record_s
        self.position = sum(len(topic.partitions) for topic in image.topics.values())

    def proposed(self, now: float, records: Sequence[Record]) -> None:
        self._idle_at = now + self._settings.idle_record_s
        self.position += sum(isinstance(record, PartitionRecord) for record in records)

    def due(self, now: float, image: Image) -> Iterator[Work]:
        if self._settings.rebalance_check_s and now >= self._rebalance_at:
            self._rebalance_at = now + self._settings.rebalance_check_s
            if any(imbalanced(partition) for _, _, partition in image.partitions()):
                yield "rebalance", self._rebalance, True
        if self._settings.idle_record_s and now >= self._idle_at:
            yield "idle", lambda image: decided([NoOpRecord()], None), False

    def _rebalance(self, image: Image) -> Decision[None]:
        records = rebalance(image, self._settings.defaults, ELECTIONS_MAX)
        if records:
            _log.info("leaders.rebalanced", partitions=len(records))
        if len(records) == ELECTIONS_MAX:
            self._rebalance_at = 0.0
        return decided(records, None)


class SnapshotTimer:
    """When to write a snapshot: after so many bytes of log, or after so long a time with any."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._bytes = 0
        self._oldest: float | None = None

    def committed(self, now: float, size: int) -> None:
        """`size` bytes of log are committed; 0 stands for a snapshot that was installed."""
        if size == 0:
            self._bytes, self._oldest = 0, None
            return
        self._bytes += size
        self._oldest = now if self._oldest is None else self._oldest

    def due(self, now: float) -> bool:
        """Whether to write one now; the next is due after as much again."""
        if self._oldest is None:
            return False
        interval = self._settings.snapshot_interval_s
        if self._bytes < self._settings.snapshot_bytes and not 0 < interval <= now - self._oldest:
            return False
        self._bytes, self._oldest = 0, None
        return True
