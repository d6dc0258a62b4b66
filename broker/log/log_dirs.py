"""All log dirs of a broker and the partitions in them: placement, durability, failure, stop.

A dir whose device fails goes offline with everything in it: one line in the log, one call of `on_offline`, no
retry. The others go on. `damaged` says which partitions are damaged below their recovery point, and why: one whose
end is in doubt is not loaded, of any other the damaged part is not served. `set_aside` makes room for a new replica.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from rookery.broker.log import folders
from rookery.broker.log.background import Threads, real_threads
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.group_commit import GroupCommit
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.offset_checkpoints import CLEANER_OFFSETS, SCRUB_OFFSETS
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.start_up import NodeIdentity, StartUp
from rookery.core.cancellation import finish_despite_cancel
from rookery.core.clock import Clock
from rookery.core.config.options import LONG_MAX
from rookery.core.disk import Disk
from rookery.core.errors import KafkaStorageError, UnknownTopicOrPartitionError
from rookery.core.event_logging import get_logger
from rookery.core.log import LogClosed, LogCorrupt, LogDirFailed
from rookery.core.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from rookery.core.log.ownership import FolderLocks
from rookery.core.types import TopicPartition

log = get_logger("broker.log")

T = TypeVar("T")

CHECKPOINTED: dict[str, Callable[[PartitionLog], int | None]] = {
    RECOVERY_POINTS: lambda partition: partition.segment_log.recovery_point,
    LOG_STARTS: lambda partition: partition.start_offset,
    HIGH_WATERMARKS: lambda partition: partition.high_watermark,
    CLEANER_OFFSETS: lambda partition: partition.clean_offset,
    SCRUB_OFFSETS: lambda partition: partition.scrubbed_offset,
}


class LogDirs:
    """Use `start` before anything else; `stop` leaves every dir that still works clean."""

    def __init__(
        self,
        disk: Disk,
        paths: Sequence[str],
        identity: NodeIdentity,
        *,
        clock: Clock,
        config_of: Callable[[str], TopicLogConfig],
        new_id: Callable[[], UUID],
        recovery_threads: int = 2,
        threads: Threads = real_threads,
        locks: FolderLocks | None = None,
    ) -> None:
        """`locks` are those of the node, whose other role may work in one of the dirs too."""
        self._paths = list(paths)
        self._clock = clock
        self._config_of = config_of
        self._new_id = new_id
        self._commits: dict[LogDir, GroupCommit] = {}
        self._prepared: dict[TopicPartition, LogDir] = {}
        """Where folders of replicas lie that are about to be created."""
        self._changing: WeakValueDictionary[TopicPartition, asyncio.Lock] = WeakValueDictionary()
        self._flush_timers: dict[PartitionLog, asyncio.TimerHandle] = {}
        self.with_unsaved_snapshots: set[PartitionLog] = set()
        """Partitions that closed a segment; the housekeeper writes their snapshots."""
        self.marks_due: set[PartitionLog] = set()
        """Partitions found damaged, or sound again; the housekeeper writes or removes the mark."""
        self.start_up = StartUp(
            locks or FolderLocks(disk, identity.node_id),
            identity,
            clock,
            config_of,
            new_id,
            recovery_threads,
            threads,
        )
        self.dirs: list[LogDir] = []
        self.offline: dict[str, str] = {}
        """Dirs that cannot be used, and why; also those that could not be opened at start."""
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.dir_of: dict[TopicPartition, LogDir] = {}
        self.topic_ids: dict[TopicPartition, UUID | None] = {}
        self.damaged: dict[TopicPartition, LogCorrupt] = {}
        """Damage that was found, until the replica is set aside or its damaged segments are deleted."""
        self.damage_found = 0
        self.on_damaged: Callable[[TopicPartition], None] = lambda _partition: None
        self.leftovers: list[tuple[LogDir, str]] = []
        """Folders of deleted partitions, for the housekeeper to remove."""
        self.on_offline: Callable[[LogDir, list[TopicPartition]], None] = lambda _dir, _partitions: None

    async def start(self) -> None:
        """Open every dir and every partition in it. Raises `LogDirRefused` if the node must not run."""
        opened = await self.start_up.open_all(self._paths)
        self.dirs, self.offline, self.leftovers = opened.dirs, opened.offline, opened.leftovers
        for log_dir in self.dirs:
            self._commits[log_dir] = GroupCommit(log_dir, partial(self.dir_failed, log_dir))
        for found in opened.partitions:
            self._add(found.log_dir, found.log, found.topic_id)
        for partition, damaged in opened.damaged.items():
            self._hold(damaged.log_dir, partition)
            self.topic_ids[partition] = damaged.topic_id
            self._report_damage(partition, damaged.error)
        for log_dir, failure in opened.failed:
            self.dir_failed(log_dir, failure)

    # -- partitions

    def get(self, partition: TopicPartition) -> PartitionLog:
        """The partition; KAFKA_STORAGE_ERROR if its dir is offline or it is damaged."""
        found = self.partitions.get(partition)
        if found is not None:
            return found
        if partition in self.damaged:
            raise self.damaged[partition]
        log_dir = self.dir_of.get(partition)
        if log_dir is not None:
            log_dir.check_online()
        raise UnknownTopicOrPartitionError(f"this broker holds no replica of {partition}")

    async def create(
        self, partition: TopicPartition, topic_id: UUID | None, *, directory_id: UUID | None = None
    ) -> PartitionLog:
        """A new replica, in the dir asked for or else where the fewest partitions are."""
        async with self._alone(partition):
            if partition in self.dir_of:
                raise ValueError(f"{partition} is here already")
            return await self._create(partition, topic_id, self._place_of(partition, directory_id))

    async def prepare(self, wanted: Sequence[tuple[TopicPartition, UUID]]) -> None:
        """Many replicas are about to be created: do together what of it waits for the device."""
        by_dir: dict[LogDir, list[tuple[TopicPartition, UUID]]] = {}
        for partition, topic_id in wanted:
            if partition not in self.dir_of and partition not in self._prepared:
                log_dir = min(self._online(), key=lambda each: len(each.held) + len(by_dir.get(each, ())))
                by_dir.setdefault(log_dir, []).append((partition, topic_id))
        for log_dir, group in by_dir.items():
            self._prepared.update((partition, log_dir) for partition, _ in group)
            try:
                await log_dir.make_folders(group)
            except LogDirFailed as error:
                self.dir_failed(log_dir, error)
                raise

    def _place_of(self, partition: TopicPartition, directory_id: UUID | None) -> LogDir:
        """The dir for a new partition: where its folder lies already, unless that cannot be used."""
        log_dir = self._prepared.pop(partition, None)
        if log_dir is None or log_dir.failure is not None or directory_id not in (None, log_dir.directory_id):
            return self.place(directory_id)
        return log_dir

    async def _create(self, partition: TopicPartition, topic_id: UUID | None, log_dir: LogDir) -> PartitionLog:
        config, now_ms = self._config_of(partition.topic), self._clock.wall_ms()
        try:
            await log_dir.checkpoints.forget(partition, partial(self._offsets, log_dir))
            self._hold(log_dir, partition)
            create = partial(log_dir.create_partition, partition, topic_id, config, now_ms)
            at_once = log_dir.is_made(partition, topic_id) and not config.compact
            opened = create() if at_once else await log_dir.run(create)
            self._add(log_dir, opened, topic_id)
            log_dir.check_online()
        except BaseException as error:
            if isinstance(error, LogDirFailed):
                self.dir_failed(log_dir, error)
            self._release(log_dir, partition)  # it may be made in another one
            raise
        return opened

    def _alone(self, partition: TopicPartition) -> asyncio.Lock:
        """Replicas of one name come and go one after the other."""
        return self._changing.setdefault(partition, asyncio.Lock())

    def place(self, directory_id: UUID | None = None) -> LogDir:
        """The dir for a new partition: the fewest partitions, then the order of log.dirs."""
        return min(self._online(directory_id), key=lambda log_dir: len(log_dir.held))

    def _online(self, directory_id: UUID | None = None) -> list[LogDir]:
        """The dirs that can take a new partition: all, or the one that was asked for."""
        online = [log_dir for log_dir in self.dirs if log_dir.failure is None]
        if directory_id is not None:
            online = [log_dir for log_dir in online if log_dir.directory_id == directory_id]
        if not online:
            raise KafkaStorageError(f"no log dir can take a new partition: {self.offline}")
        return online

    async def adopt(self, partition: TopicPartition, topic_id: UUID) -> None:
        """Write the topic id of a replica that has none, so that it is deleted with its topic and with no other."""
        log_dir = self.dir_of[partition]
        try:
            await log_dir.run(partial(log_dir.write_topic_id, partition, topic_id))
        except LogDirFailed as error:
            self.dir_failed(log_dir, error)
            raise
        self.topic_ids[partition] = topic_id

    def is_used(self, partition: TopicPartition) -> bool:
        """Whether records are, or were, in a replica, as far as is known."""
        opened = self.partitions.get(partition)
        return opened is None or opened.end_offset > 0

    async def delete(self, partition: TopicPartition) -> None:
        """Take a replica away: its folder is renamed now and removed by the housekeeper later."""
        async with self._alone(partition):
            await finish_despite_cancel(self._leave(partition, folders.DELETE_SUFFIX))

    async def set_aside(self, partition: TopicPartition) -> None:
        """Keep a damaged replica's files under another name, so that a new one can be made."""
        async with self._alone(partition):
            await finish_despite_cancel(self._leave(partition, folders.STRAY_SUFFIX))

    async def _leave(self, partition: TopicPartition, suffix: str) -> None:
        """From now on the partition is not found, but its name stays taken until its files are unused and its folder is
        renamed."""
        log_dir = self.dir_of.get(partition)
        opened = self.partitions.pop(partition, None)
        self.topic_ids.pop(partition, None)
        self.damaged.pop(partition, None)
        if log_dir is None:
            return
        try:
            if opened is not None:
                await self._close_files(opened)
            if log_dir.failure is None:
                await self._rename_away(log_dir, partition, suffix)
        finally:
            self._release(log_dir, partition)

    async def _close_files(self, opened: PartitionLog) -> None:
        """Wait until a partition's files are unused, and refuse every later use."""
        self.with_unsaved_snapshots.discard(opened)
        self.marks_due.discard(opened)
        timer = self._flush_timers.pop(opened, None)
        if timer is not None:
            timer.cancel()
        await opened.files.close()
        self.commit_of(opened).forget(opened)
        opened.segment_log.abandon()

    async def _rename_away(self, log_dir: LogDir, partition: TopicPartition, suffix: str) -> None:
        target = f"{log_dir.path}/{folders.leaving_name(partition, self._new_id(), suffix)}"

        def rename() -> None:
            log_dir.disk.rename(log_dir.folder(partition), target)
            log_dir.disk.sync_dir(log_dir.path)

        try:
            await log_dir.run(rename)
        except OSError as error:
            self.dir_failed(log_dir, LogDirFailed("renaming", log_dir.folder(partition), error))
            return
        if suffix == folders.DELETE_SUFFIX:
            self.leftovers.append((log_dir, target))

    async def truncate(self, partition: PartitionLog, offset: int) -> bool:
        """Cut a partition in its dir's thread; its owner leaves it alone until this is done."""
        work = partial(partition.truncate_to, offset, self._clock.wall_ms())
        return await self._cut(partition, offset, work)

    async def restart_at(self, partition: PartitionLog, offset: int) -> None:
        """Throw away all of a partition's records, in its dir's thread; the next one gets `offset`."""
        work = partial(partition.truncate_fully_and_start_at, offset, self._clock.wall_ms())
        await self._cut(partition, 0, work)

    async def _cut(self, partition: PartitionLog, left: int, work: Callable[[], T]) -> T:
        """The checkpoints are lowered first, and if that fails nothing is cut: they must never promise more than
        the log holds."""
        log_dir = partition.log_dir
        async with partition.files.alone("cut", hurry=True) as lease:
            log_dir.check_online()
            try:
                partition.expect_cut(left)
                await self._lower_checkpoints(partition)
                outcome = await lease.run(log_dir.worker, work)
                await self._lower_checkpoints(partition)
            except LogDirFailed as error:
                self.dir_failed(log_dir, error)
                raise
            except OSError as error:
                failure = LogDirFailed("cutting", partition.segment_log.path, error)
                self.dir_failed(log_dir, failure)
                raise failure from error
            except LogCorrupt as error:
                partition.segment_log.failed = True  # half of it may be cut
                self.found_damage(partition, error)
                raise
        return outcome

    async def _lower_checkpoints(self, partition: PartitionLog) -> None:
        """Write every checkpoint anew that says more of a partition than is true."""
        checkpoints = partition.log_dir.checkpoints
        for name, value in CHECKPOINTED.items():
            written = checkpoints.offset(name, partition.partition)
            if written is not None and written > (value(partition) or 0):
                await checkpoints.save(name, partial(self._offsets, partition.log_dir))

    def _add(self, log_dir: LogDir, opened: PartitionLog, topic_id: UUID | None) -> None:
        self._hold(log_dir, opened.partition)
        if log_dir.failure is not None:
            opened.segment_log.abandon()
            return
        self.partitions[opened.partition] = opened
        self.topic_ids[opened.partition] = topic_id
        opened.log_dir = log_dir
        opened.on_failure = partial(self.dir_failed, log_dir)
        opened.on_damage = partial(self.found_damage, opened)
        opened.files.on_free = self._commits[log_dir].resume
        if opened.damage is not None:
            self._report_damage(opened.partition, opened.damage)

    def _hold(self, log_dir: LogDir, partition: TopicPartition) -> None:
        self.dir_of[partition] = log_dir
        log_dir.held.add(partition)

    def _release(self, log_dir: LogDir, partition: TopicPartition) -> None:
        self.dir_of.pop(partition, None)
        log_dir.held.discard(partition)

    def is_here(self, partition: PartitionLog) -> bool:
        """Whether this very partition, and no other of its name, is open."""
        return self.partitions.get(partition.partition) is partition

    def in_dir(self, log_dir: LogDir) -> list[PartitionLog]:
        found = (self.partitions.get(partition) for partition in log_dir.held)
        return [partition for partition in found if partition is not None]

    # -- durability

    def appended(self, partition: PartitionLog) -> "asyncio.Future[None] | None":
        """Called after each append. With flush.messages=1 the future to wait for before acknowledging; else
        None, and what flush.messages, flush.ms and closed segments ask for happens in the background."""
        config, opened = partition.config, partition.segment_log
        end, durable = opened.end_offset, opened.recovery_point
        if config.sync_before_ack:
            return self.commit_of(partition).durable(partition, end)
        if end - durable >= config.flush_messages:
            self.commit_of(partition).request(partition, end)
        if durable < opened.segments[-1].base_offset or partition.store.unsaved:
            self.flush_closed_segments(partition)
        if config.flush_ms < LONG_MAX and partition not in self._flush_timers:
            self._flush_timers[partition] = asyncio.get_running_loop().call_later(
                config.flush_ms / 1000, self._flush_due, partition
            )
        return None

    def flush_closed_segments(self, partition: PartitionLog) -> None:
        """Let what will not change any more become durable, so that recovery has less to look at."""
        if partition.store.unsaved:
            self.with_unsaved_snapshots.add(partition)
        closed = partition.segment_log.segments[-1].base_offset
        if partition.segment_log.recovery_point < closed:
            self.commit_of(partition).request(partition, closed)

    def _flush_due(self, partition: PartitionLog) -> None:
        del self._flush_timers[partition]
        if self.is_here(partition):
            self.commit_of(partition).request(partition, partition.end_offset)

    def commit_of(self, partition: PartitionLog) -> GroupCommit:
        return self._commits[partition.log_dir]

    async def save_checkpoints(self, *names: str, only: LogDir | None = None) -> None:
        """Write the named checkpoints of one dir, or of all, through aiofiles."""
        for log_dir in self.dirs if only is None else [only]:
            for name in names:
                if log_dir.failure is None:
                    try:
                        await log_dir.checkpoints.save(name, partial(self._offsets, log_dir))
                    except LogDirFailed as error:
                        self.dir_failed(log_dir, error)

    def _offsets(self, log_dir: LogDir, name: str) -> dict[TopicPartition, int]:
        """The offsets for the checkpoint; of partitions that are not loaded, those that it has."""
        value, before = CHECKPOINTED[name], log_dir.checkpoints.written[name]
        offsets = {p: before[p] for p in log_dir.held if p in before and p not in self.partitions}
        for partition in self.in_dir(log_dir):
            offset = value(partition)
            if offset is not None:
                offsets[partition.partition] = offset
        return offsets

    # -- failure

    @contextmanager
    def confined(self, partition: PartitionLog, doing: str) -> Iterator[None]:
        """For work in the background: whatever goes wrong with a partition concerns it, or its dir, and never the
        service that does the work."""
        try:
            yield
        except LogClosed:
            return  # it was removed in the meantime
        except LogDirFailed as error:
            self.dir_failed(partition.log_dir, error)
        except OSError as error:
            self.dir_failed(partition.log_dir, LogDirFailed(doing, partition.segment_log.path, error))
        except LogCorrupt as error:
            self.found_damage(partition, error)
        except Exception as error:
            log.exception("partition.upkeep.failed", error, partition=str(partition.partition), doing=doing)

    def found_damage(self, partition: PartitionLog, error: LogCorrupt) -> None:
        """A partition that is in use proved to be damaged: reported once. What is damaged is not served from now on,
        and the next start trusts nothing of the partition, however this process ends."""
        if self.is_here(partition) and partition.segment_log.set_damaged(error):
            self.marks_due.add(partition)
            self._report_damage(partition.partition, error)

    def _report_damage(self, partition: TopicPartition, error: LogCorrupt) -> None:
        self.damaged[partition] = error
        self.damage_found += 1
        log.error(
            "partition.damaged",
            partition=str(partition),
            reason=str(error),
            todo="it is rebuilt from a replica in sync if there is one; else restore this file or the topic",
        )
        self.on_damaged(partition)

    def still_damaged(self, partition: TopicPartition) -> bool:
        """Whether a partition is damaged now: retention may have deleted what was, and then the next start need not
        read all of it."""
        opened = self.partitions.get(partition)
        if partition in self.damaged and opened is not None and opened.damage is None:
            del self.damaged[partition]
            self.marks_due.add(opened)
            log.info("partition.sound", partition=str(partition), reason="what was damaged has been deleted")
        return partition in self.damaged

    def dir_failed(self, log_dir: LogDir, error: LogDirFailed) -> None:
        """Take a dir offline for good; only the first error counts."""
        if log_dir.failure is not None:
            return
        gone = self.in_dir(log_dir)
        log_dir.failure = str(error)
        self.offline[log_dir.path] = str(error)
        log.error(
            "log_dir.offline",
            dir=log_dir.path,
            reason=str(error),
            partitions=len(gone),
            todo="free or repair the disk, then restart the broker",
        )
        for partition in gone:
            del self.partitions[partition.partition]
            partition.segment_log.failed = True
        for held in log_dir.held:
            self.damaged.pop(held, None)  # it waits for its dir like the others; the next start looks again
        self._commits[log_dir].fail(f"log dir {log_dir.path} went offline: {error}")
        self.on_offline(log_dir, [partition.partition for partition in gone])

    # -- stop

    async def stop(self, broker_epoch: int) -> None:
        """Close every partition and mark each dir that still works as clean."""
        for timer in self._flush_timers.values():
            timer.cancel()
        self._flush_timers.clear()
        async with asyncio.TaskGroup() as group:
            for log_dir in self.dirs:
                group.create_task(self._close(log_dir, broker_epoch))

    async def _close(self, log_dir: LogDir, broker_epoch: int) -> None:
        try:
            await self._commits[log_dir].settle()
            for partition in self.in_dir(log_dir):
                await partition.files.close()
            if log_dir.failure is None:
                await log_dir.run(partial(self._close_in_thread, log_dir, broker_epoch))
        except LogDirFailed as error:
            self.dir_failed(log_dir, error)
        except OSError as error:
            self.dir_failed(log_dir, LogDirFailed("closing", log_dir.path, error))
        finally:
            log_dir.release()

    def _close_in_thread(self, log_dir: LogDir, broker_epoch: int) -> None:
        """The marker speaks for all partitions of the dir but those that are marked themselves."""
        closed = {partition.partition for partition in self.in_dir(log_dir) if _closed_in_order(partition)}
        for partition in log_dir.held:
            if partition not in closed:
                log_dir.mark_damaged(partition)
        log_dir.checkpoints.write_all(partial(self._offsets, log_dir))
        log_dir.mark_clean(broker_epoch)


def _closed_in_order(partition: PartitionLog) -> bool:
    """Close a partition; False if the next opening must not trust its files."""
    sound = partition.damage is None and not partition.segment_log.failed
    try:
        partition.close()
    except LogCorrupt as error:
        partition.segment_log.abandon()
        log.error("partition.damaged", partition=str(partition.partition), reason=str(error))
        return False
    return sound
