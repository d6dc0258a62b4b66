"""Writing a snapshot that the application made, and deleting what it makes superfluous."""

import asyncio
from collections.abc import Iterable

from rookery.controller.raft.engine import Engine
from rookery.core.clock import Clock
from rookery.core.event_logging import get_logger
from rookery.core.metadata_log import SnapshotId

_log = get_logger("controller.raft.snapshot")
TODO = "free or repair the disk; until a snapshot succeeds, the metadata log grows"


class Snapshotting:
    """Writes one snapshot at a time. The last two are kept, and the log since the older one, so that a follower
    that is a little behind need not download a snapshot."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._busy = False

    def check(self, snapshot: SnapshotId) -> None:
        """Raises ValueError unless the snapshot ends at a committed record of its epoch."""
        committed = self._engine.core.replica.high_watermark
        if snapshot.end_offset > committed:
            raise ValueError(f"snapshot end {snapshot.end_offset} is past the committed {committed}")
        storage = self._engine.storage
        if snapshot.end_offset > storage.start_offset and storage.epoch_before(snapshot.end_offset) != snapshot.epoch:
            raise ValueError(f"the record before {snapshot.end_offset} is not of epoch {snapshot.epoch}")

    async def write(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        """Make the snapshot durable and tell the core. While one is being written, another is not begun."""
        if self._busy or not self._is_newest(snapshot):
            return
        self._busy = True
        try:
            await self._write(snapshot, values)
        finally:
            self._busy = False

    async def _write(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        engine, storage, now_ms = self._engine, self._engine.storage, self._clock.wall_ms()
        voters = engine.core.voters_at(snapshot.end_offset)
        try:
            await asyncio.to_thread(storage.snapshots.write, snapshot, voters, values, now_ms)
        except OSError as error:  # the log has everything; the next one is tried
            _log.error("raft.snapshot.failed", end_offset=snapshot.end_offset, reason=str(error), todo=TODO)
            return
        if not self._is_newest(snapshot):
            return  # a newer one came from the leader meanwhile
        previous, storage.latest_snapshot = storage.latest_snapshot, snapshot
        start = storage.start_offset if previous is None else previous.end_offset
        engine.input(lambda now: engine.core.snapshot_written(snapshot, start, now))
        await engine.with_files(lambda: storage.delete_before(start, now_ms))
        storage.roll(now_ms)
        _log.info("raft.snapshot", end_offset=snapshot.end_offset, epoch=snapshot.epoch, log_start=start)

    def _is_newest(self, snapshot: SnapshotId) -> bool:
        latest = self._engine.storage.latest_snapshot
        return latest is None or snapshot.end_offset > latest.end_offset
