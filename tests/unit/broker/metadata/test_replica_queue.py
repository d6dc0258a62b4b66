"""Which replicas are settled, and when: what changes while one is being settled is not forgotten."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.metadata import replicas as replicas_module
from rookery.broker.metadata.replicas import Replicas
from rookery.core.metadata import image as im
from rookery.core.metadata.records import PartitionRecord, TopicRecord
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import log_dirs, memory
from tests.unit.broker.metadata.test_damaged_replicas import ME, Desk
from tests.unit.controller.state.clusters import cluster, directory

KEY = (UUID(int=1), 0)


class Slow(Replicas):
    """Takes as long to settle a replica as a test says."""

    def __init__(self) -> None:
        nothing: Any = SimpleNamespace(of=lambda *_: None)
        super().__init__(
            nothing, nothing, nothing, nothing, listener="", options_of=nothing, make=nothing, assigned=nothing
        )
        self.begun = asyncio.Semaphore(0)
        self.may_end = asyncio.Semaphore(0)

    async def _settle(self, key: Any) -> None:
        self.begun.release()
        await self.may_end.acquire()


async def test_a_change_while_a_replica_is_being_settled_is_settled_next() -> None:
    """As a replica that is given back while the files of its former life are still being moved aside."""
    replicas = Slow()
    serving = asyncio.create_task(replicas.serve())
    try:
        async with asyncio.timeout(30):
            replicas._reconcile(KEY, None)
            await replicas.begun.acquire()
            replicas._reconcile(KEY, None)
            replicas._reconcile(KEY, None)  # both at once
            replicas.may_end.release()
            await replicas.begun.acquire()
            assert not replicas._idle.is_set()
            replicas.may_end.release()
            await replicas.settled()
        assert replicas.begun.locked(), "and not a third time"
    finally:
        serving.cancel()
        await asyncio.wait([serving])


class Broken(Slow):
    """Fails twice with something nobody foresaw."""

    def __init__(self) -> None:
        super().__init__()
        self._view: Any = SimpleNamespace(image=SimpleNamespace(partition=lambda *_: None))
        self.tries = 0

    async def _settle(self, key: Any) -> None:
        self._failed.pop(key, None)
        self.tries += 1
        if self.tries < 3:
            raise ZeroDivisionError("a defect")


async def test_a_defect_with_one_replica_ends_nothing_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas_module, "RETRY_S", 0.0)
    monkeypatch.setattr(replicas_module, "LOOK_S", 0.001)
    replicas = Broken()
    serving = asyncio.create_task(replicas.serve())
    try:
        async with asyncio.timeout(30):
            replicas._reconcile(KEY, None)
            while replicas.tries < 3:
                assert not serving.done()
                await asyncio.sleep(0.001)
            await replicas.settled()
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def test_the_folders_of_a_large_new_topic_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each replica would wait for the device by itself: a guard of the number of such waits."""
    disk, count = memory(), 3 * replicas_module.MANY
    dirs = log_dirs(disk, ["/a"], first_id=directory(ME).int, threads=no_threads)
    await dirs.start()
    synced: list[str] = []
    sync_dir = disk.sync_dir

    def counted(path: str) -> None:
        synced.append(path)
        sync_dir(path)

    monkeypatch.setattr(disk, "sync_dir", counted)
    desk, topic_id = Desk(dirs, cluster()), UUID(int=77)
    serving = asyncio.create_task(desk.replicas.serve())
    try:
        desk.replicas.activate()
        directories = (im.UNASSIGNED_DIRECTORY,)
        made = [PartitionRecord(topic_id, n, (ME,), (ME,), leader=ME, directories=directories) for n in range(count)]
        desk.happens([TopicRecord("large", topic_id), *made])
        async with asyncio.timeout(30):
            await desk.replicas.settled()
        assert len(dirs.partitions) == len(list(desk.partitions)) == count
        assert synced.count("/a") <= 2
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await dirs.stop(1)
