"""The log cleaner: takes the dirtiest compacted log, cleans it in a thread of its own, begins again.

One log at a time, within log.cleaner.io.max.bytes.per.second and log.cleaner.dedupe.buffer.size. Each step of
a pass holds a lease on the log's files: a cut or a deletion calls the step off, retention waits for its end.
Results are put in place on the event loop, where the logs live. A log that turns out to be damaged is left
alone until the next start.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rookery.broker.log.background import CancelledWork, Threads, Throttle, real_threads
from rookery.broker.log.cleaning import CleaningJob, begin_cleaning, cleaning_plan, is_current, put_in_place
from rookery.broker.log.compaction import CleaningPlan
from rookery.broker.log.housekeeper import SLICE, Housekeeper
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.core.clock import Clock
from rookery.core.config import node
from rookery.core.config.options import Settings
from rookery.core.event_logging import get_logger
from rookery.core.log import LogClosed, LogCorrupt, LogDirFailed
from rookery.core.service import Service

log = get_logger("broker.log")


@dataclass(frozen=True, slots=True)
class CleanerOptions:
    """The broker's options; the names are the keys with `log.cleaner.` taken off and `.` as `_`."""

    backoff_ms: int = 15_000
    dedupe_buffer_size: int = 128 * 1024 * 1024
    io_max_bytes_per_second: float = 1.7976931348623157e308

    @staticmethod
    def of(settings: Settings) -> "CleanerOptions":
        return CleanerOptions(
            settings[node.LOG_CLEANER_BACKOFF_MS],
            settings[node.LOG_CLEANER_DEDUPE_BUFFER_SIZE],
            settings[node.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND],
        )


class Cleaner(Service):
    """Compacts logs until cancelled."""

    name = "log-cleaner"

    def __init__(
        self,
        dirs: LogDirs,
        housekeeper: Housekeeper,
        clock: Clock,
        options: CleanerOptions,
        threads: Threads = real_threads,
    ) -> None:
        self._dirs = dirs
        self._housekeeper = housekeeper
        self._clock = clock
        self._options = options
        self._throttle = Throttle(options.io_max_bytes_per_second)
        self._thread = threads("log-cleaner", 1)
        self.passes = 0
        self.bytes_read = 0
        self.bytes_written = 0

    async def serve(self) -> None:
        while True:
            found = None
            try:
                found = await self.dirtiest()
                if found is not None:
                    await self.clean(*found)
            except Exception as error:  # logs bear their own; what is left is a defect, which must not end the node
                log.exception("log.cleaner.failed", error)
                found = None
            if found is None:
                await asyncio.sleep(self._options.backoff_ms / 1000)

    async def stop(self) -> None:
        self._thread.shutdown(wait=False)

    async def dirtiest(self) -> tuple[PartitionLog, CleaningPlan] | None:
        """Logs that are overdue come first, then those with the largest dirty part."""
        now_ms = self._clock.wall_ms()
        found: list[tuple[PartitionLog, CleaningPlan]] = []
        for number, partition in enumerate(list(self._dirs.partitions.values())):
            if self._is_cleanable(partition):
                with self._confined(partition):
                    plan = cleaning_plan(partition, now_ms)
                    if plan is not None:
                        found.append((partition, plan))
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        return max(found, key=lambda each: (each[1].overdue_ms, each[1].dirty_ratio), default=None)

    def _is_cleanable(self, partition: PartitionLog) -> bool:
        """A damaged log is left as it is: cleaning would drop for good what cannot be read."""
        wanted = partition.config.compact and partition.uncleanable is None
        return wanted and partition.partition not in self._dirs.damaged and partition.files.shareable

    async def clean(self, partition: PartitionLog, plan: CleaningPlan) -> None:
        """Clean one log; whatever goes wrong concerns only this one, or its dir."""
        self.passes += 1
        with self._confined(partition):
            job = await self._prepared(partition, plan)
            try:
                if await self._clean(partition, job):
                    partition.clean_offset = max(job.end, partition.start_offset)
                    log.info(
                        "log.cleaned",
                        partition=str(partition.partition),
                        to=job.end,
                        bytes_read=job.stats.bytes_read,
                        bytes_written=job.stats.bytes_written,
                    )
            finally:
                self.bytes_read += job.stats.bytes_read
                self.bytes_written += job.stats.bytes_written

    @contextmanager
    def _confined(self, partition: PartitionLog) -> Iterator[None]:
        with self._dirs.confined(partition, "cleaning"):
            try:
                yield
            except CancelledWork:
                return
            except (LogClosed, LogDirFailed, OSError):
                raise
            except Exception as error:
                partition.uncleanable = str(error)
                log.error("log.uncleanable", partition=str(partition.partition), reason=str(error))
                if isinstance(error, LogCorrupt):
                    raise

    async def _prepared(self, partition: PartitionLog, plan: CleaningPlan) -> CleaningJob:
        async with partition.files.shared("cleaning") as lease:
            job = begin_cleaning(
                partition,
                plan,
                memory_bytes=self._options.dedupe_buffer_size,
                throttle=self._throttle,
                now_ms=self._clock.wall_ms(),
            )
            job.revoked = lease.revoked
            await lease.run(self._thread, job.prepare)
        return job

    async def _clean(self, partition: PartitionLog, job: CleaningJob) -> bool:
        """False if the log changed between two steps; it will be looked at again."""
        while True:
            async with partition.files.shared("cleaning") as lease:
                if not is_current(partition, job):
                    return False
                job.revoked = lease.revoked
                group = await lease.run(self._thread, job.next_group)
            if group is None:
                return True
            async with partition.files.alone("swap") as lease:
                old = put_in_place(partition, group, job.now_ms)
                if old is None:
                    await lease.run(self._thread, partial(job.discard, group))
                    return False
                self._housekeeper.remove_later(partition, old)
                await lease.run(self._thread, partial(partition.segment_log.disk.sync_dir, partition.segment_log.path))
            if partition.store.unsaved:
                self._dirs.with_unsaved_snapshots.add(partition)
