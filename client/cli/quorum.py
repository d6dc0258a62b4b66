"""`rookery quorum`: the metadata quorum for people: who votes, who leads, how far each has come, and its log."""

import argparse
import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc.aio
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from rookery.client.admin import Admin
from rookery.client.cli import finding
from rookery.client.cli.common import add_command_config, add_output, show, with_admin
from rookery.client.errors import CliError, NotFoundError, UnhealthyError, UsageError
from rookery.client.local.cluster_file import SECURITY_FOLDER
from rookery.core.config.options import ConfigError
from rookery.core.errors import CorruptMessageError, ErrorCode, KafkaError
from rookery.core.ids import id_text
from rookery.core.log.checkpoints import CheckpointDamaged
from rookery.core.log.ownership import id_from
from rookery.core.metadata.codec import RecordError, decode
from rookery.core.metadata.features import RELEASE
from rookery.core.metadata.records import NoOpRecord
from rookery.core.metadata_log import METADATA_LOG, Control, read_control
from rookery.core.net.client_properties import tls_of
from rookery.core.net.control import open_channel
from rookery.core.net.tls import ADMIN_NAME, READER_ID, Tls
from rookery.core.wire.batch import BatchHeader, batches, verify
from rookery.core.wire.primitives import WireError
from rookery.core.wire.records import read_records
from rookery.proto import raft_pb2 as pb
from rookery.proto.raft_pb2_grpc import RaftStub

FETCH_BYTES = 1 << 20
FETCH_S = 5.0
_OWN_CERTIFICATE = ("ssl.keystore.", "ssl.certificate.", "ssl.key.")
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
            caller=pb.Caller(cluster_id=quorum.cluster_id, version=rpc_version(quorum), node_id=READER_ID, to_id=-1),
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


CALL_S = 5.0
CHANGE_MS = 20_000
COLUMNS = ("node", "role", "log_end", "lag", "last_fetch_ms", "caught_up_ms", "address", "directory")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("quorum", help="show the metadata quorum and its log")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)

    status = actions.add_parser("status", help="voters, leader, and how far each is; exit code 3 without a leader")
    add_controllers(status)
    add_output(status)
    status.add_argument(
        "--bootstrap", metavar="HOST:PORT,...", help="ask brokers instead, which those of Apache Kafka answer, too"
    )
    status.set_defaults(run=_run_status)

    log = actions.add_parser("log", help="print the records of the metadata log")
    add_controllers(log)
    log.add_argument("--data", metavar="DIR", help="read a node's log folder instead of asking a controller")
    log.add_argument("--from", dest="start", type=int, default=0, metavar="OFFSET", help="first offset (0)")
    log.add_argument("-n", "--count", type=int, default=1000, help="at most so many records (1000)")
    log.add_argument("--idle", action="store_true", help="also the records that only keep the log moving")
    add_output(log)
    log.set_defaults(run=with_controllers(_log))

    add = actions.add_parser("add-voter", help="make a running controller a voter")
    add_controllers(add)
    add.add_argument("id", type=int)
    add.add_argument("directory", help="its directory.id, from meta.properties")
    add.add_argument("address", help="host:port of its controller listener")
    add.set_defaults(run=with_controllers(_add_voter))

    remove = actions.add_parser("remove-voter", help="take the vote from a controller")
    add_controllers(remove)
    remove.add_argument("id", type=int)
    remove.add_argument("directory", help="its directory.id, as `rookery quorum status` shows it")
    remove.set_defaults(run=with_controllers(_remove_voter))


def add_controllers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--controllers",
        metavar="HOST:PORT,...",
        help=f"some controllers (${finding.CONTROLLERS_VARIABLE}, the current context, the nearest {finding.FOLDER}, "
        f"{finding.DEFAULT_CONTROLLERS})",
    )
    add_command_config(parser)


class Controllers:
    """Asks whichever controller answers."""

    def __init__(self, addresses: list[str], tls: Tls | None) -> None:
        self._addresses = addresses
        self._tls = tls
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def __aenter__(self) -> "Controllers":
        return self

    async def __aexit__(self, *_error: object) -> None:
        for channel in self._channels.values():
            await channel.close()

    def stub(self, address: str) -> Any:
        if address not in self._channels:
            self._channels[address] = open_channel(address, self._tls)
        return RaftStub(self._channels[address])  # type: ignore[no-untyped-call]

    async def describe(self) -> pb.DescribeQuorumResponse:
        """What the leader says; what somebody else says if it cannot be reached."""
        failures: list[str] = []
        found: pb.DescribeQuorumResponse | None = None
        for address in self._addresses:
            try:
                found = await self.stub(address).DescribeQuorum(pb.DescribeQuorumRequest(), timeout=CALL_S)
                break
            except grpc.aio.AioRpcError as error:
                failures.append(f"{address}: {error.code().name} {error.details()}")
        if found is None:
            raise CliError(
                f"no controller answers ({'; '.join(failures)}). Is the address a controller's gRPC port? Those of "
                "Apache Kafka have none: `rookery quorum status --bootstrap` asks brokers"
            )
        leader = found.leader
        if leader.id not in (-1, leader.reported_by) and leader.endpoint:
            with suppress(grpc.aio.AioRpcError):  # if the leader has just died, the first answer is the best
                found = await self.stub(leader.endpoint).DescribeQuorum(pb.DescribeQuorumRequest(), timeout=CALL_S)
        return found

    async def leader(self) -> tuple[Any, pb.DescribeQuorumResponse]:
        found = await self.describe()
        if found.leader.id == -1 or not found.leader.endpoint:
            raise UnhealthyError("the quorum has no leader at the moment; `rookery quorum status` shows the voters")
        return self.stub(found.leader.endpoint), found


Work = Callable[[Controllers, argparse.Namespace], Coroutine[Any, Any, int | None]]


def with_controllers(work: Work) -> Callable[[argparse.Namespace], int]:
    async def connected(arguments: argparse.Namespace) -> int:
        stored = getattr(arguments, "data", None)
        found = "" if stored else finding.controllers(arguments.controllers)
        addresses = [text.strip() for text in found.split(",") if text.strip()]
        async with Controllers(addresses, None if stored else _tls(arguments)) as controllers:
            try:
                return int(await work(controllers, arguments) or 0)
            except grpc.aio.AioRpcError as error:
                raise CliError(f"{error.code().name}: {error.details()}") from error

    return lambda arguments: asyncio.run(connected(arguments))


def _tls(arguments: argparse.Namespace) -> Tls | None:
    path = finding.controllers_file(arguments.controllers, arguments.command_config)
    if path is None:
        return None
    given = finding.properties_of(path)
    own = path.parent / SECURITY_FOLDER / f"{ADMIN_NAME}.pem"
    if own.exists() and not any(key.startswith(_OWN_CERTIFICATE) for key in given):
        given["ssl.keystore.location"] = str(own)  # of a cluster that `rookery up --secure` made
    try:
        return tls_of(given)
    except ConfigError as error:
        raise UsageError(f"--command-config: {error}") from error


def _run_status(arguments: argparse.Namespace) -> int:
    if arguments.bootstrap is None:
        return with_controllers(_status)(arguments)
    if arguments.controllers is not None:
        raise UsageError("--bootstrap asks brokers and --controllers controllers: one of them is enough")
    return with_admin(_status_by_brokers)(arguments)


async def _status_by_brokers(admin: Admin, arguments: argparse.Namespace) -> int:
    """The same columns; brokers know neither addresses nor directories of voters."""
    found = await admin.describe_quorum()
    cluster = await admin.describe_cluster()
    now_ms = time.time_ns() // 1_000_000
    rows = [
        {
            "node": each.id,
            "role": "leader" if each.id == found.leader_id else role,
            "log_end": each.log_end_offset if each.log_end_offset >= 0 else "-",
            "lag": max(found.high_watermark - each.log_end_offset, 0) if each.log_end_offset >= 0 else "-",
            "last_fetch_ms": now_ms - each.last_fetch_timestamp if each.last_fetch_timestamp >= 0 else "-",
            "caught_up_ms": now_ms - each.last_caught_up_timestamp if each.last_caught_up_timestamp >= 0 else "-",
            "address": "-",
            "directory": "-",
        }
        for role, replicas in (("voter", found.voters), ("observer", found.observers))
        for each in replicas
    ]
    _show_status(cluster.cluster_id, (found.leader_id, found.leader_epoch, found.high_watermark), rows, arguments)
    return 0 if found.leader_id >= 0 else UnhealthyError.exit_code


def _show_status(
    cluster_id: str, leader: tuple[int, int, int], rows: list[dict[str, Any]], arguments: argparse.Namespace
) -> None:
    if arguments.output == "table":
        number, epoch, high_watermark = leader
        who = f"leader {number}" if number >= 0 else "no leader"
        print(f"cluster {cluster_id}  {who}  epoch {epoch}  high watermark {high_watermark}")
    show(rows, COLUMNS, arguments.output)


async def _status(controllers: Controllers, arguments: argparse.Namespace) -> int:
    found = await controllers.describe()
    now_ms = time.time_ns() // 1_000_000
    rows = [
        _row(replica, found, role, now_ms)
        for role, replicas in (("voter", found.voters), ("observer", found.observers))
        for replica in replicas
    ]
    leader = found.leader
    _show_status(found.cluster_id, (leader.id, leader.epoch, found.high_watermark), rows, arguments)
    return 0 if leader.id >= 0 else UnhealthyError.exit_code


def _row(replica: pb.Replica, found: pb.DescribeQuorumResponse, role: str, now_ms: int) -> dict[str, Any]:
    known = replica.log_end_offset >= 0
    return {
        "node": replica.id,
        "role": "leader" if role == "voter" and replica.id == found.leader.id else role,
        "log_end": replica.log_end_offset if known else "-",
        "lag": max(found.high_watermark - replica.log_end_offset, 0) if known else "-",
        "last_fetch_ms": now_ms - replica.last_fetch_ms if replica.last_fetch_ms >= 0 else "-",
        "caught_up_ms": now_ms - replica.last_caught_up_ms if replica.last_caught_up_ms >= 0 else "-",
        "address": replica.endpoint or "-",
        "directory": id_text(UUID(bytes=replica.directory_id)) if replica.directory_id else "-",
    }


async def _log(controllers: Controllers, arguments: argparse.Namespace) -> None:
    if arguments.count < 1 or arguments.start < 0:
        raise UsageError("--count must be positive and --from not negative")
    if arguments.data:
        batches = stored(arguments.data, arguments.start)
        _print(lines(batches, arguments.start, arguments.count, arguments.idle), arguments.output)
        return
    stub, found = await controllers.leader()
    read: list[dict[str, Any]] = []
    async for data in fetched(stub, found):
        read += lines([data], arguments.start, arguments.count - len(read), arguments.idle)
        if len(read) >= arguments.count:
            break
    _print(read, arguments.output)


def _print(found: Iterable[dict[str, Any]], output: str) -> None:
    for line in found if output in ("table", "jsonl") else ():
        if output == "jsonl":
            print(json.dumps(line, default=str))
        else:
            print(f"{line['offset']:>8}  {line['epoch']:>4}  {line['time']}  {line['type']}  {line['content']}")
    if output not in ("table", "jsonl"):
        plain = [json.loads(json.dumps(line, default=str)) for line in found]
        show(plain, ("offset", "epoch", "time", "type", "content"), output)


async def _add_voter(controllers: Controllers, arguments: argparse.Namespace) -> None:
    stub, found = await controllers.leader()
    voter = pb.Voter(id=arguments.id, directory_id=_bytes(arguments.directory), endpoint=arguments.address)
    request = pb.AddVoterRequest(caller=_caller(found), voter=voter, timeout_ms=CHANGE_MS)
    _changed(await stub.AddVoter(request, timeout=CHANGE_MS / 1000 + CALL_S))
    print(f"node {arguments.id} votes now")


async def _remove_voter(controllers: Controllers, arguments: argparse.Namespace) -> None:
    stub, found = await controllers.leader()
    request = pb.RemoveVoterRequest(
        caller=_caller(found),
        voter_id=arguments.id,
        voter_directory_id=_bytes(arguments.directory),
        timeout_ms=CHANGE_MS,
    )
    _changed(await stub.RemoveVoter(request, timeout=CHANGE_MS / 1000 + CALL_S))
    print(f"node {arguments.id} does not vote any more")


def _caller(found: pb.DescribeQuorumResponse) -> pb.Caller:
    return pb.Caller(cluster_id=found.cluster_id, version=rpc_version(found), node_id=-1, to_id=-1)


def _bytes(directory: str) -> bytes:
    try:
        return id_from("directory", directory).bytes
    except CheckpointDamaged as error:
        raise UsageError(f"{directory!r} is no directory id: 22 characters of base64 are needed") from error


def _changed(answer: pb.ChangeVotersResponse) -> None:
    if answer.error:
        raise CliError(answer.message)
