"""Raft's batches as bytes of the log: record batches v2, as everywhere in Kafka.

A data batch is what one proposal wrote; control batches are Raft's own (`core.metadata_log` says how they look).
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from google.protobuf.message import DecodeError, Message

from rookery.controller.raft.messages import Batch, BatchKind
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from rookery.core.errors import CorruptMessageError
from rookery.core.metadata_log import CONTROL_KEY, CONTROL_VERSION, Control, read_control
from rookery.core.wire.batch import BatchHeader, Buffer, batches, stamp, verify
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import Record, build_batch
from rookery.proto import raft_pb2 as pb


def data_batch(values: Sequence[bytes], now_ms: int, base_offset: int = 0, epoch: int = -1) -> bytearray:
    """One batch of opaque values; the log stamps offset and epoch when it appends."""
    records = [Record(base_offset + index, now_ms, None, value) for index, value in enumerate(values)]
    return build_batch(records, leader_epoch=epoch)


def control_batch(
    kind: Control, content: Message, now_ms: int, base_offset: int = 0, epoch: int = -1
) -> bytearray:
    key = CONTROL_KEY.pack(CONTROL_VERSION, kind)
    record = Record(base_offset, now_ms, key, content.SerializeToString())
    return build_batch([record], leader_epoch=epoch, control=True)


def encode(batch: Batch, leader_id: int, now_ms: int) -> bytearray:
    """The bytes of a batch of the core, stamped; `leader_id` is who opens the epoch, if this batch does."""
    match batch.payload, batch.kind:
        case (bytes() | bytearray() | memoryview()) as payload, _:
            data = bytearray(payload)
        case None, BatchKind.LEADER_CHANGE:
            data = control_batch(Control.LEADER_CHANGE, pb.LeaderChangeRecord(leader_id=leader_id), now_ms)
        case None, BatchKind.VOTERS:
            data = control_batch(Control.VOTERS, voters_record(batch.voters or VoterSet()), now_ms)
        case payload, kind:
            raise TypeError(f"a batch of kind {kind} cannot be made of {type(payload).__name__}")
    stamp(data, 0, batch.base_offset, batch.epoch)
    return data


def decode(data: Buffer) -> tuple[Batch, ...]:
    """The batches in `data`, checksums checked; each payload is its own bytes. Raises CorruptMessageError."""
    view = memoryview(data)
    try:
        return tuple(_batch(view, position, header) for position, header in batches(view))
    except WireError as error:
        raise CorruptMessageError(f"records of the metadata log: {error}") from error


def _batch(view: memoryview, position: int, header: BatchHeader) -> Batch:
    verify(view, position, header)
    kind, voters = BatchKind.DATA, None
    if header.control:
        control, value = read_control(view, position)
        kind = BatchKind.VOTERS if control == Control.VOTERS else BatchKind.LEADER_CHANGE
        voters = voters_of(value) if control == Control.VOTERS else None
    payload = view[position : position + header.size]
    count = header.last_offset_delta + 1
    return Batch(header.base_offset, header.partition_leader_epoch, kind, count, payload, voters)


def voters_record(voters: Iterable[Voter]) -> pb.VotersRecord:
    return pb.VotersRecord(voters=[voter_message(voter) for voter in voters])


def voters_of(value: bytes) -> VoterSet:
    try:
        return VoterSet(voter_of(voter) for voter in pb.VotersRecord.FromString(value).voters)
    except (DecodeError, ValueError) as error:
        raise CorruptMessageError(f"a VOTERS record cannot be read: {error}") from error


def voter_message(voter: Voter) -> pb.Voter:
    return pb.Voter(
        id=voter.id, directory_id=directory_bytes(voter.key.directory_id), endpoint=voter.endpoint
    )


def voter_of(message: pb.Voter) -> Voter:
    return Voter(ReplicaKey(message.id, directory_of(message.directory_id)), message.endpoint)


def directory_bytes(directory_id: UUID) -> bytes:
    return b"" if directory_id == UNKNOWN_DIRECTORY else directory_id.bytes


def directory_of(data: bytes) -> UUID:
    """Raises ValueError unless `data` is empty (not known) or 16 bytes long."""
    return UUID(bytes=data) if data else UNKNOWN_DIRECTORY
