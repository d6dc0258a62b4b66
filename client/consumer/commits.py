"""When offsets are committed: by the user, from time to time, before partitions go, and at the end."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rookery.client.consumer import options
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.listener import call
from rookery.client.consumer.offsets import GroupOffsets
from rookery.client.errors import CommitFailedError, IllegalStateError, KafkaError
from rookery.client.options import Settings
from rookery.client.types import OffsetAndMetadata, Record
from rookery.core.event_logging import get_logger
from rookery.core.types import TopicPartition

log = get_logger("client.consumer")

Offset = int | OffsetAndMetadata | tuple[int, str]
CommitOffsets = Mapping[TopicPartition, Offset] | Record[Any, Any] | None
"""What a user may commit: offsets by partition, a record that was processed, or None for all positions."""
Callback = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], Any]
BEFORE_REVOKE_S = 10.0
"""Longest time of the commit before partitions go: the group waits for it."""


def as_offsets(
    given: Mapping[TopicPartition, Offset] | Record[Any, Any],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as they are sent; that of a record is the one after it."""
    if isinstance(given, Record):
        place = TopicPartition(given.topic, given.partition)
        return {place: OffsetAndMetadata(given.offset + 1, leader_epoch=given.leader_epoch)}
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for tp, each in given.items():
        if isinstance(each, OffsetAndMetadata):
            offset = each
        else:
            offset = OffsetAndMetadata(each) if isinstance(each, int) else OffsetAndMetadata(each[0], each[1])
        if offset.offset < 0:
            raise IllegalStateError(
                f"offset {offset.offset} of {tp[0]}-{tp[1]} cannot be committed: it is negative"
            )
        found[TopicPartition(*tp)] = offset
    return found


class Commits:
    def __init__(self, fetches: Fetches, settings: Settings) -> None:
        self._fetches = fetches
        self._auto = settings[options.ENABLE_AUTO_COMMIT] and bool(settings[options.GROUP_ID])
        self._interval_s = settings[options.AUTO_COMMIT_INTERVAL_MS] / 1000
        self._offsets: GroupOffsets | None = None
        self._due = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self.managed: Callable[[Collection[TopicPartition]], Any] | None = None
        """Set by the runner, which knows what is processed: called before partitions go, instead of auto-commit."""
        self.lost: Callable[[Collection[TopicPartition]], None] = lambda places: None
        """Called when partitions belong to others already: nothing may be committed for them."""

    def start(self, offsets: GroupOffsets | None) -> None:
        self._offsets = offsets
        self._due = asyncio.get_running_loop().time() + self._interval_s

    @property
    def possible(self) -> bool:
        """Whether there is a group to commit for."""
        return self._offsets is not None

    @property
    def automatic(self) -> bool:
        return self._auto and self.managed is None

    def end_automatic(self) -> None:
        """What was handed out last is not processed: only the user knows what may be committed."""
        self._auto = False

    @property
    def due(self) -> bool:
        return self.automatic and asyncio.get_running_loop().time() >= self._due

    # --- by the user ----------------------------------------------------------------------------------------

    async def commit(self, given: CommitOffsets, timeout_s: float | None = None) -> None:
        offsets = self.snapshot() if given is None else as_offsets(given)
        sender = self._group_offsets()
        if self._tasks:
            await asyncio.sleep(0)  # commits that were begun before, and have not run yet, have their turn first
        await sender.commit(offsets, timeout_s)
        self._note(offsets)

    def commit_async(self, given: CommitOffsets, callback: Callback | None) -> "asyncio.Task[None]":
        """The offsets are those of now; the task ends when they are committed, after the callback."""
        offsets = self.snapshot() if given is None else as_offsets(given)
        sender = self._group_offsets()

        async def work() -> None:
            problem: Exception | None = None
            try:
                await sender.commit(offsets, retry=False)
                self._note(offsets)
            except KafkaError as error:
                problem = error
                if callback is None:
                    log.warning("commit.failed", error=str(error))
            if callback is not None:
                await call(callback, offsets, problem)

        return self._spawn(work())

    def _group_offsets(self) -> GroupOffsets:
        if self._offsets is None:
            raise IllegalStateError("offsets are committed for a group", "Set group_id")
        return self._offsets

    # --- by itself ------------------------------------------------------------------------------------------

    def snapshot(
        self, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions of now, of all partitions or of some."""
        return {
            tp: OffsetAndMetadata(offset, leader_epoch=epoch)
            for tp, (offset, epoch) in self._fetches.positions().items()
            if places is None or tp in places
        }

    def _moved(
        self, places: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions that differ from what was committed last."""
        return {
            tp: each
            for tp, each in self.snapshot(places).items()
            if self._fetches.partitions[tp].committed != each.offset
        }

    def commit_if_due(self) -> None:
        """Called where everything handed out so far is processed."""
        if not self.due:
            return
        self._due = asyncio.get_running_loop().time() + self._interval_s
        offsets = self._moved()
        if offsets:
            self._spawn(self._quietly(offsets, None))

    async def commit_before_revoke(self, places: Collection[TopicPartition]) -> None:
        if self.managed is not None:
            await call(self.managed, places)
        elif self._auto:
            offsets = self._moved(places)
            if offsets:
                await self._quietly(offsets, BEFORE_REVOKE_S)

    async def _quietly(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout_s: float | None
    ) -> None:
        try:
            await self._group_offsets().commit(offsets, timeout_s)
            self._note(offsets)
        except CommitFailedError as error:
            log.warning("autocommit.refused", error=str(error))
        except KafkaError as error:
            log.warning("autocommit.failed", error=str(error))

    def _note(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for tp, each in offsets.items():
            partition = self._fetches.partitions.get(tp)
            if partition is not None:
                partition.committed = each.offset

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = asyncio.create_task(work, name="consumer: commit")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self) -> None:
        """Wait for the commits under way."""
        if self._tasks:
            await asyncio.wait(list(self._tasks))
