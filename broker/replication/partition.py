"""One partition on this broker: its log, its place in the cluster, and how far it is committed.

The image of the cluster says who leads and who is in sync (`apply`); requests append and read here, on the
one loop, so each call sees and leaves a consistent partition. How far followers have come is the business
of the replica state: as long as this broker is the only in-sync replica, all that is written is committed.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from rookery.broker.log.partition_log import Isolation, LeaderAppend, PartitionLog, PartitionRead
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import (
    FencedLeaderEpochError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from rookery.core.metadata import image
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import MutableBuffer

ACKS_ALL = -1
NO_EPOCH = -1
LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_NOBODY = image.Partition(replicas=(), isr=(), leader=-1, leader_epoch=-1)


class FoundOffset(NamedTuple):
    """The answer of ListOffsets; -1 where there is no timestamp or epoch to tell."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = NO_EPOCH


class Partition:
    """`wake` is called with the partition whenever something that a request may wait for has changed."""

    __slots__ = (
        "_epoch_start", "_node_id", "_wake", "bytes_in", "index", "log", "offline", "settings", "state",
        "topic", "topic_id", "topic_partition",
    )  # fmt: skip

    def __init__(
        self,
        topic_id: UUID,
        log: PartitionLog,
        settings: TopicSettings,
        *,
        node_id: int,
        wake: Callable[["Partition"], None],
    ) -> None:
        self.topic_id = topic_id
        self.topic_partition: TopicPartition = log.partition
        self.topic, self.index = log.partition
        self.log = log
        self.settings = settings
        self.state = _NOBODY
        self.offline = False
        """The directory that holds the log has failed."""
        self.bytes_in = 0
        """Bytes appended since this object was made: lets a waiting fetch guess without reading."""
        self._node_id = node_id
        self._wake = wake
        self._epoch_start = 0

    # --- who leads ---------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self._node_id

    def apply(self, state: image.Partition) -> None:
        """Take over what the cluster has decided."""
        if state.leader_epoch != self.state.leader_epoch:
            self._epoch_start = self.log.end_offset
        self.state = state
        if self.is_leader:
            self._advance_high_watermark()
        self._wake(self)

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this broker leads the partition, in the epoch that the client knows if it says one."""
        if self.offline:
            raise KafkaStorageError(f"the log directory of {self.topic_partition} is offline")
        state = self.state
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != state.leader_epoch:
            text = f"{self.topic_partition} is at leader epoch {state.leader_epoch}, not {current_leader_epoch}"
            if current_leader_epoch < state.leader_epoch:
                raise FencedLeaderEpochError(text)
            raise UnknownLeaderEpochError(text)
        if state.leader != self._node_id:
            raise NotLeaderOrFollowerError(f"{self.topic_partition} is led by broker {state.leader}")

    # --- writing -----------------------------------------------------------------------------------------

    @property
    def below_min_isr(self) -> bool:
        """Too few replicas are in sync to commit anything."""
        state = self.state
        return len(state.isr) < min(self.settings.insync_replicas_min, len(state.replicas))

    def append_as_leader(self, batch: MutableBuffer | None, acks: int, now_ms: int) -> LeaderAppend:
        """Append the one batch a producer sent; offsets and epoch are written into it where it lies."""
        self.check_leader()
        if acks == ACKS_ALL and self.below_min_isr:
            raise NotEnoughReplicasError(
                f"{self.topic_partition} has {len(self.state.isr)} in-sync replicas, min.insync.replicas is "
                f"{self.settings.insync_replicas_min}"
            )
        appended = self.log.append_as_leader(batch, self.state.leader_epoch, now_ms)
        if not appended.duplicate and batch is not None:
            self.bytes_in += len(batch)
            self._advance_high_watermark()
            self._wake(self)
        return appended

    def is_committed(self, appended: LeaderAppend) -> bool:
        """Whether what was appended can be acknowledged to acks=all. A retry waits like the original."""
        return self.log.high_watermark > appended.last_offset

    def _advance_high_watermark(self) -> None:
        """Alone in the in-sync set, this broker's log end is the high watermark; else followers decide."""
        if self.state.isr == (self._node_id,) and not self.below_min_isr:
            self.log.advance_high_watermark(self.log.end_offset)

    # --- reading -----------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, isolation: Isolation, *, min_one: bool
    ) -> PartitionRead:
        """Whole batches from `offset` as far as the reader may see; only bounds where there is no room."""
        return self.log.read(offset, max_bytes, isolation, min_one=min_one)

    def divergence(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the log of a reader, which says its last batch is from `last_fetched_epoch`, left this one:
        (epoch, end offset), or None if it did not."""
        if last_fetched_epoch == NO_EPOCH:
            return None
        epoch, end = self.end_offset_for_epoch(last_fetched_epoch)
        if epoch == NO_EPOCH:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} knows no leader epoch up to {last_fetched_epoch}, in which offset "
                f"{offset} was said to be"
            )
        return (epoch, end) if epoch < last_fetched_epoch or end < offset else None

    # --- offsets -----------------------------------------------------------------------------------------

    def list_offset(self, timestamp: int, isolation: Isolation) -> FoundOffset | None:
        """The offset for a timestamp or one of the special ones; None if there is none."""
        log = self.log
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = log.start_offset
            return FoundOffset(start, leader_epoch=log.log.epochs.epoch_at(start))
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return None
        if log.high_watermark < self._epoch_start and isolation is not Isolation.LOG_END:
            raise OffsetNotAvailableError(
                f"{self.topic_partition}: the new leader has yet to learn that its log is committed up to "
                f"{self._epoch_start}"
            )
        until = log.bound(isolation)
        if timestamp == LATEST:
            return FoundOffset(until, leader_epoch=self.state.leader_epoch)
        answer = log.log.offset_for_timestamp(timestamp, until)
        if answer is None:
            return None
        found, leader_epoch = answer
        return FoundOffset(found.offset, found.timestamp, leader_epoch)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to the one asked for and its end; (-1, -1) if none is known."""
        if leader_epoch == self.state.leader_epoch:
            return leader_epoch, self.log.end_offset
        return self.log.log.epochs.end_offset_for(leader_epoch, self.log.end_offset)
