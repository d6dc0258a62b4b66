"""`rookery metadata`: what the cluster agrees on, now or at an earlier offset."""

import argparse
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rookery.client.cli.common import add_output, show, table
from rookery.client.cli.quorum import (
    FETCH_BYTES,
    FETCH_S,
    Controllers,
    add_controllers,
    rpc_version,
    stored,
    with_controllers,
)
from rookery.client.errors import CliError, NotFoundError, UsageError
from rookery.core.errors import CorruptMessageError, ErrorCode
from rookery.core.metadata.delta import LatestImage
from rookery.core.metadata.image import Image
from rookery.core.metadata.snapshot import state_hash
from rookery.core.metadata_log import METADATA_LOG, SnapshotId, committed_batches, read_snapshot
from rookery.core.net.tls import READER_ID
from rookery.core.wire.batch import batches
from rookery.core.wire.primitives import WireError
from rookery.proto import raft_pb2 as pb

NO_END = 2**62
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def stored_image(folder: str, at: int | None) -> Image:
    """The state on disk after offset `at`, or after the last record. What is at the very end of a log need not
    be committed."""
    fold = LatestImage()
    end = NO_END if at is None else at + 1
    found = _checkpoint(Path(folder), end)
    if found is not None:
        snapshot, path = found
        fold.on_snapshot(snapshot, read_snapshot(str(path), path.read_bytes())[1])
    first: int | None = None
    for data in stored(folder, fold.image.offset + 1):
        whole = data[: _whole(data)]
        first = next((header.base_offset for _, header in batches(whole)), first) if first is None else first
        _check_start(first, fold.image, at)
        _take(fold, whole, end)
    return fold.image


async def fetched_image(stub: Any, quorum: pb.DescribeQuorumResponse, at: int | None) -> Image:
    """The committed state after offset `at`, or after the last committed record, as the leader reports it."""
    fold = LatestImage()
    end = NO_END if at is None else at + 1
    async for response in _responses(stub, quorum):
        if response.HasField("snapshot"):
            position = response.snapshot
            if position.offset > end:
                raise _too_old(at, position.offset)
            data = await _snapshot(stub, quorum, position)
            values = read_snapshot("that the controller sent", data)[1]
            fold.on_snapshot(SnapshotId(position.offset, position.epoch), values)
        else:
            _take(fold, response.records, min(end, response.high_watermark))
    return fold.image


def _take(fold: LatestImage, data: bytes, end: int) -> None:
    try:
        for batch in committed_batches(data, fold.image.offset + 1, end):
            fold.on_commit(batch)
    except (WireError, CorruptMessageError) as error:
        raise CliError(f"the log is damaged: {error}") from error


def _checkpoint(folder: Path, end: int) -> tuple[SnapshotId, Path] | None:
    """The newest snapshot that holds nothing from `end` on."""
    folder = folder / METADATA_LOG if (folder / METADATA_LOG).is_dir() else folder
    found = []
    for path in folder.glob("*.checkpoint"):
        match = _CHECKPOINT.fullmatch(path.name)
        if match and int(match[1]) <= end:
            found.append((int(match[1]), int(match[2]), path))
    if not found:
        return None
    offset, epoch, path = max(found)
    return SnapshotId(offset, epoch), path


def _check_start(first: int | None, image: Image, at: int | None) -> None:
    if first is not None and first > image.offset + 1 and image.offset < 0:
        raise _too_old(at, first)


def _too_old(at: int | None, start: int) -> NotFoundError:
    return NotFoundError(f"offset {at} is no longer kept: what is before {start} is in a snapshot")


def _whole(data: bytes) -> int:
    """The bytes of the batches that are complete: a running node may be writing the next."""
    end = 0
    for position, header in batches(data, partial_end=True):
        end = position + header.size
    return end


async def _responses(stub: Any, quorum: pb.DescribeQuorumResponse) -> AsyncIterator[pb.FetchResponse]:
    end = pb.LogPosition()
    while True:
        request = pb.FetchRequest(
            caller=_caller(quorum), epoch=quorum.leader.epoch, log_end=end, max_bytes=FETCH_BYTES, in_memory=True
        )
        response = await stub.Fetch(request, timeout=FETCH_S)
        if response.error:
            raise CliError(f"the controller refused: {ErrorCode(response.error).name}")
        before = end
        if response.HasField("snapshot"):
            end = response.snapshot
        for _, header in batches(response.records):
            if header.next_offset <= response.high_watermark:
                end = pb.LogPosition(offset=header.next_offset, epoch=header.partition_leader_epoch)
        if end.offset == before.offset:
            return
        yield response


async def _snapshot(stub: Any, quorum: pb.DescribeQuorumResponse, position: pb.LogPosition) -> bytes:
    """The whole snapshot, however many calls it takes."""
    data = bytearray()
    while True:
        request = pb.FetchSnapshotRequest(
            caller=_caller(quorum), epoch=quorum.leader.epoch, snapshot=position, position=len(data)
        )
        size, before = 0, len(data)
        async for chunk in stub.FetchSnapshot(request, timeout=FETCH_S):
            if chunk.error:
                raise CliError(f"the controller refused the snapshot: {ErrorCode(chunk.error).name}")
            size = chunk.size
            data += chunk.data
        if len(data) >= size or len(data) == before:
            return bytes(data)


def _caller(quorum: pb.DescribeQuorumResponse) -> pb.Caller:
    return pb.Caller(cluster_id=quorum.cluster_id, version=rpc_version(quorum), node_id=READER_ID, to_id=-1)


BROKERS = ("id", "epoch", "state", "rack", "endpoints", "directories")
PARTITIONS = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "osr",
    "elr",
    "adding",
    "removing",
    "state",
)
CONFIGS = ("type", "name", "key", "value")
_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("metadata", help="show what the controller knows")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    dump = actions.add_parser("dump", help="brokers, topics, partitions, configuration and features")
    add_controllers(dump)
    dump.add_argument("--data", metavar="DIR", help="read a node's log folder instead of asking a controller")
    dump.add_argument("--at", type=int, metavar="OFFSET", help="the state after this offset instead of the newest")
    dump.add_argument("--topic", metavar="NAME", help="only the partitions of this topic")
    add_output(dump)
    dump.set_defaults(run=with_controllers(_dump))


async def _dump(controllers: Controllers, arguments: argparse.Namespace) -> None:
    if arguments.at is not None and arguments.at < 0:
        raise UsageError("--at needs an offset, which is not negative")
    if arguments.data:
        image = stored_image(arguments.data, arguments.at)
    else:
        stub, quorum = await controllers.leader()
        image = await fetched_image(stub, quorum, arguments.at)
    content = described(image, arguments.topic)
    match arguments.output:
        case "table":
            _print(content)
        case "json":
            print(json.dumps(content, indent=1))
        case "csv":
            show(content["partitions"], PARTITIONS, "csv")
        case "name":
            print("\n".join(content["topics"]))
        case output:
            show([content], (), output)


def described(image: Image, topic: str | None = None) -> dict[str, Any]:
    """The image in plain values. Secrets stay out: of credentials only the names are shown."""
    return {
        "offset": image.offset,
        "epoch": image.epoch,
        "hash": state_hash(image),
        "features": dict(sorted(image.features.items())),
        "next_producer_id": image.next_producer_id,
        "brokers": _brokers(image),
        "topics": {name: str(image.topic_ids[name]) for name in sorted(image.topic_ids)},
        "partitions": _partitions(image, topic),
        "configs": _configs(image),
        "users": sorted({name for name, _ in image.credentials if name}),
        "acls": len(image.acls),
        "quotas": len(image.quotas),
    }


def _brokers(image: Image) -> list[dict[str, Any]]:
    rows = []
    for _, broker in sorted(image.brokers.items()):
        state = "fenced" if broker.fenced else "stopping" if broker.in_controlled_shutdown else "active"
        endpoints = [f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in broker.endpoints]
        directories = [str(directory) for directory in broker.directories]
        values = (broker.id, broker.epoch, state, broker.rack or "-", endpoints, directories)
        rows.append(dict(zip(BROKERS, values, strict=True)))
    return rows


def _partitions(image: Image, only: str | None) -> list[dict[str, Any]]:
    rows = []
    for name in sorted(image.topic_ids):
        if only not in (None, name):
            continue
        for index, p in image.topics[image.topic_ids[name]].in_order():
            out = tuple(broker for broker in p.replicas if broker not in p.isr)
            sets = (p.replicas, p.isr, out, p.elr, p.adding_replicas, p.removing_replicas)
            state = p.leader_recovery_state.name.lower()
            values = (name, index, p.leader, p.leader_epoch, *map(list, sets), state)
            rows.append(dict(zip(PARTITIONS, values, strict=True)))
    return rows


def _configs(image: Image) -> list[dict[str, Any]]:
    return [
        dict(zip(CONFIGS, (_TYPES.get(resource.type, str(resource.type)), resource.name, key, value), strict=True))
        for resource in sorted(image.configs)
        for key, value in sorted(image.configs[resource].items())
    ]


def _print(content: dict[str, Any]) -> None:
    features = " ".join(f"{name}={level}" for name, level in content["features"].items())
    print(f"offset {content['offset']}  epoch {content['epoch']}  hash {content['hash']}")
    print(f"features {features or '-'}  next producer id {content['next_producer_id']}")
    for title, columns in (("brokers", BROKERS), ("partitions", PARTITIONS), ("configs", CONFIGS)):
        rows = content[title]
        print(f"\n{title} ({len(rows)})")
        if rows:
            print(table(rows, columns))
