"""What to fetch from which node, and what answers mean for the partitions.

Pure. A partition is fetched while it has fewer bytes buffered than one answer may bring, and all partitions together
fewer than ``fetch.max.bytes``: so the next records arrive while the last ones are handed out, in bounded memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple
from uuid import UUID

from rookery.client.aborted import Aborted
from rookery.client.consumer.decoding import Answer
from rookery.client.consumer.partition import NO_EPOCH, Partition, Phase
from rookery.client.consumer.session import Wanted
from rookery.client.types import Columns, Record
from rookery.core.errors import ErrorCode, error_for
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.fetch import PartitionData
from rookery.core.wire.batch import batches

STALE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that pass when the client knows the cluster as it is now."""
PASSING = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.CORRUPT_MESSAGE})


class Leader(NamedTuple):
    """Who leads a partition, as metadata has it."""

    node: int
    epoch: int
    topic_id: UUID


class Outcome(Enum):
    """What is to be done after a partition's part of an answer."""

    DONE = auto()
    OUT_OF_RANGE = auto()
    """The position is not in the log: it is reset, or the user has to decide."""
    STALE = auto()
    """The client's metadata is old."""
    RETRY = auto()
    """Failed for now; try again later."""
    FATAL = auto()
    """The user has to know; `problem` of the partition has the error."""


@dataclass(slots=True)
class FetchLimits:
    bytes_max: int = 52_428_800
    partition_bytes_max: int = 1_048_576
    check_crcs: bool = True
    read_committed: bool = False


@dataclass(slots=True)
class Fetches:
    """All assigned partitions."""

    limits: FetchLimits
    partitions: dict[TopicPartition, Partition] = field(default_factory=dict)
    _turn: int = 0

    # --- out ------------------------------------------------------------------------------------------------

    def nodes(self, leader: Callable[[TopicPartition], Leader | None], now: float) -> set[int]:
        """The nodes that some partition is read from now."""
        found: set[int] = set()
        for partition in self.partitions.values():
            place = leader(partition.place)
            if place is not None and partition.phase is Phase.FETCH:
                found.add(_node(partition, place, now))
        return found

    def plan(
        self, node: int, leader: Callable[[TopicPartition], Leader | None], now: float
    ) -> tuple[dict[TopicPartition, Wanted], bool]:
        """What to fetch from a node, in an order that moves on with every request: a limit on the answer's size
        does not starve the same partitions again and again. And whether others wait for room in their buffers or for
        the end of a pause."""
        waiting = self.buffered >= self.limits.bytes_max
        if waiting:
            return {}, True
        wanted: dict[TopicPartition, Wanted] = {}
        for tp, partition in self.partitions.items():
            place = leader(tp)
            if place is None or not partition.fetchable or _node(partition, place, now) != node:
                continue
            if partition.not_before > now or partition.buffered >= self.limits.partition_bytes_max:
                waiting = True
                continue
            partition.saw_leader(place.epoch)
            if partition.phase is Phase.FETCH:
                wanted[tp] = Wanted(
                    place.topic_id, partition.fetch_offset, place.epoch, self.limits.partition_bytes_max
                )
        return self._rotated(wanted), waiting

    @property
    def unvalidated(self) -> int:
        """How many positions a new leader has to confirm."""
        return sum(partition.phase is Phase.VALIDATE for partition in self.partitions.values())

    def share(self, nodes: int) -> int:
        """How many bytes the answer of one of so many nodes may have."""
        room = self.limits.bytes_max - self.buffered
        return max(1, room // max(1, nodes))

    def _rotated(self, wanted: dict[TopicPartition, Wanted]) -> dict[TopicPartition, Wanted]:
        self._turn += 1
        first = self._turn % len(wanted) if wanted else 0
        order = list(wanted)
        return {tp: wanted[tp] for tp in [*order[first:], *order[:first]]}

    @property
    def buffered(self) -> int:
        return sum(partition.buffered for partition in self.partitions.values())

    # --- in -------------------------------------------------------------------------------------------------

    def answered(
        self, tp: TopicPartition, wanted: Wanted, incarnation: int, data: PartitionData, node: int
    ) -> Outcome:
        """Take a partition's part of an answer. An answer to what is no longer asked is dropped."""
        partition = self.partitions.get(tp)
        if (
            partition is None
            or partition.incarnation != incarnation
            or partition.fetch_offset != wanted.offset
        ):
            return Outcome.DONE
        code = data.error_code
        if code:
            return self._refused(partition, code, node)
        partition.failures = 0
        partition.high_watermark = data.high_watermark
        partition.last_stable = data.last_stable_offset
        partition.log_start = data.log_start_offset
        records = data.records
        if records:
            self._store(partition, data)
        return Outcome.DONE

    def _store(self, partition: Partition, data: PartitionData) -> None:
        records = data.records
        assert records is not None
        last = None
        for _, header in batches(records, partial_end=True):
            last = header
        if last is None or last.next_offset <= partition.fetch_offset:
            return
        aborted = Aborted(data.aborted_transactions or ()) if self.limits.read_committed else None
        answer = Answer(partition.place, records, aborted, check_crcs=self.limits.check_crcs)
        partition.fetched(answer, last.next_offset, last.partition_leader_epoch)

    def _refused(self, partition: Partition, code: int, node: int) -> Outcome:
        closer, partition.preferred = partition.preferred, None
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if closer == node:
                return Outcome.RETRY  # a follower may be behind: the leader decides
            if partition.unread:
                return Outcome.RETRY  # a reset drops what was fetched: the user gets that first
            return Outcome.OUT_OF_RANGE
        if code in STALE:
            return Outcome.STALE
        if code in PASSING:
            return Outcome.RETRY
        partition.problem = error_for(code, f"{partition.place} at offset {partition.fetch_offset}")
        return Outcome.FATAL

    # --- to the user ----------------------------------------------------------------------------------------

    def in_turn(self) -> Iterator[Partition]:
        """Partitions that may have something for the user, another one first each time."""
        order = list(self.partitions.values())
        if not order:
            return
        self._turn += 1
        first = self._turn % len(order)
        for partition in (*order[first:], *order[:first]):
            if partition.available:
                yield partition

    def read_again(self, records: Iterable[Record[Any, Any] | Columns[Any, Any]]) -> None:
        """Go back to the first of these records: they were taken, and did not reach the user."""
        first: dict[TopicPartition, int] = {}
        for each in records:
            tp = TopicPartition(each.topic, each.partition)
            offset = each.offset if isinstance(each, Record) else each.offsets[0]
            first[tp] = min(offset, first.get(tp, offset))
        for tp, offset in first.items():
            partition = self.partitions.get(tp)
            if partition is not None and (position := partition.position) is not None:
                partition.seek(min(position, offset))

    def positions(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """The positions that are known, with the leader epoch of the record before each."""
        return {
            tp: (position, partition.committable_epoch)
            for tp, partition in self.partitions.items()
            if (position := partition.position) is not None
        }


def _node(partition: Partition, leader: Leader, now: float) -> int:
    if partition.preferred is not None and partition.preferred_until > now:
        return partition.preferred
    return leader.node


__all__ = ["NO_EPOCH", "FetchLimits", "Fetches", "Leader", "Outcome"]
