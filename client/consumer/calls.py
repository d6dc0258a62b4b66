"""Positions, commits and questions: the calls of a consumer that hand out no records."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rookery.client.consumer.commits import Callback, CommitOffsets, Commits
from rookery.client.consumer.engine import Engine
from rookery.client.consumer.explaining import explain, metrics, problems
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.lookups import OffsetAtTime
from rookery.client.consumer.offsets import GroupOffsets
from rookery.client.consumer.partition import EARLIEST, LATEST, Partition
from rookery.client.consumer.positions import wait_for_position
from rookery.client.consumer.reading import Reading
from rookery.client.errors import IllegalStateError, KafkaTimeoutError
from rookery.client.health import Health
from rookery.client.options import DEFAULT_API_TIMEOUT_MS, Settings
from rookery.client.session import Session, explained
from rookery.client.types import GroupMetadata, OffsetAndMetadata
from rookery.core.errors import UnknownTopicOrPartitionError
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.types import TopicPartition


class ConsumerCalls(ABC):
    """`Consumer` has these calls; they need its parts, and nothing of how records are handed out."""

    _settings: Settings
    _fetches: Fetches
    _commits: Commits
    _session: Session
    _reading: Reading
    _engine_or_none: Engine | None

    @property
    @abstractmethod
    def closed(self) -> bool: ...

    @property
    @abstractmethod
    def skipped(self) -> int: ...

    @property
    @abstractmethod
    def _engine(self) -> Engine: ...

    @abstractmethod
    def _check(self) -> None: ...

    @abstractmethod
    def _moved(self) -> None: ...

    @abstractmethod
    def _member(self) -> GroupMetadata | None: ...

    # --- positions ------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read from this offset next."""
        self._check()
        if isinstance(offset, OffsetAndMetadata):
            where, epoch = offset.offset, offset.leader_epoch
        else:
            where, epoch = offset, -1
        if where < 0:
            raise IllegalStateError(f"offset {where} is negative", "Use seek_to_beginning() or seek_to_end()")
        self._partition(partition).seek(where, epoch)
        self._moved()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read from the first record that is kept; without arguments in all assigned partitions."""
        self._seek_all(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read what comes from now on."""
        self._seek_all(partitions, LATEST)

    def seek_to_time(self, time: int | datetime, *partitions: TopicPartition) -> None:
        """Read from the first record that is not older than this (ms since 1970, or a datetime)."""
        ms = int(time.timestamp() * 1000) if isinstance(time, datetime) else time
        if ms < 0:
            raise IllegalStateError(f"the time {ms} lies before 1970")
        self._seek_all(partitions, ms)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Read again from what the group committed: after a transaction was aborted, or a batch failed."""
        self._check()
        self._group_offsets()
        for partition in [self._partition(tp) for tp in partitions or list(self._fetches.partitions)]:
            partition.look_up()
        self._moved()

    def _seek_all(self, partitions: tuple[TopicPartition, ...], time: int) -> None:
        self._check()
        for partition in [self._partition(tp) for tp in partitions or list(self._fetches.partitions)]:
            partition.reset(time)
        self._moved()

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """All positions that are known: what `commit()` commits, and what a transaction takes."""
        return self._commits.snapshot()

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record to be handed out; found first if need be."""
        self._check()
        return await wait_for_position(
            self._engine.positions, self._partition(partition), self._timeout_s(timeout_ms)
        )

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out and fetch nothing of these partitions (all without arguments) until they are resumed."""
        self._set_paused(partitions, True)

    def resume(self, *partitions: TopicPartition) -> None:
        self._set_paused(partitions, False)

    def _set_paused(self, partitions: tuple[TopicPartition, ...], paused: bool) -> None:
        self._check()
        for partition in [self._partition(tp) for tp in partitions or list(self._fetches.partitions)]:
            partition.paused = paused
        self._moved()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(tp for tp, partition in self._fetches.partitions.items() if partition.paused)

    def _partition(self, tp: TopicPartition) -> Partition:
        found = self._fetches.partitions.get(TopicPartition(*tp))
        if found is None:
            raise IllegalStateError(
                f"{tp[0]}-{tp[1]} is not assigned to this Consumer",
                "assign() it, or wait for the group: on_partitions_assigned is called when it is",
            )
        return found

    # --- commits --------------------------------------------------------------------------------------------

    async def commit(self, offsets: CommitOffsets = None, *, timeout_ms: int | None = None) -> None:
        """Commit the positions, or these offsets (of the next records to read), or the one after a record.

        Failures that pass are waited out. CommitFailedError: the group went on without this member."""
        self._check()
        await self._commits.commit(offsets, None if timeout_ms is None else timeout_ms / 1000)

    def commit_async(
        self, offsets: CommitOffsets = None, callback: Callback | None = None
    ) -> "asyncio.Task[None]":
        """Commit in the background, in the order of the calls, without retries: the next commit does the same work.
        `callback(offsets, error)` is called once."""
        self._check()
        return self._commits.commit_async(offsets, callback)

    async def committed(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed for these partitions, or for all assigned ones; None where nothing."""
        self._check()
        places = [TopicPartition(*each) for each in partitions] or list(self._fetches.partitions)
        return await self._group_offsets().committed(places, self._timeout_s(timeout_ms))

    def _group_offsets(self) -> GroupOffsets:
        if self._engine.offsets is None:
            raise IllegalStateError("offsets are committed for a group", "Set group_id")
        return self._engine.offsets

    def group_metadata(self) -> GroupMetadata:
        """This member, as a transactional producer needs it."""
        member = self._member()
        if member is None:
            raise IllegalStateError(
                "this Consumer is not a member of a group now", "Set group_id, subscribe, and poll"
            )
        return member

    # --- questions ------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The first offsets that are kept."""
        found = await self._at_times({tp: EARLIEST for tp in self._places(partitions)}, timeout_ms)
        return {tp: each.offset for tp, each in found.items()}

    async def end_offsets(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """The offsets of the next records to be written; with read_committed those that can be read."""
        found = await self._at_times({tp: LATEST for tp in self._places(partitions)}, timeout_ms)
        return {tp: each.offset for tp, each in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAtTime | None]:
        """The first record at or after each time (ms); None where there is none."""
        found = await self._at_times({TopicPartition(*tp): time for tp, time in times.items()}, timeout_ms)
        return {tp: None if each.offset < 0 else each for tp, each in found.items()}

    def lag(self, partition: TopicPartition) -> int | None:
        """Records behind the high watermark as the last fetch had it; None while that is not known."""
        state = self._partition(partition)
        position = state.position
        if position is None or state.high_watermark < 0:
            return None
        return max(0, state.high_watermark - position)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic. Raises UnknownTopicOrPartitionError."""
        self._check()
        await self._engine.metadata.refresh([topic])
        count = self._engine.metadata.counts().get(topic)
        if count is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {topic!r}")
        return [TopicPartition(topic, index) for index in range(count)]

    def _places(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(*each) for each in partitions] or list(self._fetches.partitions)

    async def _at_times(
        self, times: Mapping[TopicPartition, int], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAtTime]:
        self._check()
        timeout_s = self._timeout_s(timeout_ms)
        found: dict[TopicPartition, OffsetAtTime] = {}
        problem: Exception | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        backoff = Backoff(BackoffSettings(), self._rng)
        metadata, lookups = self._engine.metadata, self._engine.lookups
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    missing = {tp: time for tp, time in times.items() if tp not in found}
                    if any(metadata.leader(tp) is None for tp in missing):
                        await metadata.refresh({tp.topic for tp in missing})
                    answers, problem = await lookups.at_times(missing)
                    found |= answers
                    if len(found) == len(times):
                        return found
                    await asyncio.sleep(backoff.failed())
        except TimeoutError:
            why = f": {explained(problem)}" if problem is not None else ""
            raise KafkaTimeoutError(f"offsets were not found within {timeout_s:g} s{why}") from None

    # --- what it is doing -----------------------------------------------------------------------------------

    def explain(self) -> dict[str, Any]:
        """What this consumer is doing now, for people."""
        return explain(self._session, self._engine_or_none, self._fetches, self._reading)

    def health(self) -> Health:
        """What keeps records from being read now."""
        if self.closed or self._engine_or_none is None:
            return Health(("the consumer is closed" if self.closed else "the consumer is not started",))
        return Health(tuple(problems(self._engine_or_none, self._fetches)))

    def metrics(self) -> dict[str, float]:
        """Counts since the start, by the names of Kafka's consumer where it has them."""
        return metrics(self._engine_or_none, self._fetches, self._reading, self.skipped)

    def _timeout_s(self, timeout_ms: int | None) -> float:
        return (self._settings[DEFAULT_API_TIMEOUT_MS] if timeout_ms is None else timeout_ms) / 1000

    _rng: Any
