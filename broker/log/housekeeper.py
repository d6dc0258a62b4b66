"""Background work on logs: retention, delayed deletion, expiry of producers, checkpoints, snapshots."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count

from rookery.broker.log.background import Threads, real_threads
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.offset_checkpoints import CLEANER_OFFSETS, SCRUB_OFFSETS
from rookery.broker.log.partition_log import PartitionLog
from rookery.core.cancellation import finish_despite_cancel
from rookery.core.clock import Clock
from rookery.core.disk import Disk
from rookery.core.event_logging import get_logger
from rookery.core.log import LogDirFailed, Segment, names
from rookery.core.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from rookery.core.service import Service

log = get_logger("broker.log")

SLICE = 64
"""Partitions looked over between two turns of the event loop."""


@dataclass(frozen=True, slots=True)
class HousekeepingOptions:
    """The broker's options; the names are the keys with `.` as `_`."""

    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    log_segment_delete_delay_ms: int = 60_000
    tick_ms: int = 1_000


Removal = Callable[[], Awaitable[None]]


class Deletions:
    """Files to remove from the disk, each not before its time."""

    def __init__(self) -> None:
        self._due: dict[LogDir, list[tuple[float, int, Removal]]] = {}
        self._numbers = count()

    def add(self, log_dir: LogDir, when: float, remove: Removal) -> None:
        heapq.heappush(self._due.setdefault(log_dir, []), (when, next(self._numbers), remove))

    def take(self, log_dir: LogDir, now: float) -> list[Removal]:
        due, taken = self._due.get(log_dir, []), []
        while due and due[0][0] <= now:
            taken.append(heapq.heappop(due)[2])
        return taken


class Housekeeper(Service):
    """Runs until cancelled; each kind of work has its own interval. What waits for a device is done for each dir by
    itself, so that one that fails or hangs holds up only its own work."""

    name = "log-housekeeper"

    def __init__(
        self, dirs: LogDirs, clock: Clock, options: HousekeepingOptions, threads: Threads = real_threads
    ) -> None:
        self._dirs = dirs
        self._clock = clock
        self._options = options
        self._threads = threads
        self._deleting: dict[LogDir, Executor] = {}
        self._deletions = Deletions()

    async def serve(self) -> None:
        options, save = self._options, self._dirs.save_checkpoints
        work: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (options.log_retention_check_interval_ms, self.delete_old_segments),
            (options.producer_id_expiration_check_interval_ms, self.expire_producers),
            (options.log_flush_offset_checkpoint_interval_ms, self.flush_closed_segments),
        ]
        for only in self._dirs.dirs:
            work += [
                (options.tick_ms, partial(self.tick, only)),
                (options.log_flush_offset_checkpoint_interval_ms, partial(save, RECOVERY_POINTS, only=only)),
                (options.log_flush_start_offset_checkpoint_interval_ms, partial(save, LOG_STARTS, only=only)),
                (options.replica_high_watermark_checkpoint_interval_ms, partial(save, HIGH_WATERMARKS, only=only)),
                (options.log_flush_offset_checkpoint_interval_ms, partial(save, CLEANER_OFFSETS, only=only)),
                (options.log_flush_offset_checkpoint_interval_ms, partial(save, SCRUB_OFFSETS, only=only)),
            ]
        async with asyncio.TaskGroup() as group:
            for interval_ms, job in work:
                group.create_task(_repeat(interval_ms / 1000, job))

    async def stop(self) -> None:
        for thread in self._deleting.values():
            thread.shutdown(wait=False)

    async def flush_closed_segments(self) -> None:
        """Flush closed segments that are not durable yet."""
        await self._for_each(self._dirs.flush_closed_segments)

    async def _for_each(self, work: Callable[[PartitionLog], None]) -> None:
        """Something short for every partition, with a turn for the event loop now and then."""
        for number, partition in enumerate(list(self._dirs.partitions.values())):
            if self._dirs.is_here(partition) and partition.files.shareable:
                with self._dirs.confined(partition, "looking after"):
                    work(partition)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    async def tick(self, *only: LogDir) -> None:
        """Mark partitions that are damaged, or not any more, write waiting snapshots and remove files whose time has
        come, of all dirs if none is named."""
        for log_dir in only or self._dirs.dirs:
            await self._work_off(self._dirs.marks_due, log_dir, self._mark)
            await self._work_off(self._dirs.with_unsaved_snapshots, log_dir, self._save_snapshots)
            self._take_leftovers()
            for remove in self._deletions.take(log_dir, self._clock.monotonic()):
                await remove()

    async def _work_off(
        self, waiting: set[PartitionLog], log_dir: LogDir, work: Callable[[PartitionLog], Awaitable[None]]
    ) -> None:
        for partition in [each for each in waiting if each.log_dir is log_dir]:
            if not self._dirs.is_here(partition):
                waiting.discard(partition)
            elif partition.files.shareable:  # else at another time
                waiting.discard(partition)
                await work(partition)

    async def _mark(self, partition: PartitionLog) -> None:
        with self._dirs.confined(partition, "marking"):
            async with partition.files.shared("mark") as lease:
                log_dir = partition.log_dir
                write = log_dir.unmark if partition.damage is None else log_dir.mark_damaged
                await lease.run(log_dir.worker, partial(write, partition.partition))

    async def _save_snapshots(self, partition: PartitionLog) -> None:
        with self._dirs.confined(partition, "saving snapshots of"):
            async with partition.files.shared("snapshot"):
                await partition.store.save_async()

    async def delete_old_segments(self) -> None:
        """Apply retention to every partition; whose files are in use come last, since that may take a while."""
        now_ms, in_use = self._clock.wall_ms(), []
        for number, partition in enumerate(list(self._dirs.partitions.values())):
            if partition.files.idle:
                await self._delete_old(partition, now_ms)
            else:
                in_use.append(partition)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        with suppress(TimeoutError):  # a device may hang; the next time comes soon enough
            async with asyncio.timeout(self._options.log_retention_check_interval_ms / 1000):
                for partition in in_use:
                    await self._delete_old(partition, now_ms)

    async def _delete_old(self, partition: PartitionLog, now_ms: int) -> None:
        with self._dirs.confined(partition, "deleting segments of"):
            async with partition.files.alone("retention"):
                if self._dirs.is_here(partition):
                    self._take_old(partition, now_ms)

    def _take_old(self, partition: PartitionLog, now_ms: int) -> None:
        taken, reasons = partition.delete_old_segments(now_ms)
        if taken:
            log.info(
                "segments.deleted",
                partition=str(partition.partition),
                segments=len(taken),
                bytes=sum(segment.size for segment in taken),
                log_start_offset=partition.start_offset,
                because=[reason.value for reason in reasons],
            )
            self.remove_later(partition, taken)
            self._dirs.still_damaged(partition.partition)

    def remove_later(self, partition: PartitionLog, taken: list[Segment]) -> None:
        """Remove the `*.deleted` files of segments after file.delete.delay.ms."""
        self._remove_after(partition.config.file_delete_delay_ms / 1000, partition, taken)

    def _remove_after(self, delay_s: float, partition: PartitionLog, taken: list[Segment]) -> None:
        when = self._clock.monotonic() + delay_s
        self._deletions.add(partition.log_dir, when, partial(self._remove_segments, partition, taken))

    async def _remove_segments(self, partition: PartitionLog, taken: list[Segment]) -> None:
        """If the partition was removed meanwhile, they go with its folder."""
        if not partition.files.shareable:
            await asyncio.sleep(0)  # retention, which was let in when the removal before this one ended, needs no more
        if not self._dirs.is_here(partition):
            return
        if not partition.files.shareable:
            self._remove_after(0, partition, taken)  # with the next tick
            return
        with self._dirs.confined(partition, "removing segments of"):
            async with partition.files.shared("removal") as lease:
                work = partial(_remove_segments, partition.segment_log.disk, partition.segment_log.path, taken)
                await lease.run(self._thread_of(partition.log_dir), work)

    async def expire_producers(self) -> None:
        now_ms, after_ms = self._clock.wall_ms(), self._options.producer_id_expiration_ms

        def expire(partition: PartitionLog) -> None:
            partition.expire_producers(now_ms, after_ms)

        await self._for_each(expire)

    def _take_leftovers(self) -> None:
        leftovers, self._dirs.leftovers = self._dirs.leftovers, []
        when = self._clock.monotonic() + self._options.log_segment_delete_delay_ms / 1000
        for log_dir, path in leftovers:
            self._deletions.add(log_dir, when, partial(self._remove_folder, log_dir, path))

    async def _remove_folder(self, log_dir: LogDir, path: str) -> None:
        if log_dir.failure is not None:
            return
        loop, thread = asyncio.get_running_loop(), self._thread_of(log_dir)
        try:
            await finish_despite_cancel(loop.run_in_executor(thread, _remove_folder, log_dir.disk, path))
        except OSError as error:
            self._dirs.dir_failed(log_dir, LogDirFailed("removing", path, error))

    def _thread_of(self, log_dir: LogDir) -> Executor:
        """Where files of a dir are removed: beside the dir's own thread, for that may take long."""
        if log_dir not in self._deleting:
            self._deleting[log_dir] = self._threads(f"log-deletion-{len(self._deleting)}", 1)
        return self._deleting[log_dir]


async def _repeat(interval_s: float, job: Callable[[], Awaitable[None]]) -> None:
    """Partitions and dirs bear their own errors; what is left is a defect, which must not end the node."""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await job()
        except Exception as error:
            log.exception("housekeeping.failed", error)


def _remove_segments(disk: Disk, folder: str, segments: list[Segment]) -> None:
    """In a thread. The new names are made durable first: what replaced these files must not vanish with
    them."""
    disk.sync_dir(folder)
    for segment in segments:
        segment.remove_files(names.DELETED)


def _remove_folder(disk: Disk, path: str) -> None:
    """In a thread."""
    for name in disk.list(path) if disk.exists(path) else ():
        disk.remove(f"{path}/{name}")
    if disk.exists(path):
        disk.rmdir(path)
