"""One log dir: whose it is, what lies in it, whether it can still be used, and a thread for its device.

`open_log_dir`, `LogDir.open_partition` and `close` wait for the device; the owner runs them in
`LogDir.worker`.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from rookery.broker.log import folders
from rookery.broker.log.background import Threads, real_threads
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.offset_checkpoints import CLEANER_OFFSETS, SCRUB_OFFSETS, OffsetCheckpoints
from rookery.broker.log.partition_log import PartitionLog
from rookery.core.cancellation import finish_despite_cancel
from rookery.core.disk import Disk, FolderInUseError, replace_file
from rookery.core.errors import KafkaStorageError
from rookery.core.log import LogCorrupt, LogDirFailed, names
from rookery.core.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, CheckpointDamaged
from rookery.core.log.names import LOG, PARTITION_METADATA, base_offset_of, segment_file
from rookery.core.log.ownership import (
    FolderLocks,
    PartitionMetadata,
    WrongFolderError,
    claim_folder,
    take_marker,
    write_marker,
)
from rookery.core.log.recovery import lay_first_segment
from rookery.core.types import TopicPartition

T = TypeVar("T")

MAKERS = 16
"""Threads that make folders together: syncs that wait at the same time cost a journalling file system one."""


class LogDirRefused(Exception):
    """A log dir belongs to another cluster, node or process: the node must not start on it."""


class LogDir:
    """A folder of partitions. `failure` says why it is offline; nothing in it is touched from then on."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        directory_id: UUID,
        *,
        clean_epoch: int | None = None,
        threads: Threads = real_threads,
        unlock: Callable[[], None] = lambda: None,
    ) -> None:
        self.disk = disk
        self.path = path
        self.directory_id = directory_id
        self.clean_epoch = clean_epoch
        """The broker epoch of the last clean shutdown; None if the last shutdown was not clean."""
        self.failure: str | None = None
        self.held: set[TopicPartition] = set()
        """The partitions whose place is here, usable or not."""
        self.checkpoints = OffsetCheckpoints(disk, path)
        self._unlock = unlock
        self._made: dict[TopicPartition, UUID | None] = {}
        """Folders that were made beforehand, and whose they are; None where that is not written down yet."""
        self._threads = threads
        self.worker = threads(f"log-dir-{os.path.basename(path)}", 1)

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking work in this dir's thread; it is done when this returns, also if the caller is cancelled."""
        return await finish_despite_cancel(asyncio.get_running_loop().run_in_executor(self.worker, work))

    def check_online(self) -> None:
        if self.failure is not None:
            raise KafkaStorageError(f"log dir {self.path} is offline: {self.failure}")

    # -- content

    def partitions(self) -> list[TopicPartition]:
        found = (folders.partition_of(name) for name in self.disk.list(self.path))
        return [partition for partition in found if partition is not None]

    def leftovers(self) -> list[str]:
        """Folders of deleted partitions that are still there."""
        names = [name for name in self.disk.list(self.path) if folders.is_to_be_deleted(name)]
        return [f"{self.path}/{name}" for name in names]

    def folder(self, partition: TopicPartition) -> str:
        return f"{self.path}/{folders.folder_name(partition)}"

    def topic_id(self, partition: TopicPartition) -> UUID | None:
        """The topic id in partition.metadata; None if there is none."""
        try:
            found = PartitionMetadata.read(self.disk, self.folder(partition))
        except CheckpointDamaged as error:  # whose records these are is not known
            raise LogCorrupt(error.path, 0, str(error)) from None
        return None if found is None else found.topic_id

    def made_ms(self, partition: TopicPartition) -> int:
        """When the folder was made for its topic; 0 if that is unknown."""
        path = f"{self.folder(partition)}/{PARTITION_METADATA}"
        return self.disk.modified_ms(path) if self.disk.exists(path) else 0

    def never_written(self, partition: TopicPartition) -> bool:
        """Whether no record was ever in the folder."""
        folder = self.folder(partition)
        bases = [base_offset_of(name) for name in self.disk.list(folder) if name.endswith(LOG)]
        return not bases or (bases == [0] and not self.disk.size(segment_file(folder, 0, LOG)))

    def open_partition(self, partition: TopicPartition, config: TopicLogConfig, now_ms: int) -> PartitionLog:
        """Open a partition as the checkpoints and the marker say. Blocks, for as long as recovery takes."""
        checkpointed, folder = self.checkpoints.offset, self.folder(partition)
        listing = self.disk.list(folder)
        suspect = names.DAMAGED in listing
        clean_offset, start = checkpointed(CLEANER_OFFSETS, partition), checkpointed(LOG_STARTS, partition)
        opened = PartitionLog.open(
            self.disk,
            folder,
            partition,
            config,
            listing=listing,
            clean=self.clean_epoch is not None and not suspect,
            suspect=suspect,
            recovery_point=checkpointed(RECOVERY_POINTS, partition),
            log_start_offset=start or 0,
            high_watermark=checkpointed(HIGH_WATERMARKS, partition) or 0,
            now_ms=now_ms,
            sparse=clean_offset is not None,
        )
        opened.clean_offset = clean_offset
        opened.scrubbed_offset = checkpointed(SCRUB_OFFSETS, partition)
        first = opened.segment_log.segments[0]
        if self.clean_epoch is not None and start is not None and first.base_offset > start:
            why = f"offsets {start} to {first.base_offset}, where it starts, are missing"
            opened.segment_log.set_damaged(LogCorrupt(opened.segment_log.path, 0, why))
        if suspect and opened.segment_log.damage is None:
            self.unmark(partition)
        return opened

    def mark_damaged(self, partition: TopicPartition) -> None:
        """Let the next opening trust nothing of a partition, however orderly the process ends. Blocks.

        The mark lies in the partition's folder, so it goes wherever that goes.
        """
        mark = self._damage_mark(partition)
        if self.disk.exists(self.folder(partition)) and not self.disk.exists(mark):
            replace_file(self.disk, mark, b"")

    def unmark(self, partition: TopicPartition) -> None:
        """The partition is not damaged any more. Blocks."""
        mark = self._damage_mark(partition)
        if self.disk.exists(mark):
            self.disk.remove(mark)

    def _damage_mark(self, partition: TopicPartition) -> str:
        return f"{self.folder(partition)}/{names.DAMAGED}"

    def create_partition(
        self, partition: TopicPartition, topic_id: UUID | None, config: TopicLogConfig, now_ms: int
    ) -> PartitionLog:
        """A new, empty partition; its topic id is there before its first record. Blocks, unless it `is_made`."""
        folder = self.folder(partition)
        if self.is_made(partition, topic_id) and not config.compact:
            del self._made[partition]
            return PartitionLog.begin(self.disk, folder, partition, config, now_ms=now_ms)
        made = partition in self._made
        if not self.is_made(partition, topic_id):
            try:
                if not made:
                    self.disk.mkdir(folder)
                self.disk.sync_dir(self.path)
                if topic_id is not None:
                    PartitionMetadata(topic_id).write(self.disk, folder)
            except OSError as error:
                raise LogDirFailed("creating", folder, error) from error
        self._made.pop(partition, None)
        return PartitionLog.open(self.disk, folder, partition, config, now_ms=now_ms)

    def is_made(self, partition: TopicPartition, topic_id: UUID | None) -> bool:
        """Whether the folder of a partition of this topic was made beforehand."""
        return topic_id is not None and self._made.get(partition) == topic_id

    async def make_folders(self, wanted: Sequence[tuple[TopicPartition, UUID]]) -> None:
        """Make the folders of partitions that are to be created, all of them together: one after the other, each would
        wait three times for the device. `create_partition` finds them, for whichever topic of that name."""
        wanted = [each for each in wanted if each[0] not in self._made]
        await self.run(partial(self._make_dirs, [partition for partition, _ in wanted]))
        wanted = [each for each in wanted if each[0] in self._made]
        pool = self._threads(f"log-dir-{os.path.basename(self.path)}-makers", MAKERS)
        loop = asyncio.get_running_loop()
        try:
            shares = [share for number in range(MAKERS) if (share := wanted[number::MAKERS])]
            jobs = [loop.run_in_executor(pool, partial(self._furnish, share)) for share in shares]
            failed = await finish_despite_cancel(asyncio.gather(*jobs, return_exceptions=True))
        finally:
            pool.shutdown(wait=False)
        for each in failed:
            if each is not None:
                raise each
        self._made.update(wanted)

    def _make_dirs(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            for partition in partitions:
                if not self.disk.exists(self.folder(partition)):
                    self.disk.mkdir(self.folder(partition))
                    self._made[partition] = None
            self.disk.sync_dir(self.path)
        except OSError as error:
            raise LogDirFailed("creating", self.path, error) from error

    def _furnish(self, wanted: Sequence[tuple[TopicPartition, UUID]]) -> None:
        """What a new folder holds: whose it is, and the first segment. Durable with one sync of the folder."""
        for partition, topic_id in wanted:
            folder = self.folder(partition)
            try:
                PartitionMetadata(topic_id).put(self.disk, folder)
                lay_first_segment(self.disk, folder)
                self.disk.sync_dir(folder)
            except OSError as error:
                raise LogDirFailed("creating", folder, error) from error

    def write_topic_id(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Write to which topic the folder of a partition belongs. Blocks."""
        try:
            PartitionMetadata(topic_id).write(self.disk, self.folder(partition))
        except OSError as error:
            raise LogDirFailed("writing", self.folder(partition), error) from error

    # -- the end

    def release(self) -> None:
        """Release the thread and the lock; the dir may be taken by another process from now on."""
        self.worker.shutdown(wait=False)
        self._unlock()

    def mark_clean(self, broker_epoch: int) -> None:
        """Record that everything was closed in order: the last write. Blocks."""
        write_marker(self.disk, self.path, broker_epoch)


def open_log_dir(
    locks: FolderLocks,
    path: str,
    *,
    cluster_id: str,
    new_id: Callable[[], UUID],
    threads: Threads = real_threads,
) -> LogDir:
    """Take a folder into use: lock it, check whose it is, take the clean-shutdown marker, read the checkpoints.
    Blocks.

    Raises `LogDirRefused` if it is another cluster's, node's or process's, OSError if it cannot be used.
    """
    try:
        meta = claim_folder(locks, path, cluster_id=cluster_id, new_directory_id=new_id())
    except (WrongFolderError, FolderInUseError) as error:
        raise LogDirRefused(str(error)) from None
    try:
        clean_epoch = take_marker(locks.disk, path)
        opened = LogDir(
            locks.disk,
            path,
            meta.directory_id,
            clean_epoch=clean_epoch,
            threads=threads,
            unlock=lambda: locks.release(path),
        )
        if not opened.checkpoints.read():
            opened.clean_epoch = None
    except BaseException:
        locks.release(path)
        raise
    return opened
