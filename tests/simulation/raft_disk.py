"""A disk for one Raft replica: what was fsynced survives a power cut, of the rest a part may.

The log is a list of batches. Beside the current content stands the synced one; changes wait in between, in
order. A power cut keeps the synced content and any prefix of the waiting changes.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from uuid import UUID
from zlib import crc32

from rookery.controller.raft.log import LogSummary
from rookery.controller.raft.messages import Batch, SnapshotId
from rookery.controller.raft.ready import LogWrite, QuorumState
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet

Batches = list[Batch]


def chained(before: int, batch: Batch) -> int:
    """A hash of a log up to and including `batch`; free of string hashes, so equal in every process."""
    payload = batch.payload if isinstance(batch.payload, int) else 0
    members = tuple((voter.key.id, voter.key.directory_id.int) for voter in batch.voters or ())
    return hash((before, batch.base_offset, batch.count, batch.epoch, payload, members))


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """The state machine of the simulation is the hash of all that was applied."""

    id: SnapshotId
    content: bytes

    @classmethod
    def of(cls, id: SnapshotId, chain: int, voters: VoterSet, author: int) -> "StoredSnapshot":
        """The author is part of the content: the same snapshot by two nodes has different bytes."""
        members = [[voter.key.id, voter.key.directory_id.int] for voter in voters]
        body = json.dumps({"chain": chain, "voters": members, "author": author, "filler": "." * (author * 7)})
        return cls(id, f"{body}|{crc32(body.encode())}".encode())

    def read(self) -> tuple[int, VoterSet]:
        body, _, checksum = self.content.decode().rpartition("|")
        if crc32(body.encode()) != int(checksum):
            raise ValueError(f"{self.id} is damaged: {self.content!r}")
        stored = json.loads(body)
        voters = VoterSet(Voter(ReplicaKey(id, UUID(int=directory))) for id, directory in stored["voters"])
        return stored["chain"], voters


class RaftDisk:
    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.state: QuorumState | None = None
        self.snapshots: list[StoredSnapshot] = []
        self.start_offset = 0
        self.batches: Batches = []
        self.synced: Batches = []
        self.waiting: list[LogWrite] = []

    # -- log -------------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start_offset

    def write(self, write: LogWrite) -> None:
        _apply(self.batches, write)
        self.waiting.append(write)

    def sync(self, number: int) -> None:
        """The writes up to `number` are safe."""
        while self.waiting and self.waiting[0].number <= number:
            _apply(self.synced, self.waiting.pop(0))
        del self.synced[: _position(self.synced, self.start_offset)]

    def read(self, start: int, end: int, batches_max: int) -> tuple[Batch, ...]:
        first = _position(self.batches, start)
        return tuple(batch for batch in self.batches[first : first + batches_max] if batch.end_offset <= end)

    def holds(self, batch: Batch) -> bool:
        """Whether `batch` (or a snapshot with it) would survive a power cut now."""
        if batch.end_offset <= self.start_offset:
            return True
        index = _position(self.synced, batch.base_offset)
        if index == len(self.synced):
            return False
        found = self.synced[index]
        return (found.base_offset, found.epoch) == (batch.base_offset, batch.epoch)

    def voter_sets(self) -> Iterator[tuple[int, VoterSet]]:
        """All voter sets here, (offset, set), the one before the start first."""
        for snapshot in self.snapshots:
            if snapshot.id.end_offset == self.start_offset:
                yield self.start_offset - 1, snapshot.read()[1]
        for batch in self.batches:
            if batch.voters is not None:
                yield batch.base_offset, batch.voters

    def trim(self, offset: int) -> None:
        """Delete the log below `offset`."""
        self.start_offset = offset
        del self.batches[: _position(self.batches, offset)]
        del self.synced[: _position(self.synced, offset)]
        self.snapshots = [kept for kept in self.snapshots if kept.id.end_offset >= offset]

    # -- snapshots -------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> StoredSnapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    def store(self, snapshot: StoredSnapshot) -> None:
        self.snapshots.append(snapshot)

    def restart_log(self) -> None:
        """The last snapshot takes the place of the whole log."""
        self.snapshots = self.snapshots[-1:]
        self.start_offset = self.snapshots[-1].id.end_offset
        self.batches, self.synced, self.waiting = [], [], []

    # -- power cut and recovery ------------------------------------------------------------------------------

    def cut_power(self, rng: Random) -> None:
        for write in self.waiting[: rng.randrange(len(self.waiting) + 1)]:
            _apply(self.synced, write)
        del self.synced[: _position(self.synced, self.start_offset)]
        self.waiting = []
        self.batches = list(self.synced)

    def recover(self) -> LogSummary:
        latest = self.snapshot
        if latest is not None and not self._contains_end_of(latest.id):
            self.restart_log()
        epochs: list[tuple[int, int]] = []
        for batch in self.batches:
            if not epochs or batch.epoch > epochs[-1][0]:
                epochs.append((batch.epoch, batch.base_offset))
        start = next((kept for kept in self.snapshots if kept.id.end_offset == self.start_offset), None)
        return LogSummary(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            start_epoch=start.id.epoch if start else 0,
            start_voters=start.read()[1] if start else None,
            epochs=tuple(epochs),
            voters=tuple((batch.base_offset, batch.voters) for batch in self.batches if batch.voters is not None),
            snapshot=latest.id if latest else None,
        )

    def _contains_end_of(self, snapshot: SnapshotId) -> bool:
        if snapshot.end_offset == self.start_offset:
            return True
        index = bisect_right(self.batches, snapshot.end_offset - 1, key=_base) - 1
        if index < 0 or self.batches[index].end_offset < snapshot.end_offset:
            return False
        return self.batches[index].epoch == snapshot.epoch


def _base(batch: Batch) -> int:
    return batch.base_offset


def _position(batches: Batches, offset: int) -> int:
    return bisect_left(batches, offset, key=_base)


def _apply(batches: Batches, write: LogWrite) -> None:
    if write.truncate_to is not None:
        del batches[_position(batches, write.truncate_to) :]
    batches.extend(write.batches)
