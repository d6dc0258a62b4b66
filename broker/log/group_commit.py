"""Making appends durable, many at a time: one round of syncs serves all that wait when it begins.

For each log dir at most one round runs, in the dir's thread. Who appends meanwhile waits for the next
round, so the number of syncs follows the speed of the device and not the number of appends. After a failed
sync nothing is known of what was written since the last good one: every waiter fails, and the dir is given
up without a second try.
"""

import asyncio
import errno
from collections.abc import Callable, Iterable

from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.partition_files import Lease
from rookery.broker.log.partition_log import PartitionLog
from rookery.core.errors import KafkaStorageError
from rookery.core.log import FlushJob, LogClosed, LogDirFailed


class GroupCommit:
    """Flushes of the partitions of one log dir."""

    def __init__(self, log_dir: LogDir, on_failure: Callable[[LogDirFailed], None]) -> None:
        self._dir = log_dir
        self._on_failure = on_failure
        self._wanted: dict[PartitionLog, int] = {}  # up to which offset, by partition
        self._waiting: list[tuple[PartitionLog, int, asyncio.Future[None]]] = []
        self._round: asyncio.Task[None] | None = None
        self.rounds = 0

    def request(self, partition: PartitionLog, up_to: int) -> None:
        """Let everything below `up_to` become durable soon."""
        wanted = self._dir.failure is None and not partition.files.closed
        if wanted and up_to > partition.segment_log.recovery_point:
            self._wanted[partition] = max(up_to, self._wanted.get(partition, 0))
            self._start()

    def _start(self) -> None:
        if self._round is None and any(partition.files.readable for partition in self._wanted):
            self._round = asyncio.get_running_loop().create_task(self._run())

    def resume(self) -> None:
        """The files of a partition are free again; its log may have been cut."""
        self._wake()
        self._start()

    def durable(self, partition: PartitionLog, up_to: int) -> "asyncio.Future[None]":
        """A future that is done when all below `up_to` is on the device, or fails with
        KAFKA_STORAGE_ERROR."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._dir.failure is not None:
            _fail(future, KafkaStorageError(f"log dir {self._dir.path} is offline: {self._dir.failure}"))
        elif partition.segment_log.recovery_point >= up_to:
            future.set_result(None)
        elif partition.files.closed:
            _fail(future, LogClosed(f"{partition.partition} was removed"))
        else:
            self._waiting.append((partition, up_to, future))
            self.request(partition, up_to)
        return future

    def forget(self, partition: PartitionLog) -> None:
        """The partition leaves this dir: who waits for it fails."""
        self._wanted.pop(partition, None)
        self._fail_where(lambda waiting: waiting is partition, f"{partition.partition} was removed")

    async def settle(self) -> None:
        """Wait until nothing is wanted any more."""
        while self._round is not None:
            await asyncio.wait([self._round])

    def fail(self, why: str) -> None:
        """The dir went offline: nothing that waits will become durable."""
        self._wanted.clear()
        self._fail_where(lambda _: True, why)

    async def _run(self) -> None:
        try:
            while self._dir.failure is None and (leases := self._take_leases()):
                try:
                    await self._flush(leases)
                finally:
                    for partition, lease in leases.items():
                        partition.files.give_back(lease)
                self._wake()
        except LogDirFailed as error:
            self._on_failure(error)
        except Exception as error:  # a defect: nothing may count as durable
            unknown = OSError(errno.EIO, repr(error))
            self._on_failure(LogDirFailed("flushing", self._dir.path, unknown))
        finally:
            self._round = None

    def _take_leases(self) -> dict[PartitionLog, Lease]:
        """Of the partitions that are to be flushed and may be."""
        leases = {}
        for partition in self._wanted:
            lease = partition.files.try_shared("flush")
            if lease is not None:
                leases[partition] = lease
        return leases

    async def _flush(self, partitions: Iterable[PartitionLog]) -> None:
        jobs: list[tuple[PartitionLog, FlushJob]] = []
        try:
            for partition in partitions:
                up_to = self._wanted.pop(partition)
                if not partition.segment_log.failed:
                    jobs.append((partition, partition.segment_log.begin_flush(up_to)))
            self.rounds += 1
            await self._dir.run(lambda: _run_all(jobs))
        finally:
            for _, job in jobs:
                job.close()
        for partition, job in jobs:
            partition.segment_log.flushed(job)

    def _wake(self) -> None:
        still = []
        for partition, up_to, future in self._waiting:
            if future.done():
                continue  # the waiter gave up
            if partition.segment_log.recovery_point >= up_to:
                future.set_result(None)
            elif up_to > partition.end_offset:
                _fail(future, KafkaStorageError(f"{partition.partition} was truncated below {up_to}"))
            else:
                still.append((partition, up_to, future))
        self._waiting = still

    def _fail_where(self, matches: Callable[[PartitionLog], bool], why: str) -> None:
        gone = [entry for entry in self._waiting if matches(entry[0])]
        self._waiting = [entry for entry in self._waiting if not matches(entry[0])]
        for _, _, future in gone:
            if not future.done():
                _fail(future, KafkaStorageError(why))


def _fail(future: "asyncio.Future[None]", error: Exception) -> None:
    """Without asyncio's report of an error that is not awaited: a removed partition has no fetcher."""
    future.set_exception(error)
    future.exception()


def _run_all(jobs: list[tuple[PartitionLog, FlushJob]]) -> None:
    for partition, job in jobs:
        try:
            job.run()
        except LogDirFailed:
            partition.segment_log.flush_failed()
            raise
