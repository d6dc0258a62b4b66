"""The task that finds positions: the group's commits, the offsets of reset rules, and whether a new leader has the
history that was read.
"""

import asyncio
from collections.abc import Callable
from random import Random

from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.lookups import EpochEnd, Lookups
from rookery.client.consumer.metadata import UNREACHABLE, Metadata
from rookery.client.consumer.offsets import GroupOffsets
from rookery.client.consumer.options import reset_duration_ms
from rookery.client.consumer.partition import EARLIEST, LATEST, Partition, Phase
from rookery.client.consumer.signal import Signal
from rookery.client.errors import ClientError, KafkaTimeoutError, NoOffsetError
from rookery.core.clock import Clock
from rookery.core.errors import KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import Backoff, BackoffSettings

log = get_logger("client.consumer")

ROUND_S = 30.0
"""Longest time of one look-up of commits; after it the next round begins."""


class LogTruncationError(ClientError):
    """The new leader does not have all records that were read: they were never safely stored. Only with
    auto.offset.reset=none; otherwise reading goes on where the histories part."""


class Positions:
    def __init__(
        self,
        fetches: Fetches,
        metadata: Metadata,
        lookups: Lookups,
        offsets: GroupOffsets | None,
        *,
        reset: str,
        clock: Clock,
        backoff: BackoffSettings,
        rng: Random,
        on_found: Callable[[], None],
    ) -> None:
        self._fetches = fetches
        self._metadata = metadata
        self._lookups = lookups
        self._offsets = offsets
        self._reset = reset
        self._clock = clock
        self._backoff = Backoff(backoff, rng)
        self._on_found = on_found
        self._changed = Signal()
        self.found = Signal()

    def notify(self) -> None:
        self._changed.notify()

    async def run(self) -> None:
        while True:
            committed = self._in(Phase.COMMITTED)
            reset = self._in(Phase.RESET)
            unvalidated = self._in(Phase.VALIDATE)
            if not committed and not reset and not unvalidated:
                await self._changed.wait()
                continue
            problem: Exception | None = None
            for work, partitions in (
                (self._look_up, committed),
                (self._find, reset),
                (self._validate, unvalidated),
            ):
                if partitions:
                    problem = await work(partitions) or problem
            self._on_found()
            self.found.notify()
            if problem is None:
                self._backoff.succeeded()
            else:
                log.debug("position.retried", error=str(problem))
                await self._changed.wait(self._backoff.failed())

    def _in(self, phase: Phase) -> list[Partition]:
        return [
            each for each in self._fetches.partitions.values() if each.phase is phase and each.problem is None
        ]

    # --- the three ways -------------------------------------------------------------------------------------

    async def _look_up(self, partitions: list[Partition]) -> Exception | None:
        if self._offsets is None:
            for partition in partitions:
                self.reset(partition, "there is no group")
            return None
        before = {each: each.incarnation for each in partitions}
        try:
            found = await self._offsets.committed([each.place for each in partitions], ROUND_S)
        except KafkaTimeoutError as error:
            return error
        except (KafkaError, *UNREACHABLE) as error:
            for partition in partitions:
                partition.problem = error
            return None
        for partition, incarnation in before.items():
            if partition.incarnation != incarnation:
                continue
            committed = found[partition.place]
            if committed is None:
                self.reset(partition, "the group committed nothing")
            else:
                partition.committed = committed.offset
                partition.seek(committed.offset, committed.leader_epoch)
        return None

    def reset(self, partition: Partition, why: str) -> None:
        """Apply auto.offset.reset."""
        if self._reset == "none":
            partition.problem = NoOffsetError(
                f"{partition.place} has no position: {why}, and auto_offset_reset is none",
                "Seek to an offset, commit one for the group, or set auto_offset_reset to earliest or latest",
            )
            self._on_found()
            return
        log.info("position.reset", partition=str(partition.place), to=self._reset, reason=why)
        duration = reset_duration_ms(self._reset)
        if duration is not None:
            partition.reset(max(0, self._clock.wall_ms() - duration))
        else:
            partition.reset(EARLIEST if self._reset == "earliest" else LATEST)
        self.notify()

    async def _find(self, partitions: list[Partition]) -> Exception | None:
        before = {each: each.incarnation for each in partitions}
        found, problem = await self._lookups.at_times({each.place: each.reset_time for each in partitions})
        for partition, incarnation in before.items():
            answer = found.get(partition.place)
            if answer is None or partition.incarnation != incarnation:
                continue
            if answer.offset < 0 and partition.reset_time >= 0:
                partition.reset(LATEST)  # no record is so new: what comes next is
                problem = problem or None
                self.notify()
            elif answer.offset >= 0:
                partition.seek(answer.offset)
        return problem

    async def _validate(self, partitions: list[Partition]) -> Exception | None:
        before = {each: each.incarnation for each in partitions}
        epochs = {each.place: each.fetch_epoch for each in partitions}
        asked = {each.place: self._metadata.leader(each.place) for each in partitions}
        found, problem = await self._lookups.epoch_ends(epochs)
        for partition, incarnation in before.items():
            end, leader = found.get(partition.place), asked[partition.place]
            if end is None or leader is None or partition.incarnation != incarnation:
                continue
            if partition.phase is Phase.VALIDATE:
                self._compare(partition, end, leader.epoch)
        return problem

    def _compare(self, partition: Partition, end: EpochEnd, leader_epoch: int) -> None:
        if end.end_offset < 0 or end.leader_epoch < 0:
            self.reset(partition, "the new leader does not know the leader epoch that was read")
        elif end.end_offset < partition.fetch_offset:
            self._truncated(partition, end)
        else:
            partition.validated(leader_epoch)

    def _truncated(self, partition: Partition, end: EpochEnd) -> None:
        log.warning(
            "position.truncated",
            partition=str(partition.place),
            position=partition.fetch_offset,
            end_offset=end.end_offset,
        )
        if self._reset == "none":
            partition.phase = Phase.FETCH
            partition.problem = LogTruncationError(
                f"{partition.place} was read up to offset {partition.fetch_offset}, but its new leader's history "
                f"parts from that at offset {end.end_offset}",
                "Seek to that offset, or to another one",
            )
            return
        position = partition.position
        if position is not None and position <= end.end_offset:
            partition.seek(position, partition.committable_epoch)
        else:
            partition.seek(end.end_offset, end.leader_epoch)


async def wait_for_position(positions: Positions, partition: Partition, timeout_s: float) -> int:
    """The partition's position, when it is known. Raises what keeps it from being known."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        position = partition.position
        if position is not None:
            return position
        if partition.problem is not None:
            raise partition.problem
        left = deadline - loop.time()
        if left <= 0:
            raise KafkaTimeoutError(f"the position of {partition.place} was not found within {timeout_s:g} s")
        positions.notify()
        await positions.found.wait(left)
