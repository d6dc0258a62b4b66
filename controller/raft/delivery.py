"""Delivers the committed part of the log to its listeners, in order, in slices that leave the loop free.

Live records, restarts and snapshots that arrive are handled alike: a reader has a position; what is committed behind it
is read from the log; when the log no longer reaches back to it, the latest snapshot is loaded in its place.
"""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from rookery.controller.raft.storage import RaftStorage
from rookery.core.metadata_log import MetadataListener, committed_batches

SLICE_BYTES = 256 << 10
_START = -1


class _Leader(NamedTuple):
    leader_id: int
    epoch: int
    after: int
    """Reported once everything up to and including this offset is delivered."""


@dataclass(slots=True, eq=False)
class _Reader:
    listener: MetadataListener
    position: int = _START
    leader: _Leader | None = None


class Delivery:
    """Feeds any number of listeners; calls to them never overlap."""

    def __init__(self, storage: RaftStorage) -> None:
        self._storage = storage
        self._readers: list[_Reader] = []
        self._high_watermark = 0
        self._leader: _Leader | None = None
        self._wake = asyncio.Event()

    def subscribe(self, listener: MetadataListener) -> None:
        """Deliver to `listener`, from the beginning."""
        self._readers.append(_Reader(listener, leader=self._leader))
        self._wake.set()

    def committed(self, high_watermark: int) -> None:
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._wake.set()

    def leader(self, leader_id: int, epoch: int, after: int = -1) -> None:
        """Report the leader to every listener, once it has everything up to `after`; replaces a waiting report."""
        self._leader = _Leader(leader_id, epoch, after)
        for reader in self._readers:
            reader.leader = self._leader
        self._wake.set()

    def snapshot_installed(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if await self._advance():
                self._wake.set()
                await asyncio.sleep(0)

    async def _advance(self) -> bool:
        """One slice for those furthest behind; False when there is nothing to deliver."""
        for reader in self._readers:
            if reader.position < self._storage.start_offset or reader.position == _START:
                await self._load(reader)
        self._report_leader()
        behind = [reader for reader in self._readers if reader.position < self._high_watermark]
        if not behind:
            return False
        start = min(reader.position for reader in behind)
        if start < self._storage.start_offset or start == _START:
            return True  # another snapshot took the place of the log meanwhile
        data, next_offset = self._storage.read(start, self._high_watermark, SLICE_BYTES)
        if next_offset <= start:
            return False  # committed by the others, not here yet
        batches = list(committed_batches(data, start, next_offset))
        for reader in behind:
            if reader.position == start:
                for batch in batches:
                    reader.listener.on_commit(batch)
                reader.position = next_offset
        self._report_leader()
        return True

    async def _load(self, reader: _Reader) -> None:
        snapshot = self._storage.latest_snapshot
        if snapshot is not None and snapshot.end_offset > reader.position:
            try:
                _, values = await asyncio.to_thread(self._storage.snapshots.load, snapshot)
            except FileNotFoundError:
                if self._storage.latest_snapshot == snapshot:
                    raise
                return  # a newer one took its place: that is loaded next
            reader.listener.on_snapshot(snapshot, values)
            reader.position = snapshot.end_offset
        else:
            reader.position = max(reader.position, 0)

    def _report_leader(self) -> None:
        for reader in self._readers:
            pending = reader.leader
            if pending is not None and reader.position > pending.after:
                reader.leader = None
                reader.listener.on_leader(pending.leader_id, pending.epoch)
