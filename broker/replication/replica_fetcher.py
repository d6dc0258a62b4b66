"""Following one leader: all partitions that follow it are fetched over one connection.

A fetch offset is an acknowledgement, so the next fetch goes out as soon as the answer to the last one is written,
from within the same call: what arrives is appended straight from the receive buffer. An answer is applied only
where nothing changed since it was asked for. A partition that cannot go on (the leader does not know the epoch yet,
its log diverged from the leader's) is suspended and does not hold up the others.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from rookery.broker.replication.follower_session import FollowerSession, Key, Position
from rookery.broker.replication.truncation import TruncationBelowHighWatermarkError
from rookery.core.clock import Clock
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.log import LogDirFailed
from rookery.core.net.connection import Connection, ConnectionLostError
from rookery.core.net.network import Address
from rookery.core.net.peers import Peers
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.fetch import FETCH, FetchRequest, FetchResponse, PartitionData, ReplicaState
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from rookery.core.wire.primitives import Buffer
from rookery.core.write_pause import pause_after_s

FETCH_VERSION_MAX = 16
LIST_OFFSETS_VERSION_MAX = 7
EARLIEST = -2
FIRST_PAUSE_S = 0.02
LOOK_S = 0.1
LOOKS = 32
"""How often log starts are looked at, and of how many partitions at a time."""
LIMIT_LOOK_S = 1.0
"""A limit may be lifted while a partition waits for it."""
_log = get_logger("broker.replication.follower")

_LEADER_BEHIND = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""Errors that pass when the leader has learnt what this broker knows already."""
_TODO = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the leader's authorizer denies this broker's principal CLUSTER_ACTION on "
    "the cluster: name it in super.users of all brokers, or allow it by an ACL"
}


class Followed(Protocol):
    """A partition as a follower's fetcher needs it."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def index(self) -> int: ...

    @property
    def topic_partition(self) -> TopicPartition: ...

    def position(self) -> Position: ...

    def apply_fetched(
        self, records: Buffer, *, high_watermark: int, leader_log_start: int, now_ms: int
    ) -> None: ...

    def synced(self) -> "asyncio.Future[None] | None":
        """None, or done when what was applied may be acknowledged."""

    @property
    def cut(self) -> "asyncio.Future[None] | None":
        """None, or done when the log, which is being cut, may be used again."""

    @property
    def busy(self) -> "asyncio.Future[None] | None":
        """None, or done when what it says of its position is true of its device."""

    def truncate_to_leader(self, epoch: int, end_offset: int) -> "asyncio.Future[None]": ...

    def restart_at(self, offset: int) -> "asyncio.Future[None]": ...


class Limit(Protocol):
    """How fast some partitions may catch up."""

    @property
    def wait_s(self) -> float: ...

    def took(self, size: int) -> None: ...


LimitOf = Callable[[Followed], Limit | None]


def no_limit(partition: Followed) -> Limit | None:
    return None


@dataclass(frozen=True, slots=True)
class Leader:
    """Where a leader is reached on the inter-broker listener."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    wait_ms_max: int = 500
    bytes_min: int = 1
    response_bytes_max: int = 1 << 20
    partition_bytes_max: int = 1 << 20
    backoff_ms_max: int = 1000
    request_timeout_ms: int = 30_000


class ReplicaFetcher:
    """Follows one leader until cancelled."""

    def __init__(
        self,
        leader: Leader,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        settings: FetcherSettings,
        clock: Clock,
        peers: Peers,
        on_failed: Callable[[Followed, Exception], None],
        limit_of: LimitOf = no_limit,
    ) -> None:
        """`peers` are for followers alone: their fetches wait at the leader. `limit_of` a partition holds it back
        after it took its share."""
        self.leader = leader
        self._limit_of = limit_of
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._clock = clock
        self._peers = peers
        self._on_failed = on_failed
        self._session = FollowerSession(settings.partition_bytes_max)
        self._partitions: dict[Key, Followed] = {}
        self._suspended: dict[Key, _Suspension] = {}
        self._moved: dict[Key, None] = {}
        """Partitions for the next request; a dict, for its order."""
        self._gone: dict[Key, None] = {}
        self._tried: dict[Key, float] = {}
        """The last pause of partitions that are being tried again."""
        self._looks: list[Key] = []
        """Partitions whose log start is yet to be looked at in this round."""
        self._look_at = 0.0
        self._high_watermarks: dict[Key, int] = {}
        self._changed = asyncio.Event()
        self._connection: Connection | None = None
        self._answered = asyncio.Event()
        self._contact_at = 0.0
        self.answered_at: float | None = None
        """When the leader last answered a fetch, over whichever connection."""
        self._pause_s = 0.0
        self._tasks: asyncio.TaskGroup | None = None

    # --- which partitions -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._partitions)

    def follow(self, partition: Followed) -> None:
        """Fetch a partition from now on; called again when its leader epoch changed."""
        key = (partition.topic_id, partition.index)
        self._partitions[key] = partition
        self._resume(key)

    def unfollow(self, topic_id: UUID, index: int) -> None:
        key = (topic_id, index)
        self._partitions.pop(key, None)
        self._suspended.pop(key, None)
        self._moved.pop(key, None)
        self._tried.pop(key, None)
        self._high_watermarks.pop(key, None)
        self._gone[key] = None

    def _resume(self, key: Key) -> None:
        """Fetch a partition with the next request."""
        self._suspended.pop(key, None)
        self._gone.pop(key, None)
        self._moved[key] = None
        if not self._changed.is_set():
            self._changed.set()
            self._nudge()

    def _nudge(self) -> None:
        """A fetch that waits at the leader holds up the next one; any request behind it ends its wait."""
        connection = self._connection
        if connection is not None and connection.waiting:
            connection.call(API_VERSIONS, 0, ApiVersionsRequest(), lambda response, error: None)

    def hand_over(self, successor: "ReplicaFetcher") -> None:
        """Let another follower go on with all partitions."""
        for partition in self._partitions.values():
            successor.follow(partition)

    def is_answered(self, key: Key) -> bool:
        """Whether the leader has answered a fetch of this partition."""
        return key in self._high_watermarks

    def lags(self) -> dict[TopicPartition, int]:
        """Records each partition is behind what its leader last called committed."""
        return {
            partition.topic_partition: max(0, self._high_watermarks[key] - partition.position().offset)
            if key in self._high_watermarks
            else 0
            for key, partition in self._partitions.items()
        }

    # --- the loop -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, fetch, and connect again after a pause, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await self._follow_for_ever()
            finally:
                self._tasks = None

    async def _follow_for_ever(self) -> None:
        address: Address = (self.leader.host, self.leader.port)
        while True:
            self._contact_at = 0.0
            try:
                await self._follow_once(address)
            except (OSError, ConnectionLostError, KafkaError) as error:
                if self._contact_at:
                    self._peers.served(address)
                pause = self._peers.pause_s(address) or self._peers.gave_up(address, error)
                _log.warning(
                    "follower.disconnected", leader=self.leader.id, reason=str(error), retry_in_s=round(pause, 3)
                )
                await asyncio.sleep(pause)

    async def _follow_once(self, address: Address) -> None:
        """One connection, from its opening to its end, which is an error."""
        connection = await self._peers.connection(address)
        self._connection = connection
        connection.on_lost = self._answered.set  # for whatever reason: the loop sees that it is closed
        self._session.reset()
        try:
            version = connection.version_for(FETCH, FETCH_VERSION_MAX)
            await self._fetch_rounds(connection, version)
        finally:
            self._connection = None
            connection.close()

    async def _fetch_rounds(self, connection: Connection, version: int) -> None:
        """Send when there is something to fetch; answers send the next request themselves."""
        while not connection.closed:
            self._changed.clear()
            self._answered.clear()
            if self._pause_s:
                await asyncio.sleep(self._pause_s)
                self._pause_s = 0.0
            if self._send(connection, version):
                await self._until_answered()
            else:
                await self._until_changed(self._next_retry_s())
        raise ConnectionLostError(f"leader {self.leader.id} closed the connection")

    async def _until_answered(self) -> None:
        """Wait until the chain of requests and answers stops; a leader that falls silent is given up."""
        silence_s_max = (self._settings.wait_ms_max + self._settings.request_timeout_ms) / 1000
        self._contact_at = self._clock.monotonic()
        while not self._answered.is_set():
            left = self._contact_at + silence_s_max - self._clock.monotonic()
            if left <= 0:
                raise ConnectionLostError(f"leader {self.leader.id} did not answer for {silence_s_max:g} s")
            try:
                async with asyncio.timeout(left):
                    await self._answered.wait()
            except TimeoutError:
                continue

    async def _until_changed(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    def _send(self, connection: Connection, version: int) -> bool:
        """Send the next fetch; False when there is nothing to fetch now."""
        self._resume_due()
        positions = self._positions()
        if len(self._suspended) >= len(self._partitions):
            return False
        part = self._session.next_request(positions, self._gone)
        self._moved.clear()
        self._gone.clear()
        request = FetchRequest(
            replica_id=self._node_id,
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=self._wait_ms(),
            min_bytes=self._settings.bytes_min,
            max_bytes=self._settings.response_bytes_max,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
        )

        def received(response: FetchResponse | None, error: BaseException | None) -> None:
            if response is None:
                self._answered.set()  # the connection ended; the loop sees that
                return
            self._contact_at = self.answered_at = self._clock.monotonic()
            self._apply(response)
            self._pause_s = pause_after_s(self._clock.monotonic() - self._contact_at)
            paused = connection.closed or self._changed.is_set() or self._pause_s
            if paused or not self._send(connection, version):
                self._answered.set()

        connection.call(FETCH, version, request, received)
        return True

    def _positions(self) -> dict[Key, Position]:
        """The positions for the next request."""
        positions = {}
        self._look_at_starts()
        for key in list(self._partitions if self._session.begins else self._moved):
            partition = self._partitions.get(key)
            if partition is None or key in self._suspended:
                continue
            try:
                busy = partition.busy
                if busy is None:
                    positions[key] = partition.position()
                else:  # since before this leader was followed
                    self._wait_for(key, partition, busy)
            except KafkaError as error:  # its history is damaged: the others go on
                self._retry_later(key, partition, str(error))
        return positions

    def _look_at_starts(self) -> None:
        """Retention moves the start of a log while nothing is fetched: some partitions are looked at now and then,
        since a leader sends consumers to followers that have what they ask for."""
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        if not self._looks:
            self._looks = list(self._partitions)
        for key in self._looks[-LOOKS:]:
            partition, sent = self._partitions.get(key), self._session.sent(key)
            if partition is not None and sent is not None and sent.log_start != partition.position().log_start:
                self._moved[key] = None
        del self._looks[-LOOKS:]

    def _resume_due(self) -> None:
        """Partitions whose pause is over are fetched again."""
        now = self._clock.monotonic()
        for key in [key for key, each in self._suspended.items() if each.until <= now]:
            self._moved[key] = None
            self._gone.pop(key, None)
            self._tried[key] = self._suspended.pop(key).pause

    def _wait_ms(self) -> int:
        """Shorter than usual while a partition waits for its next try."""
        retry_s = self._next_retry_s()
        if retry_s is None:
            return self._settings.wait_ms_max
        return min(self._settings.wait_ms_max, max(1, round(retry_s * 1000)))

    def _next_retry_s(self) -> float | None:
        now = self._clock.monotonic()
        waiting = [max(0.0, each.until - now) for each in self._suspended.values() if each.until < _FOREVER]
        return min(waiting, default=None)

    # --- answers --------------------------------------------------------------------------------------------

    def _apply(self, response: FetchResponse) -> None:
        if not self._session.answered(response.error_code, response.session_id):
            return
        if response.error_code:
            _log.warning("follower.refused", leader=self.leader.id, error=ErrorCode(response.error_code).name)
            self._session.reset()
            return
        now_ms = self._clock.wall_ms()
        for topic in response.responses:
            for data in topic.partitions:
                self._apply_partition((topic.topic_id, data.partition_index), data, now_ms)

    def _apply_partition(self, key: Key, data: PartitionData, now_ms: int) -> None:
        partition = self._partitions.get(key)
        if partition is None or key in self._suspended:
            return
        if partition.cut is not None or self._session.sent(key) != partition.position():
            self._session.reset()  # it moved on since the request: the leader must not take this as received
            return
        try:
            if data.error_code:
                self._on_error(key, partition, data)
            elif data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
                diverging = data.diverging_epoch
                cut = partition.truncate_to_leader(diverging.epoch, diverging.end_offset)
                self._wait_for(key, partition, cut)
            else:
                self._tried.pop(key, None)
                self._high_watermarks[key] = data.high_watermark
                self._moved[key] = None
                partition.apply_fetched(
                    data.records if data.records is not None else b"",
                    high_watermark=data.high_watermark,
                    leader_log_start=data.log_start_offset,
                    now_ms=now_ms,
                )
                disk = partition.cut or partition.synced()
                limit = self._limit_of(partition)
                if limit is not None:
                    limit.took(len(data.records or b""))
                if disk is not None or (limit is not None and limit.wait_s > 0):
                    self._wait_for(key, partition, disk, limit)
        except TruncationBelowHighWatermarkError as error:
            self._suspend(key, _Suspension(until=_FOREVER))
            self._on_failed(partition, error)
        except (KafkaError, LogDirFailed) as error:
            self._retry_later(key, partition, str(error))
        except Exception as error:  # one partition must not hold up the others: this is their supervisor
            _log.exception("follower.partition.failed", error, partition=str(partition.topic_partition))
            self._retry_later(key, partition, str(error))

    def _on_error(self, key: Key, partition: Followed, data: PartitionData) -> None:
        code = ErrorCode(data.error_code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_start(key, partition)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            self._suspend(key, _Suspension(until=_FOREVER))  # until this broker's metadata has caught up
        elif code in _LEADER_BEHIND:
            self._retry_later(key, partition, code.name)
        else:
            _log.error(
                "follower.partition.refused", partition=str(partition.topic_partition), error=code.name,
                todo=_TODO.get(code, ""),
            )  # fmt: skip
            self._retry_later(key, partition, code.name)

    def _suspend(self, key: Key, suspension: "_Suspension") -> None:
        if key not in self._partitions:
            return  # it was given up meanwhile
        self._suspended[key] = suspension
        self._moved.pop(key, None)
        self._gone[key] = None

    def _retry_later(self, key: Key, partition: Followed, reason: str) -> None:
        """Try again later, after longer and longer pauses."""
        pause = min(self._tried.pop(key, FIRST_PAUSE_S / 2) * 2, self._settings.backoff_ms_max / 1000)
        self._suspend(key, _Suspension(until=self._clock.monotonic() + pause, pause=pause))
        _log.debug(
            "follower.partition.waits", partition=str(partition.topic_partition), reason=reason, pause_s=pause
        )

    def _wait_for(
        self, key: Key, partition: Followed, work: "asyncio.Future[None] | None", limit: Limit | None = None
    ) -> None:
        """The partition is suspended until the disk has done `work`, which is not this follower's to end, and
        `limit` lets it go on."""
        if self._tasks is None:
            return
        self._suspend(key, _Suspension(until=_FOREVER))

        async def run() -> None:
            try:
                if work is not None:
                    await asyncio.shield(work)
                while limit is not None:
                    await asyncio.sleep(min(limit.wait_s, LIMIT_LOOK_S))
                    if limit.wait_s <= 0:
                        break
            except Exception as error:  # of this replica alone, whatever it is
                self._on_failed(partition, error)
                if self._partitions.get(key) is partition:
                    self._retry_later(key, partition, str(error))
                    self._changed.set()
                return
            if self._partitions.get(key) is partition:
                self._resume(key)

        self._tasks.create_task(run(), name=f"disk {partition.topic_partition}")

    def _find_start(self, key: Key, partition: Followed) -> None:
        """The leader has nothing to go on from at this replica's end: ask where its log starts."""
        connection, asked = self._connection, partition.position()
        if connection is None:
            self._retry_later(key, partition, "the connection is lost")
            return
        # not for ever: if no answer comes, the next fetch finds out that the leader is gone
        patience_s = self._settings.request_timeout_ms / 1000
        self._suspend(key, _Suspension(until=self._clock.monotonic() + patience_s))
        place = partition.topic_partition
        request = ListOffsetsRequest(
            replica_id=self._node_id,
            topics=[
                ListOffsetsTopic(
                    name=place.topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=place.partition,
                            current_leader_epoch=asked.leader_epoch,
                            timestamp=EARLIEST,
                        )
                    ],
                )
            ],
        )

        def found(response: ListOffsetsResponse | None, error: BaseException | None) -> None:
            if self._partitions.get(key) is not partition or key not in self._suspended:
                return
            topics = response.topics if response is not None else ()
            answer = next((each for topic in topics for each in topic.partitions), None)
            if answer is None or answer.error_code or partition.position() != asked or partition.cut is not None:
                self._retry_later(key, partition, "the leader did not report where its log starts")
                self._changed.set()
                return
            try:
                self._wait_for(key, partition, partition.restart_at(answer.offset))
            except TruncationBelowHighWatermarkError as refusal:
                self._on_failed(partition, refusal)

        connection.call(LIST_OFFSETS, connection.version_for(LIST_OFFSETS, LIST_OFFSETS_VERSION_MAX), request, found)


_FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class _Suspension:
    """A partition is not fetched `until` then; `pause` is how long that is."""

    until: float
    pause: float = FIRST_PAUSE_S
