"""Start-up of the log dirs: open each, then open every partition in them, in threads, with progress."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from uuid import UUID

from rookery.broker.log import folders
from rookery.broker.log.background import Threads, real_threads
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.log_dir import LogDir, LogDirRefused, open_log_dir
from rookery.broker.log.partition_log import PartitionLog
from rookery.core.clock import Clock
from rookery.core.event_logging import get_logger
from rookery.core.log import LogCorrupt, LogDirFailed
from rookery.core.log.ownership import FolderLocks
from rookery.core.types import TopicPartition

log = get_logger("broker.log")

PROGRESS_EVERY_S = 5.0
SHARE_MAX = 16
"""Partitions that a recovery thread opens before it hands them over: a future for each would cost more than to open
an empty one."""
SHARES_OF_A_THREAD = 8
"""At least, if there are as many partitions: one that takes long does not keep others waiting."""


class NodeIdentity(NamedTuple):
    """What meta.properties must contain."""

    cluster_id: str
    node_id: int


@dataclass(slots=True)
class Recovery:
    """How far start-up is: for the log, the metrics and /readyz."""

    partitions: int = 0
    remaining: int = 0


@dataclass(slots=True)
class OpenedPartition:
    log_dir: LogDir
    log: PartitionLog
    topic_id: UUID | None


class DamagedPartition(NamedTuple):
    log_dir: LogDir
    error: LogCorrupt
    topic_id: UUID | None


Outcome = OpenedPartition | DamagedPartition | LogDirFailed


@dataclass(slots=True)
class Opened:
    """What start-up found. Dirs in `failed` could be opened, but not all of their partitions."""

    dirs: list[LogDir]
    offline: dict[str, str]
    partitions: list[OpenedPartition] = field(default_factory=list)
    damaged: dict[TopicPartition, DamagedPartition] = field(default_factory=dict)
    failed: list[tuple[LogDir, LogDirFailed]] = field(default_factory=list)
    leftovers: list[tuple[LogDir, str]] = field(default_factory=list)


class StartUp:
    """`open_all` once; `recovery` may be watched meanwhile."""

    def __init__(
        self,
        locks: FolderLocks,
        identity: NodeIdentity,
        clock: Clock,
        config_of: Callable[[str], TopicLogConfig],
        new_id: Callable[[], UUID],
        recovery_threads: int = 2,
        threads: Threads = real_threads,
    ) -> None:
        self._threads = threads
        self._locks = locks
        self._identity = identity
        self._clock = clock
        self._config_of = config_of
        self._new_id = new_id
        self._recovery_threads = recovery_threads
        self.recovery = Recovery()

    async def open_all(self, paths: Sequence[str]) -> Opened:
        """Raises `LogDirRefused` if the node must not run on these dirs."""
        opened = Opened([], {})
        found: dict[LogDir, list[TopicPartition]] = {}
        try:
            for path in paths:
                await self._open_dir(path, opened, found)
            if not opened.dirs:
                raise LogDirRefused(f"none of the log dirs can be used: {opened.offline}")
            _refuse_copies(opened.dirs)
            await self._separate_namesakes(found)
            await self._recover(found, opened)
        except BaseException:
            for log_dir in opened.dirs:
                log_dir.release()
            raise
        return opened

    async def _open_dir(self, path: str, opened: Opened, found: dict[LogDir, list[TopicPartition]]) -> None:
        """Take a dir into use and list its partitions; if either cannot be done, it is offline."""
        work = partial(
            open_log_dir,
            self._locks,
            path,
            cluster_id=self._identity.cluster_id,
            new_id=self._new_id,
            threads=self._threads,
        )
        try:
            with self._threads("start-up", 1) as thread:
                log_dir = await asyncio.get_running_loop().run_in_executor(thread, work)
            try:
                found[log_dir] = await log_dir.run(log_dir.partitions)
            except OSError:
                log_dir.release()
                raise
            opened.dirs.append(log_dir)
        except OSError as error:
            opened.offline[path] = str(error)
            todo = "repair or mount the disk, then restart the broker"
            log.error("log_dir.offline", dir=path, reason=str(error), partitions=0, todo=todo)

    async def _separate_namesakes(self, found: dict[LogDir, list[TopicPartition]]) -> None:
        """While a dir was missing, a topic may have been deleted and another one of its name made elsewhere: the folder
        that was made first belongs to the deleted one, and is set aside. Or the replica was taken from this node and
        given back: of two folders of one topic the one that has less is set aside."""
        holders: dict[TopicPartition, LogDir] = {}
        for log_dir, partitions in found.items():
            for partition in list(partitions):
                other = holders.setdefault(partition, log_dir)
                if other is log_dir:
                    continue
                older, newer, reason = await self._in_order(partition, other, log_dir)
                target = f"{older.path}/{folders.leaving_name(partition, self._new_id(), folders.STRAY_SUFFIX)}"
                try:
                    await older.run(partial(older.disk.rename, older.folder(partition), target))
                except OSError as error:
                    raise LogDirRefused(f"{partition} in {older.path} cannot be set aside: {error}") from error
                found[older].remove(partition)
                holders[partition] = newer
                log.warning("partition.set_aside", partition=str(partition), to=target, reason=reason)

    async def _in_order(self, partition: TopicPartition, one: LogDir, other: LogDir) -> tuple[LogDir, LogDir, str]:
        """Two dirs that hold partitions of one name, the one first that has to go, and why; `LogDirRefused` if that is
        not clear."""
        holders = (one, other)
        ids = {await each.run(partial(_known_id, each, partition)) for each in holders}
        made = [await each.run(partial(each.made_ms, partition)) for each in holders]
        if None not in ids and len(ids) == len(set(made)) == 2:
            older, newer = holders if made[0] < made[1] else (other, one)
            return older, newer, f"a topic of that name that was made later has its replica in {newer.path}"
        for each, newer in ((one, other), (other, one)):  # its dir failed while it was made, and it was made in another
            if await each.run(partial(each.never_written, partition)):
                return each, newer, f"it has no records, and {newer.path} holds a replica of it, too"
        if None not in ids and len(ids) == 1:
            reach = [await each.run(partial(self._reach, each, partition)) for each in holders]
            older, newer = holders if reach[0] < reach[1] else (other, one)
            return older, newer, f"the replica in {newer.path} goes further, to epoch and offset {max(reach)}"
        raise LogDirRefused(f"{partition} is in {other.path} and in {one.path}: move one of them away")

    def _reach(self, log_dir: LogDir, partition: TopicPartition) -> tuple[int, int]:
        """The last leader epoch and the end of a replica. Of two replicas of one partition the one that goes further
        has every committed record that the other one has: the leader of its last epoch had them all."""
        try:
            found = log_dir.open_partition(partition, self._config_of(partition.topic), self._clock.wall_ms())
            try:
                return found.epochs.latest_epoch, found.end_offset
            finally:
                found.segment_log.abandon()
        except (LogCorrupt, LogDirFailed) as error:
            reason = f"{partition} in {log_dir.path} is one of two and cannot be read: {error}"
            raise LogDirRefused(f"{reason}; move it away, or the one of its name in another log dir") from error

    async def _recover(self, found: dict[LogDir, list[TopicPartition]], opened: Opened) -> None:
        total = sum(map(len, found.values()))
        self.recovery = Recovery(total, total)
        async with asyncio.TaskGroup() as group:
            progress = group.create_task(self._report_progress())
            async with asyncio.TaskGroup() as dirs:
                for log_dir, partitions in found.items():
                    dirs.create_task(self._recover_dir(log_dir, partitions, opened))
            progress.cancel()
        if total:
            log.info("recovery.done", partitions=total, damaged=len(opened.damaged))

    async def _recover_dir(self, log_dir: LogDir, partitions: list[TopicPartition], opened: Opened) -> None:
        loop = asyncio.get_running_loop()
        threads, stopping = self._threads("recovery", self._recovery_threads), threading.Event()
        size = max(1, min(SHARE_MAX, len(partitions) // (self._recovery_threads * SHARES_OF_A_THREAD)))
        shares = [partitions[first : first + size] for first in range(0, len(partitions), size)]

        def open_share(share: Sequence[TopicPartition]) -> list[Outcome]:
            return [self._open_partition(log_dir, each) for each in share if not stopping.is_set()]

        try:
            opening = [loop.run_in_executor(threads, open_share, share) for share in shares]
            for share, future in zip(shares, opening, strict=True):
                for partition, outcome in zip(share, await future, strict=True):
                    self._take(partition, log_dir, outcome, opened)
        finally:  # a stop waits for what is being opened, not for the rest
            stopping.set()
            threads.shutdown(wait=True, cancel_futures=True)
        try:
            opened.leftovers += [(log_dir, path) for path in await log_dir.run(log_dir.leftovers)]
        except OSError as error:
            opened.failed.append((log_dir, LogDirFailed("listing", log_dir.path, error)))

    def _open_partition(self, log_dir: LogDir, partition: TopicPartition) -> Outcome:
        """In a recovery thread."""
        topic_id = None
        try:
            try:
                topic_id = log_dir.topic_id(partition)
                config = self._config_of(partition.topic)
                found = log_dir.open_partition(partition, config, self._clock.wall_ms())
                return OpenedPartition(log_dir, found, topic_id)
            except LogCorrupt as error:
                log_dir.mark_damaged(partition)
                return DamagedPartition(log_dir, error, topic_id)
        except LogDirFailed as error:
            return error
        except OSError as error:
            return LogDirFailed("opening", log_dir.folder(partition), error)

    def _take(
        self,
        partition: TopicPartition,
        log_dir: LogDir,
        outcome: Outcome,
        opened: Opened,
    ) -> None:
        self.recovery.remaining -= 1
        if isinstance(outcome, OpenedPartition):
            opened.partitions.append(outcome)
        elif isinstance(outcome, DamagedPartition):
            opened.damaged[partition] = outcome
        else:
            opened.failed.append((log_dir, outcome))

    async def _report_progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            log.info("recovery.progress", remaining=self.recovery.remaining, of=self.recovery.partitions)


def _known_id(log_dir: LogDir, partition: TopicPartition) -> UUID | None:
    try:
        return log_dir.topic_id(partition)
    except LogCorrupt:
        return None


def _refuse_copies(dirs: list[LogDir]) -> None:
    seen: dict[UUID, str] = {}
    for log_dir in dirs:
        other = seen.setdefault(log_dir.directory_id, log_dir.path)
        if other != log_dir.path:
            raise LogDirRefused(
                f"{log_dir.path} and {other} have the same directory.id: one is a copy of the other"
            )
