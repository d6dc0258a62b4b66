"""The records of the metadata log as lines for people, from a folder or from a running controller."""

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from rookery.client.cli.errors import CliError, NotFoundError
from rookery.core.errors import CorruptMessageError, ErrorCode, KafkaError
from rookery.core.ids import id_text
from rookery.core.metadata.codec import RecordError, decode
from rookery.core.metadata.features import RELEASE
from rookery.core.metadata.records import NoOpRecord
from rookery.core.metadata_log import METADATA_LOG, Control, read_control
from rookery.core.wire.batch import BatchHeader, batches, verify
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import read_records
from rookery.proto import raft_pb2 as pb

FETCH_BYTES = 1 << 20
FETCH_S = 5.0
ASKING_ID = 2**31 - 1
"""The node id under which the tool reads: no node has it."""
_SECRET = ("salt", "stored_key", "server_key")
_CONTROL: dict[Control, Callable[[], Message]] = {
    Control.LEADER_CHANGE: pb.LeaderChangeRecord,
    Control.SNAPSHOT_HEADER: pb.SnapshotHeaderRecord,
    Control.SNAPSHOT_FOOTER: pb.SnapshotFooterRecord,
}


def rpc_version(quorum: pb.DescribeQuorumResponse) -> int:
    """The newest version of the protocol that the answering controller and this release both speak."""
    return min(quorum.max_version, RELEASE.rpc_range[1])


def stored(folder: str, start: int) -> Iterator[bytes]:
    """The segments of a metadata log on disk that may hold `start` or later; read only, also beside a running
    node."""
    path = Path(folder)
    path = path / METADATA_LOG if (path / METADATA_LOG).is_dir() else path
    segments = sorted(path.glob("*.log"))
    if not segments:
        raise NotFoundError(f"{path} holds no metadata log; name a controller's log folder")
    bases = [int(segment.stem) for segment in segments]
    for index, segment in enumerate(segments):
        if index + 1 == len(segments) or bases[index + 1] > start:
            yield segment.read_bytes()


async def fetched(stub: Any, quorum: pb.DescribeQuorumResponse) -> AsyncIterator[bytes]:
    """The committed log, as the leader gives it, from where it begins."""
    end = pb.LogPosition()
    while True:
        request = pb.FetchRequest(
            caller=pb.Caller(cluster_id=quorum.cluster_id, version=rpc_version(quorum), node_id=ASKING_ID, to_id=-1),
            epoch=quorum.leader.epoch,
            log_end=end,
            max_bytes=FETCH_BYTES,
            in_memory=True,
        )
        response = await stub.Fetch(request, timeout=FETCH_S)
        if response.error:
            raise CliError(f"the controller refused: {ErrorCode(response.error).name}")
        if response.HasField("snapshot"):
            end = response.snapshot
            continue
        committed, whole = end.offset, 0
        for position, header in batches(response.records):
            if header.next_offset > response.high_watermark:
                break
            end = pb.LogPosition(offset=header.next_offset, epoch=header.partition_leader_epoch)
            whole = position + header.size
        if end.offset == committed:
            return
        yield response.records[:whole]


def lines(parts: Iterable[bytes], start: int, count: int, idle: bool = False) -> Iterator[dict[str, Any]]:
    """One line for each record from `start` on, at most `count`; a damaged batch ends it with an error. Records
    that only keep the log moving are left out unless `idle`."""
    for data in parts:
        try:
            for position, header in batches(data, partial_end=True):
                verify(data, position, header)
                for line in _batch(data, position, header):
                    if line["offset"] >= start and (idle or line["type"] != NoOpRecord.__name__):
                        yield line
                        count -= 1
                    if count <= 0:
                        return
        except (WireError, CorruptMessageError) as error:
            raise CliError(f"the log is damaged: {error}") from error


def _batch(data: bytes, position: int, header: BatchHeader) -> Iterator[dict[str, Any]]:
    for record in read_records(data, position):
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        kind, content = _control(data, position) if header.control else _content(record.value or b"")
        yield {
            "offset": record.offset,
            "epoch": header.partition_leader_epoch,
            "time": moment,
            "type": kind,
            "content": content,
        }


def _control(data: bytes, position: int) -> tuple[str, dict[str, Any]]:
    kind, content = read_control(data, position)
    if kind == Control.VOTERS:
        return kind.name, {"voters": [_voter(voter) for voter in pb.VotersRecord.FromString(content).voters]}
    message = _CONTROL[kind]()
    message.ParseFromString(content)
    return kind.name, MessageToDict(message, preserving_proto_field_name=True)


def _voter(voter: pb.Voter) -> dict[str, Any]:
    directory = id_text(UUID(bytes=voter.directory_id)) if voter.directory_id else None
    return {"id": voter.id, "directory": directory, "address": voter.endpoint}


def _content(value: bytes) -> tuple[str, Any]:
    try:
        record = decode(value)
    except (RecordError, KafkaError):
        return "?", value.hex()
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    shown = {name: "(hidden)" if name in _SECRET else content for name, content in fields.items()}
    return type(record).__name__, shown
