"""The cluster's metadata as an image: from a running controller, or from the folder of one that is not."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from rookery.client.cli.errors import CliError, NotFoundError
from rookery.client.cli.quorum_log import ASKING_ID, FETCH_BYTES, FETCH_S, rpc_version, stored
from rookery.core.errors import CorruptMessageError, ErrorCode
from rookery.core.metadata.fold import Fold
from rookery.core.metadata.image import Image
from rookery.core.metadata_log import METADATA_LOG, SnapshotId, committed_batches, read_snapshot
from rookery.core.wire.batch import batches
from rookery.core.wire.primitives import WireError
from rookery.proto import raft_pb2 as pb

NO_END = 2**62
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def stored_image(folder: str, at: int | None) -> Image:
    """The state on disk after offset `at`, or after the last record. What is at the very end of a log need not
    be committed."""
    fold = Fold()
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
    """The committed state after offset `at`, or after the last committed record, as the leader tells it."""
    fold = Fold()
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


def _take(fold: Fold, data: bytes, end: int) -> None:
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
    return pb.Caller(cluster_id=quorum.cluster_id, version=rpc_version(quorum), node_id=ASKING_ID, to_id=-1)
