"""The offset checkpoints of a log dir: no partition inherits what they say of an earlier one of its name."""

import asyncio
import errno
import random

import pytest

from rookery.broker.log.offset_checkpoints import OffsetCheckpoints
from rookery.core.disk import Buffer
from rookery.core.log import LogDirFailed
from rookery.core.log.checkpoints import LOG_STARTS, read_offsets
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition

TP = TopicPartition("orders", 0)


class SlowDisk(MemoryDisk):
    """Files are replaced when `go` is set."""

    def __init__(self) -> None:
        super().__init__(random.Random(1))
        self.go = asyncio.Event()
        self.go.set()

    async def replace(self, path: str, data: Buffer) -> None:
        await self.go.wait()
        await super().replace(path, data)


async def test_a_partition_is_not_made_before_the_save_that_forgets_its_namesake_is_done() -> None:
    disk = SlowDisk()
    checkpoints = OffsetCheckpoints(disk, "/a")
    disk.mkdir("/a")
    await checkpoints.save(LOG_STARTS, lambda _: {TP: 8})
    disk.go.clear()
    saving = asyncio.create_task(checkpoints.save(LOG_STARTS, lambda _: {}))
    forgetting = asyncio.create_task(checkpoints.forget(TP, lambda _: {}))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not forgetting.done(), "the file still says that the log starts at 8"
    disk.go.set()
    await asyncio.gather(saving, forgetting)
    assert read_offsets(disk, f"/a/{LOG_STARTS}") == {}


async def test_a_save_that_failed_has_forgotten_nothing() -> None:
    disk = SlowDisk()
    checkpoints = OffsetCheckpoints(disk, "/a")
    disk.mkdir("/a")
    await checkpoints.save(LOG_STARTS, lambda _: {TP: 8})
    for work in (checkpoints.save(LOG_STARTS, lambda _: {}), checkpoints.forget(TP, lambda _: {})):
        disk.fail("write", error=errno.ENOSPC)
        with pytest.raises(LogDirFailed):
            await work
    assert read_offsets(disk, f"/a/{LOG_STARTS}") == {TP: 8}
