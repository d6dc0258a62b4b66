"""The order of a parallel runner: what may be handled now, and how far each partition is finished. Pure.

Records with the same key are handled one after the other, in their order; records of other keys beside them. A
partition is finished up to the first record that is not handled: only that prefix may be committed.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Any

from rookery.client.types import OffsetAndMetadata, Record
from rookery.core.types import TopicPartition

AnyRecord = Record[Any, Any]


class Progress:
    """One partition: its records in order, and which of them are handled."""

    __slots__ = ("_handled", "_waiting", "epoch", "finished")

    def __init__(self) -> None:
        self._waiting: deque[AnyRecord] = deque()
        self._handled: set[int] = set()
        self.finished: int | None = None
        """The offset after the finished prefix; None while nothing is finished."""
        self.epoch = -1

    def add(self, record: AnyRecord) -> None:
        self._waiting.append(record)

    def handled(self, offset: int) -> None:
        self._handled.add(offset)
        while self._waiting and self._waiting[0].offset in self._handled:
            record = self._waiting.popleft()
            self._handled.discard(record.offset)
            self.finished = record.offset + 1
            self.epoch = record.leader_epoch

    @property
    def unfinished(self) -> int:
        return len(self._waiting)

    @property
    def first(self) -> int | None:
        """The offset of the first record that is not finished."""
        return self._waiting[0].offset if self._waiting else None


def by_key(record: AnyRecord) -> Hashable:
    """Records without a key have their partition's order."""
    return (record.topic, record.partition, record.key)


def by_partition(record: AnyRecord) -> Hashable:
    return (record.topic, record.partition)


class Order:
    """Records wait for the one before them with the same lane; `lane` of None: nobody waits."""

    def __init__(self, lane: Callable[[AnyRecord], Hashable] | None) -> None:
        self._lane = lane
        self._lanes: dict[Hashable, deque[AnyRecord]] = {}
        self._ready: deque[AnyRecord] = deque()
        self._progress: dict[TopicPartition, Progress] = {}
        self.running = 0

    @property
    def unfinished(self) -> int:
        """Records that were added and are not handled."""
        return self.running + len(self._ready) + sum(len(lane) for lane in self._lanes.values())

    def add(self, record: AnyRecord) -> None:
        self._progress.setdefault(TopicPartition(record.topic, record.partition), Progress()).add(record)
        if self._lane is None:
            self._ready.append(record)
            return
        lane = self._lane(record)
        waiting = self._lanes.get(lane)
        if waiting is None:
            self._lanes[lane] = deque()
            self._ready.append(record)
        else:
            waiting.append(record)

    def next(self) -> AnyRecord | None:
        """A record to handle now; it counts as running until `handled` or `failed`."""
        if not self._ready:
            return None
        self.running += 1
        return self._ready.popleft()

    def handled(self, record: AnyRecord) -> None:
        self._ended(record)
        progress = self._progress.get(TopicPartition(record.topic, record.partition))
        if progress is not None:
            progress.handled(record.offset)

    def failed(self, record: AnyRecord) -> None:
        """Not handled: what follows it in its lane is not handled either, and nothing behind it is committed."""
        self.running -= 1
        if self._lane is not None:
            self._lanes.pop(self._lane(record), None)

    def _ended(self, record: AnyRecord) -> None:
        self.running -= 1
        self._leave_lane(record)

    def _leave_lane(self, record: AnyRecord) -> None:
        """The first of a lane is handled or dropped: the next one is ready."""
        if self._lane is None:
            return
        lane = self._lane(record)
        waiting = self._lanes.get(lane)
        if waiting:
            self._ready.append(waiting.popleft())
        else:
            self._lanes.pop(lane, None)

    def finished(
        self, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What may be committed."""
        return {
            tp: OffsetAndMetadata(progress.finished, leader_epoch=progress.epoch)
            for tp, progress in self._progress.items()
            if progress.finished is not None and (places is None or tp in places)
        }

    def unfinished_from(self) -> dict[TopicPartition, int]:
        """Where each partition that has unfinished records would have to be read again from."""
        return {tp: first for tp, progress in self._progress.items() if (first := progress.first) is not None}

    def drop_waiting(self, places: Collection[TopicPartition] | None = None) -> None:
        """Forget records that are not running, of some partitions or of all; what runs may finish."""
        gone = self._progress.keys() if places is None else set(places)
        ready, self._ready = self._ready, deque()
        for waiting in self._lanes.values():
            kept = [each for each in waiting if TopicPartition(each.topic, each.partition) not in gone]
            waiting.clear()
            waiting.extend(kept)
        for record in ready:
            if TopicPartition(record.topic, record.partition) in gone:
                self._leave_lane(record)
            else:
                self._ready.append(record)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Partitions that went to others: what still runs for them counts for nothing."""
        for tp in places:
            self._progress.pop(tp, None)
