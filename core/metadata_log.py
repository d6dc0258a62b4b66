"""The metadata log as its readers see it, in controllers and brokers alike: what they are given, and how its
batches and snapshots are read.

Values are opaque here. A control batch holds one record for Raft itself: its key is Kafka's (version and type,
16 bits each), its value a message of raft.proto.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from google.protobuf.message import DecodeError

from rookery.core.errors import CorruptMessageError
from rookery.core.wire.batch import Buffer, batches, verify
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import read_records
from rookery.proto import raft_pb2 as pb

METADATA_LOG = "__cluster_metadata-0"
"""The folder of the metadata log."""
CONTROL_VERSION = 0
CONTROL_KEY = struct.Struct(">hh")


class Control(IntEnum):
    """Kafka's types of control records, as far as they occur here."""

    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    VOTERS = 6


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """Values that were proposed together and are now committed, in order."""

    base_offset: int
    epoch: int
    values: tuple[bytes, ...]
    append_ms: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + len(self.values) - 1


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """A snapshot holds everything below `end_offset`; `epoch` is the epoch of the last record in it."""

    end_offset: int
    epoch: int


class MetadataListener(Protocol):
    """Receives, in log order, what the quorum decided. Calls never overlap and must not block."""

    def on_commit(self, batch: CommittedBatch) -> None:
        """`batch` can never be undone. Each offset is delivered once, ascending."""

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        """Forget everything and start from the state in `values`."""

    def on_leader(self, leader_id: int, epoch: int) -> None:
        """`leader_id` (-1: none known) leads `epoch`. Where this node leads, the call comes only after all
        that was committed before its own epoch has been delivered: its state is complete, it may act."""


def committed_batches(data: Buffer, start: int, end: int) -> Iterator[CommittedBatch]:
    """The data batches of `data` (whole v2 batches) in [start, end); control batches are left out.
    Raises WireError or CorruptMessageError for damaged bytes."""
    for position, header in batches(data):
        if header.base_offset < start or header.control:
            continue
        if header.next_offset > end:
            return
        verify(data, position, header)
        values = tuple(record.value or b"" for record in read_records(data, position))
        yield CommittedBatch(header.base_offset, header.partition_leader_epoch, values, header.base_timestamp)


def read_control(data: Buffer, position: int = 0) -> tuple[Control, bytes]:
    """Type and content of the control batch at `position`; CorruptMessageError for one that is not known."""
    records = read_records(data, position)
    try:
        version, number = CONTROL_KEY.unpack(records[0].key or b"")
        if version != CONTROL_VERSION:
            raise ValueError(f"version {version}")
        return Control(number), records[0].value or b""
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptMessageError(f"a control record this release does not know: {error}") from error


def check_snapshot(name: str, data: Buffer) -> None:
    """Raises CorruptMessageError unless the snapshot is whole and its checksums are right; reads no values."""
    _snapshot(name, data, None)


def read_snapshot(name: str, data: Buffer) -> tuple[bytes, list[bytes]]:
    """The voters record and the values of a whole snapshot; CorruptMessageError if it is damaged or cut short."""
    values = list[bytes]()
    return _snapshot(name, data, values), values


def _snapshot(name: str, data: Buffer, values: list[bytes] | None) -> bytes:
    """The voters record; the values go into `values`, where they are wanted."""
    voters, count, footer = b"", 0, None
    try:
        for position, header in batches(data):
            verify(data, position, header)
            if header.control:
                kind, content = read_control(data, position)
                if kind == Control.VOTERS:
                    voters = content
                elif kind == Control.SNAPSHOT_FOOTER:
                    footer = pb.SnapshotFooterRecord.FromString(content)
                continue
            count += header.record_count
            if values is not None:
                values.extend(record.value or b"" for record in read_records(data, position))
    except (WireError, CorruptMessageError, DecodeError) as error:
        raise CorruptMessageError(f"the snapshot {name} is damaged: {error}") from error
    if footer is None or footer.records != count:
        raise CorruptMessageError(f"the snapshot {name} is not whole: it holds {count} values")
    return voters
