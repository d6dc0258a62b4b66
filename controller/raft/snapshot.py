"""Snapshots on disk: ``<20-digit end offset>-<10-digit epoch>.checkpoint`` beside the log's segments.

A snapshot is a file of v2 batches: a header control record, the voters, the state's values, and a footer that
counts them. A file without its footer is not a snapshot. Files appear whole or not at all: they are written
(or downloaded) under another name, synced and renamed.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from rookery.controller.raft.batches import control_batch, data_batch, voters_of, voters_record
from rookery.controller.raft.errors import CorruptStateError
from rookery.controller.raft.ready import SnapshotChunk
from rookery.controller.raft.voters import VoterSet
from rookery.core.disk import Disk, File, write_whole
from rookery.core.metadata_log import Control, SnapshotId, check_snapshot, read_snapshot
from rookery.proto import raft_pb2 as pb

SUFFIX = ".checkpoint"
WRITING = SUFFIX + ".part"
DOWNLOADING = SUFFIX + ".download"
VALUES_PER_BATCH = 1000
READ_AT_ONCE = 2
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Snapshots:
    """The snapshots in one folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._being_read: dict[SnapshotId, File] = {}
        """Open while they are downloaded, the last asked for last: one that is removed can be read to its end."""

    def close(self) -> None:
        for file in self._being_read.values():
            file.close()
        self._being_read.clear()

    def path(self, snapshot: SnapshotId, suffix: str = SUFFIX) -> str:
        return f"{self._folder}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}{suffix}"

    def all(self) -> list[SnapshotId]:
        """Every complete snapshot, oldest first."""
        names = map(_NAME.fullmatch, self._disk.list(self._folder))
        return sorted(
            (SnapshotId(int(name[1]), int(name[2])) for name in names if name),
            key=lambda snapshot: (snapshot.end_offset, snapshot.epoch),
        )

    def remove_unfinished(self) -> None:
        for name in self._disk.list(self._folder):
            if name.endswith((WRITING, DOWNLOADING)):
                self._disk.remove(f"{self._folder}/{name}")

    def remove(self, snapshot: SnapshotId) -> None:
        self._disk.remove(self.path(snapshot))

    def write(self, snapshot: SnapshotId, voters: VoterSet, values: Iterable[bytes], now_ms: int) -> None:
        """Write a snapshot and make it durable. Blocks; for a thread."""
        path = self.path(snapshot, WRITING)
        file = self._fresh(path)
        try:
            size = 0
            for batch in _batches(snapshot.epoch, voters, values, now_ms):
                write_whole(file, batch, size)
                size += len(batch)
            file.sync()
        except OSError:
            with suppress(OSError):
                self._disk.remove(path)  # or it would take the room that is missing
            raise
        finally:
            file.close()
        self._publish(path, snapshot)

    def write_chunk(self, chunk: SnapshotChunk) -> None:
        """Take one piece of a download."""
        path = self.path(chunk.snapshot, DOWNLOADING)
        file = self._fresh(path) if chunk.position == 0 else self._disk.open(path)
        try:
            if file.size() != chunk.position:
                raise CorruptStateError(f"{path} has {file.size()} bytes, the next is byte {chunk.position}")
            write_whole(file, chunk.chunk, chunk.position)
        finally:
            file.close()

    def install(self, snapshot: SnapshotId) -> VoterSet:
        """Turn a complete download into a snapshot, durably; returns the voters in it. Blocks; for a thread.
        CorruptMessageError if it is damaged."""
        path = self.path(snapshot, DOWNLOADING)
        voters, _ = read_snapshot(path, self._disk.read(path))
        file = self._disk.open(path)
        try:
            file.sync()
        finally:
            file.close()
        self._publish(path, snapshot)
        return voters_of(voters)

    def read_chunk(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """(size of the snapshot, bytes from `position`), or None if there is no such snapshot."""
        file = self._being_read.pop(snapshot, None)
        if file is None:
            path = self.path(snapshot)
            if not self._disk.exists(path):
                return None
            file = self._disk.open(path)
        self._being_read[snapshot] = file
        if len(self._being_read) > READ_AT_ONCE:
            self._being_read.pop(next(iter(self._being_read))).close()
        return file.size(), file.pread(max_bytes, position)

    def load(self, snapshot: SnapshotId) -> tuple[VoterSet, list[bytes]]:
        """The voters and the values of a snapshot. Blocks; for a thread."""
        path = self.path(snapshot)
        voters, values = read_snapshot(path, self._disk.read(path))
        return voters_of(voters), values

    def check(self, snapshot: SnapshotId) -> None:
        """Raises CorruptMessageError unless the file is whole and sound. Blocks; for a thread."""
        path = self.path(snapshot)
        check_snapshot(path, self._disk.read(path))

    def _fresh(self, path: str) -> File:
        if self._disk.exists(path):
            self._disk.remove(path)
        return self._disk.open(path, create=True)

    def _publish(self, path: str, snapshot: SnapshotId) -> None:
        self._disk.rename(path, self.path(snapshot))
        self._disk.sync_dir(self._folder)


def _batches(epoch: int, voters: VoterSet, values: Iterable[bytes], now_ms: int) -> Iterator[bytearray]:
    header = pb.SnapshotHeaderRecord(written_ms=now_ms)
    yield control_batch(Control.SNAPSHOT_HEADER, header, now_ms, 0, epoch)
    yield control_batch(Control.VOTERS, voters_record(voters), now_ms, 1, epoch)
    rest, count = iter(values), 0
    while part := list(islice(rest, VALUES_PER_BATCH)):
        yield data_batch(part, now_ms, 2 + count, epoch)
        count += len(part)
    footer = pb.SnapshotFooterRecord(records=count)
    yield control_batch(Control.SNAPSHOT_FOOTER, footer, now_ms, 2 + count, epoch)
