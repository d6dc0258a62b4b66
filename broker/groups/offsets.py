"""The committed offsets of one group. Only `replay` changes them: what is committed stands in the log.

They are kept by the topic's name, as they are stored, and each knows the id of the topic it was committed for: what was
committed for a deleted topic is not an offset of the next topic of that name.

Offsets that a transaction commits are *pending* until it ends: requests for stable offsets get UNSTABLE_OFFSET_COMMIT,
all others see what was committed before. When transactions commit in another order than they wrote, what was written
last stays.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from rookery.broker.groups.records import NO_TIMESTAMP, OffsetCommitValue
from rookery.core.types import TopicPartition
from rookery.core.wire.primitives import NO_UUID

NO_PRODUCER = -1

Since = Callable[[OffsetCommitValue], int]
"""From when on the retention of an offset counts (ms)."""

TopicIdOf = Callable[[str, int], UUID | None]
"""The id of the topic that has this partition; None where there is no such partition."""


def is_current(value: OffsetCommitValue, topic_id: UUID | None) -> bool:
    """Whether this was committed for the topic of this id. An offset whose record has no id, as old ones have none,
    belongs to whichever topic has the name."""
    return topic_id is not None and value.topic_id in (topic_id, NO_UUID)


class Committed(NamedTuple):
    value: OffsetCommitValue
    at: int
    """The offset of its record in `__consumer_offsets`."""


class Offsets:
    def __init__(self) -> None:
        self._committed: dict[TopicPartition, Committed] = {}
        self._pending: dict[int, dict[TopicPartition, Committed]] = {}

    def __len__(self) -> int:
        return len(self._committed)

    def __bool__(self) -> bool:
        """Whether there is anything to keep the group for."""
        return bool(self._committed or self._pending)

    def __iter__(self) -> Iterator[tuple[TopicPartition, OffsetCommitValue]]:
        for partition, committed in self._committed.items():
            yield partition, committed.value

    def __contains__(self, partition: object) -> bool:
        return partition in self._committed

    def get(self, partition: TopicPartition) -> OffsetCommitValue | None:
        committed = self._committed.get(partition)
        return None if committed is None else committed.value

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether a transaction that has yet to end would move this offset."""
        return any(partition in offsets for offsets in self._pending.values())

    def has(self, partition: TopicPartition) -> bool:
        """Whether there is an offset, be it pending."""
        return partition in self._committed or self.is_unstable(partition)

    # --- the log ----------------------------------------------------------------------------------------------

    def replay(
        self, partition: TopicPartition, value: OffsetCommitValue | None, at: int, producer_id: int = NO_PRODUCER
    ) -> None:
        """A record at offset `at`; with a producer id it counts only when its transaction is committed."""
        if value is None:
            self._committed.pop(partition, None)
            for offsets in self._pending.values():
                offsets.pop(partition, None)
            self._drop_empty()
        elif producer_id == NO_PRODUCER:
            self._committed[partition] = Committed(value, at)
        else:
            self._pending.setdefault(producer_id, {})[partition] = Committed(value, at)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """The producer's end marker stands in the log."""
        for partition, pending in self._pending.pop(producer_id, {}).items():
            before = self._committed.get(partition)
            if committed and (before is None or before.at < pending.at):
                self._committed[partition] = pending

    def _drop_empty(self) -> None:
        self._pending = {producer: offsets for producer, offsets in self._pending.items() if offsets}

    # --- what may go ------------------------------------------------------------------------------------------

    def expired(
        self, now_ms: int, retention_ms: int, since: Since, keep: frozenset[str] = frozenset()
    ) -> list[TopicPartition]:
        """Partitions whose offset was kept for long enough; those of topics to `keep`, and those in a transaction,
        are not among them."""
        return [
            partition
            for partition, (value, _) in self._committed.items()
            if partition.topic not in keep
            and _is_over(value, now_ms, retention_ms, since)
            and not self.is_unstable(partition)
        ]

    def of_topics(self, gone: Callable[[str], bool]) -> list[TopicPartition]:
        """Partitions with an offset, committed or pending, whose topic is gone."""
        known = dict.fromkeys(self._committed)
        for offsets in self._pending.values():
            known.update(dict.fromkeys(offsets))
        return [partition for partition in known if gone(partition.topic)]

    def stale(self, topic_id_of: TopicIdOf) -> list[TopicPartition]:
        """Partitions all of whose offsets, committed or pending, are of a topic that is gone."""
        stale: dict[TopicPartition, bool] = {}
        pending = (offsets.items() for offsets in self._pending.values())
        for partition, (value, _) in chain(self._committed.items(), *pending):
            stale[partition] = stale.get(partition, True) and not is_current(value, topic_id_of(*partition))
        return [partition for partition, is_stale in stale.items() if is_stale]

    def partitions(self) -> list[TopicPartition]:
        return self.of_topics(lambda topic: True)


def _is_over(value: OffsetCommitValue, now_ms: int, retention_ms: int, since: Since) -> bool:
    """Clients before 2.1 could say themselves when an offset expires."""
    if value.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= value.expire_timestamp
    return now_ms - since(value) >= retention_ms
