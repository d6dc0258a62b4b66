"""What happens to logs by themselves: retention, delayed deletion, expiry of producers, checkpoints,
snapshots."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from rookery.broker.log.log_dir import CLEANER_OFFSETS, LogDir
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.threads import Threads, real_threads
from rookery.core.clock import Clock
from rookery.core.disk import Disk
from rookery.core.log import LogDirFailed, Segment, names
from rookery.core.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from rookery.core.logs import get_logger
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


class Deletions:
    """Files to remove from the disk, each not before its time."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, LogDir, Callable[[], None]]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, when: float, log_dir: LogDir, remove: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), log_dir, remove))

    def take(self, now: float) -> list[tuple[LogDir, Callable[[], None]]]:
        taken = []
        while self._due and self._due[0][0] <= now:
            _, _, log_dir, remove = heapq.heappop(self._due)
            taken.append((log_dir, remove))
        return taken


class Housekeeper(Service):
    """Runs until cancelled; each kind of work has its own interval, and failures of a dir end only its
    work."""

    name = "log-housekeeper"

    def __init__(
        self, dirs: LogDirs, clock: Clock, options: HousekeepingOptions, threads: Threads = real_threads
    ) -> None:
        self._dirs = dirs
        self._clock = clock
        self._options = options
        self._thread = threads("log-deletion", 1)
        self.deletions = Deletions()
        self.segments_deleted = 0

    async def serve(self) -> None:
        options = self._options
        work: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (options.log_retention_check_interval_ms, self.delete_old_segments),
            (options.producer_id_expiration_check_interval_ms, self.expire_producers),
            (options.tick_ms, self.tick),
            (options.log_flush_offset_checkpoint_interval_ms, self.save_recovery_points),
            (options.log_flush_start_offset_checkpoint_interval_ms, partial(self._save, LOG_STARTS)),
            (options.replica_high_watermark_checkpoint_interval_ms, partial(self._save, HIGH_WATERMARKS)),
            (options.log_flush_offset_checkpoint_interval_ms, partial(self._save, CLEANER_OFFSETS)),
        ]
        async with asyncio.TaskGroup() as group:
            for interval_ms, job in work:
                group.create_task(_repeat(interval_ms / 1000, job))

    async def stop(self) -> None:
        self._thread.shutdown(wait=False)

    async def save_recovery_points(self) -> None:
        """Write them down as they are, and let closed segments that nobody flushed follow by the next
        time."""
        await self._save(RECOVERY_POINTS)
        await self._for_each(self._dirs.flush_closed_segments)

    async def _for_each(self, work: Callable[[PartitionLog], None]) -> None:
        """Something short for every partition, with a turn for the event loop now and then."""
        for number, partition in enumerate(list(self._dirs.partitions.values())):
            if self._dirs.is_free(partition):
                work(partition)
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    async def _save(self, name: str) -> None:
        await self._dirs.save_checkpoints(name)

    async def tick(self) -> None:
        """Write waiting snapshots and remove files whose time has come."""
        waiting, self._dirs.with_unsaved_snapshots = self._dirs.with_unsaved_snapshots, set()
        for partition in waiting:
            if partition in self._dirs.busy:
                self._dirs.with_unsaved_snapshots.add(partition)
            elif self._dirs.is_free(partition):
                await self._save_snapshots(partition)
        self._take_leftovers()
        for log_dir, remove in self.deletions.take(self._clock.monotonic()):
            if log_dir.failure is None:
                await self._remove(log_dir, remove)

    async def _save_snapshots(self, partition: PartitionLog) -> None:
        try:
            await partition.store.save_async()
        except LogDirFailed as error:
            self._dirs.failed(partition.partition, error)

    async def delete_old_segments(self) -> None:
        """Apply retention to every partition."""
        now_ms = self._clock.wall_ms()
        await self._for_each(lambda partition: self._delete_old(partition, now_ms))

    def _delete_old(self, partition: PartitionLog, now_ms: int) -> None:
        try:
            taken, reasons = partition.delete_old_segments(now_ms)
        except LogDirFailed as error:
            self._dirs.failed(partition.partition, error)
            return
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

    def remove_later(self, partition: PartitionLog, taken: list[Segment]) -> None:
        """Remove the `*.deleted` files of segments after file.delete.delay.ms."""
        self.segments_deleted += len(taken)
        log_dir, path = self._dirs.dir_of[partition.partition], partition.log.path
        when = self._clock.monotonic() + partition.config.file_delete_delay_ms / 1000
        self.deletions.add(when, log_dir, partial(_remove_segments, log_dir.disk, path, taken))

    async def expire_producers(self) -> None:
        now_ms, after_ms = self._clock.wall_ms(), self._options.producer_id_expiration_ms

        def expire(partition: PartitionLog) -> None:
            partition.expire_producers(now_ms, after_ms)

        await self._for_each(expire)

    def _take_leftovers(self) -> None:
        leftovers, self._dirs.leftovers = self._dirs.leftovers, []
        when = self._clock.monotonic() + self._options.log_segment_delete_delay_ms / 1000
        for log_dir, path in leftovers:
            self.deletions.add(when, log_dir, partial(_remove_folder, log_dir.disk, path))

    async def _remove(self, log_dir: LogDir, remove: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, remove)
        except OSError as error:
            self._dirs.dir_failed(log_dir, LogDirFailed("removing files in", log_dir.path, error))


async def _repeat(interval_s: float, job: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(interval_s)
        await job()


def _remove_segments(disk: Disk, folder: str, segments: list[Segment]) -> None:
    """In a thread. The new names are made durable first: what replaced these files must not vanish with
    them."""
    if disk.exists(folder):
        disk.sync_dir(folder)
        for segment in segments:
            segment.remove_files(names.DELETED)


def _remove_folder(disk: Disk, path: str) -> None:
    """In a thread."""
    for name in disk.list(path) if disk.exists(path) else ():
        disk.remove(f"{path}/{name}")
    if disk.exists(path):
        disk.rmdir(path)
