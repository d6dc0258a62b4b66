"""When to write a snapshot, and what may be deleted after it."""

import asyncio
from collections.abc import Callable, Iterable

from rookery.controller.raft.engine import Engine
from rookery.core.clock import Clock
from rookery.core.logs import get_logger
from rookery.core.metadata_log import SnapshotId

_log = get_logger("controller.raft.snapshot")
State = Callable[[], Iterable[bytes]]
"""The state after everything delivered so far. It is read in a thread, so it must not change afterwards."""


class Snapshotting:
    """Writes one snapshot at a time. The last two are kept, and the log since the older one, so that a follower
    that is a little behind need not download a snapshot."""

    def __init__(
        self, engine: Engine, clock: Clock, *, bytes_max: int, interval_ms: int, state: State | None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._bytes_max = bytes_max
        self._interval_ms = interval_ms
        self._state = state
        self._bytes = 0
        self._since = clock.monotonic()
        self._busy = False

    def delivered(self, size: int) -> None:
        """Note that `size` bytes of the log were delivered."""
        self._bytes += size

    def due(self) -> bool:
        waited_ms = (self._clock.monotonic() - self._since) * 1000
        by_time = 0 < self._interval_ms <= waited_ms and self._bytes > 0
        return self._state is not None and not self._busy and (by_time or self._bytes >= self._bytes_max)

    def taken(self, position: int) -> tuple[SnapshotId, Iterable[bytes]] | None:
        """The snapshot to be written now, of the state after `position` - 1; None if there is nothing new."""
        latest = self._engine.storage.latest_snapshot
        if self._state is None or position == 0 or (latest is not None and position <= latest.end_offset):
            return None
        return SnapshotId(position, self._engine.storage.epoch_before(position)), self._state()

    async def write(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        """Make the snapshot durable, tell the core, delete what it makes superfluous."""
        if self._busy:
            return
        self._busy, self._bytes, self._since = True, 0, self._clock.monotonic()
        try:
            await self._write(snapshot, values)
        finally:
            self._busy = False

    async def _write(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        engine, storage, now_ms = self._engine, self._engine.storage, self._clock.wall_ms()
        voters = engine.core.voters_at(snapshot.end_offset)
        await asyncio.to_thread(storage.snapshots.write, snapshot, voters, values, now_ms)
        previous = storage.latest_snapshot
        if previous is not None and previous.end_offset >= snapshot.end_offset:
            return  # a newer one came from the leader meanwhile
        start = storage.start_offset if previous is None else previous.end_offset
        storage.latest_snapshot = snapshot
        engine.input(lambda now: engine.core.snapshot_written(snapshot, start, now))
        await engine.with_files(lambda: storage.delete_before(start, now_ms))
        storage.roll(now_ms)
        _log.info("raft.snapshot", end_offset=snapshot.end_offset, epoch=snapshot.epoch, log_start=start)
