"""A broker's reader of the metadata log: finds the quorum's leader, fetches on, delivers what is committed.

It keeps nothing on disk and never votes: after a restart it begins with the leader's snapshot. The leader holds
each Fetch open until there is news, so a committed record arrives within one round trip. What keeps a broker's
session with the controller alive are its heartbeats (`broker.lifecycle`), not these fetches.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import grpc
import grpc.aio

from rookery.core.errors import CorruptMessageError
from rookery.core.event_logging import get_logger
from rookery.core.metadata_log import (
    CommittedBatch,
    MetadataListener,
    SnapshotId,
    committed_batches,
    read_snapshot,
)
from rookery.core.net.control import GRPC, Control, Exchange, name_is_unknown
from rookery.core.net.tls import CurrentTls
from rookery.core.service import Service
from rookery.core.wire.batch import batches
from rookery.core.wire.primitives import WireError
from rookery.proto import raft_pb2 as pb
from rookery.proto.raft_pb2_grpc import RaftStub


class ForkedError(Exception):
    """The leader's log contradicts records that were committed here."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One batch; `values` is None for Raft's own."""

    end_offset: int
    epoch: int
    size: int
    values: CommittedBatch | None


class Tail:
    """Everything below `committed` is delivered; what follows, up to `end_offset`, waits here."""

    def __init__(self) -> None:
        self.committed = 0
        self.size = 0
        self._committed_epoch = 0
        self._parts: deque[_Part] = deque()

    @property
    def end_offset(self) -> int:
        return self._parts[-1].end_offset if self._parts else self.committed

    @property
    def end_epoch(self) -> int:
        """The epoch of the record before `end_offset`."""
        return self._parts[-1].epoch if self._parts else self._committed_epoch

    def append(self, data: bytes) -> None:
        """Take whole batches; those that are here already are passed over."""
        try:
            for position, header in batches(data):
                if header.base_offset < self.end_offset:
                    continue
                if header.base_offset > self.end_offset:
                    raise CorruptMessageError(f"records {self.end_offset} to {header.base_offset} are missing")
                part = data[position : position + header.size]
                found = next(committed_batches(part, header.base_offset, header.next_offset), None)
                self._parts.append(_Part(header.next_offset, header.partition_leader_epoch, header.size, found))
                self.size += header.size
        except WireError as error:
            raise CorruptMessageError(f"records of the metadata log: {error}") from error

    def take(self, high_watermark: int) -> list[CommittedBatch]:
        """What is committed by now, in order."""
        taken = []
        while self._parts and self._parts[0].end_offset <= high_watermark:
            part = self._parts.popleft()
            self.size -= part.size
            self.committed, self._committed_epoch = part.end_offset, part.epoch
            if part.values is not None:
                taken.append(part.values)
        return taken

    def truncate(self, end_offset: int, epoch: int) -> None:
        """Forget what the leader does not have: of the epochs up to `epoch`, its log holds what ends at `end_offset`.
        ForkedError if something else was committed here."""
        if end_offset < self.committed or epoch < self._committed_epoch:
            raise ForkedError(
                f"the leader's log parts from this one at offset {end_offset} of epoch {epoch}, but records up to "
                f"{self.committed} of epoch {self._committed_epoch} were committed: the quorum has lost data, or this "
                "broker spoke to another cluster"
            )
        while self._parts and (self._parts[-1].end_offset > end_offset or self._parts[-1].epoch > epoch):
            self.size -= self._parts.pop().size

    def drop_uncommitted(self) -> None:
        """Forget everything that waits; it can be fetched again."""
        self._parts.clear()
        self.size = 0

    def restart_at(self, snapshot: SnapshotId) -> None:
        """A snapshot took the place of everything before its end."""
        self._parts.clear()
        self.size = 0
        self.committed, self._committed_epoch = snapshot.end_offset, snapshot.epoch


_log = get_logger("broker.metadata")
NO_LEADER = -1
SNAPSHOT_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class MetadataFollowerSettings:
    cluster_id: str
    node_id: int
    bootstrap: tuple[str, ...]
    """controller.quorum.bootstrap.servers"""
    tls: CurrentTls | None = None
    max_wait_ms: int = 500
    request_timeout_ms: int = 2000
    fetch_bytes: int = 1 << 20
    tail_bytes_max: int = 16 << 20
    retry_ms: int = 50
    """Pause after a failure; doubled up to ten times that while failures go on."""


class MetadataFollower(Service):
    """Feeds one listener. Calls to it never overlap."""

    name = "metadata-follower"

    def __init__(
        self,
        settings: MetadataFollowerSettings,
        listener: MetadataListener,
        version: Callable[[], int] = lambda: 1,
        *,
        control: Control = GRPC,
    ) -> None:
        """`version` of the protocol between nodes that is spoken at the moment."""
        if not settings.bootstrap:
            raise ValueError("controller.quorum.bootstrap.servers names no controller, so the quorum cannot be found")
        self._settings = settings
        self._listener = listener
        self._version = version
        self._control = control
        self._tail = Tail()
        self._leader = pb.Leader(id=NO_LEADER)
        self._high_watermark = 0
        self._bootstrap = cycle(settings.bootstrap)
        self._endpoint = next(self._bootstrap)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._exchange = Exchange(settings.tls)
        self._failures = 0
        self._download_of: tuple[int, SnapshotId] | None = None
        self._download = bytearray()
        """What has arrived of a snapshot from the leader of an epoch; gone on with after a failure."""

    @property
    def leader(self) -> tuple[int, int, str]:
        """(id or -1, epoch, address or empty) of the active controller, as last reported."""
        return self._leader.id, self._leader.epoch, self._leader.endpoint

    @property
    def leader_endpoint(self) -> str:
        """Where the active controller listens, empty if it is not known."""
        return str(self._leader.endpoint)

    @property
    def position(self) -> int:
        """Everything below is delivered."""
        return self._tail.committed

    @property
    def high_watermark(self) -> int:
        """What the leader last said is committed; the difference to `position` is this broker's lag."""
        return self._high_watermark

    async def serve(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except (grpc.aio.AioRpcError, CorruptMessageError) as error:
                self._failed(error)
                await self._pause()

    async def stop(self) -> None:
        channels = [channel.close() for channel in self._channels.values()]
        self._channels.clear()
        await asyncio.gather(*channels)

    async def _fetch_once(self) -> None:
        settings, tail = self._settings, self._tail
        request = pb.FetchRequest(
            caller=self._caller(),
            epoch=self._leader.epoch,
            log_end=pb.LogPosition(offset=tail.end_offset, epoch=tail.end_epoch),
            high_watermark=self._high_watermark,
            max_wait_ms=settings.max_wait_ms,
            max_bytes=settings.fetch_bytes,
            in_memory=True,
        )
        timeout_s = (settings.max_wait_ms + settings.request_timeout_ms) / 1000
        response = await self._stub().Fetch(request, timeout=timeout_s)
        learned = self._learn(response.leader)
        if response.error:
            await self._refused(learned)
        elif response.HasField("snapshot"):
            await self._fetch_snapshot(SnapshotId(response.snapshot.offset, response.snapshot.epoch))
        else:
            self._take(response)
            if tail.size > settings.tail_bytes_max:
                tail.drop_uncommitted()  # nothing gets committed: wait instead of hoarding
                await self._pause()

    def _take(self, response: pb.FetchResponse) -> None:
        self._failures = 0
        if response.HasField("diverging"):
            # Until both logs agree, nothing the leader says is about the records that are here.
            self._tail.truncate(response.diverging.offset, response.diverging.epoch)
            return
        self._tail.append(response.records)
        self._high_watermark = max(self._high_watermark, response.high_watermark)
        for batch in self._tail.take(response.high_watermark):
            self._listener.on_commit(batch)

    async def _fetch_snapshot(self, snapshot: SnapshotId) -> None:
        source = (self._leader.epoch, snapshot)
        if self._download_of != source:
            self._download_of, self._download = source, bytearray()
        data, size = self._download, len(self._download) + 1
        while len(data) < size:
            request = pb.FetchSnapshotRequest(
                caller=self._caller(),
                epoch=self._leader.epoch,
                snapshot=pb.LogPosition(offset=snapshot.end_offset, epoch=snapshot.epoch),
                position=len(data),
            )
            before = len(data)
            try:
                async for piece in self._stub().FetchSnapshot(
                    request, timeout=self._settings.request_timeout_ms / 1000
                ):
                    if piece.error or piece.size > SNAPSHOT_BYTES_MAX:
                        self._learn(piece.leader)
                        self._download_of = None
                        raise CorruptMessageError(f"snapshot {snapshot} of {piece.size} bytes: error {piece.error}")
                    data += piece.data
                    size = piece.size
            except grpc.aio.AioRpcError:
                if len(data) == before:
                    raise  # else a slow link took its time: go on from there
            if len(data) == before:
                raise CorruptMessageError(f"snapshot {snapshot} ends at byte {before} of {size}")
        self._download_of, self._download = None, bytearray()
        _, values = await asyncio.to_thread(read_snapshot, str(snapshot), bytes(data))
        self._tail.restart_at(snapshot)
        self._high_watermark = max(self._high_watermark, snapshot.end_offset)
        _log.info("metadata.snapshot", end_offset=snapshot.end_offset, values=len(values), size=len(data))
        self._listener.on_snapshot(snapshot, values)

    def _learn(self, leader: pb.Leader) -> bool:
        """Take over what a node says of the leader, unless it is older than what is known; whether it was news."""
        known = self._leader
        found = leader.epoch == known.epoch and known.id == NO_LEADER and leader.id != NO_LEADER
        if leader.epoch <= known.epoch and not found:
            return False
        self._leader = leader
        if leader.endpoint:
            self._endpoint = leader.endpoint
        _log.info("metadata.leader", leader=leader.id, epoch=leader.epoch, endpoint=leader.endpoint)
        self._listener.on_leader(leader.id, leader.epoch)
        return True

    async def _refused(self, learned: bool) -> None:
        """The node asked does not lead, or one of the two was behind. If it named the leader, ask that one; else ask
        another node."""
        if not learned:
            self._endpoint = next(self._bootstrap)
            await self._pause()

    def _failed(self, error: Exception) -> None:
        why = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.aio.AioRpcError) else str(error)
        if self._failures == 0:
            _log.warning("metadata.fetch.failed", endpoint=self._endpoint, why=why)
        if name_is_unknown(error):
            self._channels.pop(self._endpoint, None)
        self._endpoint = next(self._bootstrap)
        if self._leader.id != NO_LEADER:
            self._leader = pb.Leader(id=NO_LEADER, epoch=self._leader.epoch)
            self._listener.on_leader(NO_LEADER, self._leader.epoch)

    async def _pause(self) -> None:
        pause_ms = self._settings.retry_ms * min(2**self._failures, 10)
        self._failures = min(self._failures + 1, 10)
        await asyncio.sleep(pause_ms / 1000)

    def _caller(self) -> pb.Caller:
        settings = self._settings
        return pb.Caller(cluster_id=settings.cluster_id, version=self._version(), node_id=settings.node_id, to_id=-1)

    def _stub(self) -> Any:
        if self._exchange.happened():
            self._channels.clear()
        if self._endpoint not in self._channels:
            self._channels[self._endpoint] = self._control.open_channel(self._endpoint, self._exchange.current)
        return RaftStub(self._channels[self._endpoint])  # type: ignore[no-untyped-call]
