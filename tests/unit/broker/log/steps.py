"""A broker's storage whose threads stop at every disk operation, so that anything can happen between two of them.

Virtual time and the threads of the simulator: a run is the same each time it is made.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from rookery.broker.log.cleaner import Cleaner, CleanerOptions
from rookery.broker.log.compaction import CompactionPolicy
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.retention import Retention
from rookery.core.config.options import LONG_MAX
from rookery.core.log import LogConfig
from rookery.core.testing.clock import ManualClock
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from tests.simulation.loop import Process, SimLoop
from tests.unit.broker.log.batches import NOW, batch
from tests.unit.broker.log.nodes import log_dirs

T = TypeVar("T")

SEGMENT = LogConfig(segment_bytes=600, index_interval_bytes=64)
COMPACTED = TopicLogConfig(
    log=SEGMENT,
    compact=True,
    retention=Retention(True, -1, -1),
    compaction=CompactionPolicy(0.01, 0, LONG_MAX),
    file_delete_delay_ms=0,
)
DURABLE = replace(COMPACTED, flush_messages=1)
STEP_S = 0.001
PATIENCE_S = 1000.0


class Storage:
    """One process after the other on one disk. `at_step` says what happens before which disk operation of a
    thread."""

    def __init__(self, seed: int = 0, config: TopicLogConfig = DURABLE) -> None:
        rng = random.Random(seed)
        self.disk = MemoryDisk(random.Random(seed))
        self.disk.threaded = True
        self.disk.point = self._point
        self.config = config
        self.clock = ManualClock()
        draw = rng.random if seed else lambda: 1.0
        self.loop = SimLoop(lambda: STEP_S * draw(), 1.0, rng)  # type: ignore[abstract]
        self.steps = 0
        self._at: tuple[int, Callable[[], None]] | None = None
        self._first_id = 100
        self.process = Process("storage")
        self.start()

    def start(self) -> None:
        """A new process."""
        self.process = Process("storage")
        self.disk.restart()
        self._first_id += 100
        self.dirs: LogDirs = log_dirs(
            self.disk, ["/a"], config=self.config, clock=self.clock, first_id=self._first_id, threads=self._executor
        )
        self.run(self.dirs.start())
        options = HousekeepingOptions(log_segment_delete_delay_ms=0)
        self.keeper = Housekeeper(self.dirs, self.clock, options, self._executor)
        self.cleaner = Cleaner(self.dirs, self.keeper, self.clock, CleanerOptions(), self._executor)

    def kill(self) -> None:
        """kill -9: what was written stays."""
        self.process.alive = False
        self._at = None

    def _executor(self, _name: str, size: int) -> Executor:
        return self.loop.threads.executor(size)

    # -- running

    def task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.process.context.run(self.loop.create_task, work)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.task(work)
        self.finish([task])
        return task.result()

    def finish(self, tasks: Sequence["asyncio.Task[Any]"]) -> None:
        """Let time pass until they are done; their number may grow meanwhile."""
        self.loop.run_until(self.loop.time() + PATIENCE_S, lambda: all(task.done() for task in tasks))
        stuck = [task for task in tasks if not task.done()]
        assert stuck == []

    def at_step(self, number: int, what: Callable[[], None]) -> None:
        """Before the disk operation of this number, counted from now."""
        self._at = (self.steps + number, what)

    def _point(self) -> None:
        if self.loop.threads.waits:
            if self._at is not None and self.steps >= self._at[0]:
                what, self._at = self._at[1], None
                self.process.context.run(self.loop.call_soon, what)
                self.loop.threads.sleep(PATIENCE_S / 10)  # longer than all the rest takes
            self.steps += 1
        self.loop.threads.point()

    # -- partitions

    def create(self, partition: TopicPartition, topic_id: int, records: int = 0, value: str = "") -> PartitionLog:
        log = self.run(self.dirs.create(partition, UUID(int=topic_id)))
        self.append(log, records, value)
        return log

    def append(self, log: PartitionLog, records: int, value: str) -> None:
        """Committed and durable records of few keys."""
        for number in range(records):
            key, content = b"key-%d" % (number % 3), f"{value}-{number}".encode()
            data = batch(1, keys=[key], values=[content], producer_id=7, sequence=log.end_offset)
            log.append_as_leader(data, 0, NOW)
        log.advance_high_watermark(log.end_offset)
        self.run(self._durable(log))

    async def _durable(self, log: PartitionLog) -> None:
        waiting = self.dirs.appended(log)
        if waiting is not None:
            await waiting
