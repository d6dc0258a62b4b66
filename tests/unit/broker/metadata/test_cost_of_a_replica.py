"""What a replica costs where there are thousands of them, in calls of the disk and in settled replicas: guards."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.metadata.replicas import MANY
from rookery.core.metadata import image as im
from rookery.core.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from tests.unit.broker.log.inline import no_threads
from tests.unit.broker.log.nodes import log_dirs, memory
from tests.unit.broker.metadata.test_damaged_replicas import ME, Desk
from tests.unit.controller.state.clusters import cluster, directory

COUNT = 4 * MANY
CALLS = ("open", "read", "exists", "size", "list", "mkdir", "remove", "rename", "sync_dir")
TOPIC = UUID(int=77)
OTHERS = (2, 3)


@pytest.fixture
def disk() -> MemoryDisk:
    return memory()


@pytest.fixture
def called(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the disk was asked for what."""
    found: Counter[str] = Counter()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any, **options: Any) -> Any:
            found[name] += 1
            return call(*args, **options)

        return do

    for name in CALLS:
        monkeypatch.setattr(disk, name, counted(name, getattr(disk, name)))
    file = type(disk.open("/probe", create=True))
    monkeypatch.setattr(file, "sync", counted("sync", file.sync))
    return found


class Settled(Counter[tuple[UUID, int]]):
    """How often each replica was settled."""

    def watch(self, desk: Desk) -> None:
        settle: Any = desk.replicas._settle

        async def counted(key: tuple[UUID, int]) -> None:
            self[key] += 1
            await settle(key)

        setattr(desk.replicas, "_settle", counted)  # noqa: B010


@asynccontextmanager
async def desk(disk: MemoryDisk) -> AsyncIterator[Desk]:
    dirs = log_dirs(disk, ["/a"], first_id=directory(ME).int, threads=no_threads)
    await dirs.start()
    made = Desk(dirs, cluster())
    serving = asyncio.create_task(made.replicas.serve())
    try:
        made.replicas.activate()
        await made.replicas.settled()
        yield made
    finally:
        serving.cancel()
        await asyncio.wait([serving])
        await dirs.stop(1)


async def create(here: Desk, name: str = "large", topic_id: UUID = TOPIC) -> None:
    replicas, nobody = (ME, *OTHERS), (im.UNASSIGNED_DIRECTORY,) * 3
    made = [
        PartitionRecord(topic_id, number, replicas, replicas, leader=ME, directories=nobody) for number in range(COUNT)
    ]
    here.happens([TopicRecord(name, topic_id), *made])
    async with asyncio.timeout(30):
        await here.replicas.settled()
        await asyncio.sleep(0)  # for the reports


async def test_a_new_replica_is_durable_with_one_sync_of_its_file_and_one_of_its_folder(
    disk: MemoryDisk, called: Counter[str]
) -> None:
    async with desk(disk) as here:
        called.clear()
        await create(here)
        assert len(here.dirs.partitions) == COUNT
        assert called["sync"] == COUNT, "the topic id"
        assert called["sync_dir"] <= COUNT + 2, "each folder, and the directory that holds them"
        assert called["open"] == 2 * COUNT, "the topic id and the first segment"
        assert called["list"] == called["read"] == called["size"] == 0, "nothing can be in a folder that was just made"


async def test_a_new_replica_is_settled_once_whatever_other_brokers_report(disk: MemoryDisk) -> None:
    async with desk(disk) as here:
        setattr(here, "_answer", lambda _assignment: None)  # noqa: B010 - the controller takes its time
        settled = Settled()
        settled.watch(here)
        await create(here)
        for node in OTHERS:
            here.happens(
                PartitionChangeRecord(
                    TOPIC, number, directories=tuple(directory(n) if n == node else UUID(int=0) for n in (ME, *OTHERS))
                )
                for number in range(COUNT)
            )
            await here.replicas.settled()
        assert set(settled.values()) == {1}
        assert len(settled) == COUNT
        assert set(here.asked) == {directory(ME)}


async def test_a_deleted_replica_is_not_searched_among_all_others(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(disk) as here:
        await create(here)
        await create(here, "other", UUID(int=78))

        class Unsearched(dict[TopicPartition, UUID | None]):
            def items(self) -> Any:
                raise AssertionError("all replicas were looked at to find one")

        monkeypatch.setattr(here.dirs, "topic_ids", Unsearched(here.dirs.topic_ids))
        here.happens([RemoveTopicRecord(TOPIC)])
        async with asyncio.timeout(30):
            await here.replicas.settled()
        assert {place.topic for place in here.dirs.partitions} == {"other"}
        assert {place.topic for place in here.dirs.topic_ids} == {"other"}
        monkeypatch.undo()


async def test_an_empty_replica_is_found_again_with_one_look_into_its_folder(
    disk: MemoryDisk, called: Counter[str]
) -> None:
    async with desk(disk) as here:
        await create(here)
        disk.restart()  # as after a crash
        called.clear()
        again = log_dirs(disk, ["/a"], threads=no_threads)
        await again.start()
        few = 20  # for the directory itself
        assert len(again.partitions) == COUNT
        assert called["list"] <= COUNT + few
        assert called["read"] <= COUNT + few, "the topic id"
        assert called["size"] <= COUNT + few, "the segment"
        assert called["open"] + called["exists"] + called["sync"] + called["sync_dir"] <= few
        await again.stop(1)
