"""A topic is deleted and made again under the same name, before every disk operation of every background job.

Nothing of the old topic may reach the new one, no directory may go offline, nothing may escape.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.log.cleaning import cleaning_plan
from rookery.broker.log.log_dirs import CHECKPOINTED
from rookery.broker.log.offset_checkpoints import OffsetCheckpoints
from rookery.broker.log.partition_files import Lease, PartitionFiles
from rookery.broker.log.partition_log import Isolation, PartitionLog
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import KafkaError
from rookery.core.log import names
from rookery.core.types import TopicPartition
from rookery.core.wire.batch import stamp
from tests.unit.broker.log.batches import batch
from tests.unit.broker.log.steps import PATIENCE_S, Storage

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
OLD, NEW = 1, 2
OLD_RECORDS, NEW_RECORDS = 24, 10

Job = Callable[[Storage, PartitionLog], Coroutine[Any, Any, object]]


async def flush(storage: Storage, log: PartitionLog) -> None:
    log.segment_log.recovery_point = 5
    await storage.dirs.commit_of(log).durable(log, log.end_offset)


async def cut(storage: Storage, log: PartitionLog) -> None:
    await storage.dirs.truncate(log, 17)


async def restart_higher(storage: Storage, log: PartitionLog) -> None:
    await storage.dirs.restart_at(log, 1000)


async def begin_within_a_batch(storage: Storage, log: PartitionLog) -> None:
    """An empty replica takes a batch of which its leader has deleted the first records."""
    replica = Partition(UUID(int=OLD), log, TopicSettings(), node_id=1, wake=lambda _: None, storage=storage.dirs)
    await replica.restart_at(1000)
    data = batch(10, values=[b"old-batch"] * 10)
    stamp(data, 0, 995, 0)
    replica.apply_fetched(data, high_watermark=1005, leader_log_start=1000, now_ms=0)
    assert replica.cut is not None
    await replica.cut
    assert (log.start_offset, log.end_offset) == (1000, 1005)


async def clean(storage: Storage, log: PartitionLog) -> None:
    plan = cleaning_plan(log, storage.clock.wall_ms())
    assert plan is not None
    await storage.cleaner.clean(log, plan)


async def write_snapshots(storage: Storage, log: PartitionLog) -> None:
    log.roll(0)
    storage.dirs.with_unsaved_snapshots.add(log)
    await storage.keeper.tick()


async def retain(storage: Storage, log: PartitionLog) -> None:
    log.delete_records(21)
    await storage.keeper.delete_old_segments()
    await storage.keeper.tick()


async def clean_and_remove(storage: Storage, log: PartitionLog) -> None:
    await clean(storage, log)
    await storage.keeper.tick()


async def save_checkpoints(storage: Storage, log: PartitionLog) -> None:
    await storage.dirs.save_checkpoints(*CHECKPOINTED)


async def two_cuts(storage: Storage, log: PartitionLog) -> None:
    other = storage.task(storage.dirs.truncate(storage.dirs.partitions[OTHER], 3))
    try:
        await cut(storage, log)
    finally:
        await other


async def everything(storage: Storage, log: PartitionLog) -> None:
    jobs = [storage.task(job(storage, log)) for job in (save_checkpoints, clean, retain, flush)]
    for job in jobs:
        await job


JOBS: list[Job] = [
    flush, cut, two_cuts, restart_higher, begin_within_a_batch, clean_and_remove, write_snapshots, retain,
    save_checkpoints, everything,
]  # fmt: skip


def with_an_old_topic(seed: int = 0) -> tuple[Storage, PartitionLog]:
    storage = Storage(seed)
    storage.create(OTHER, OLD, 10, "other")
    log = storage.create(TP, OLD, OLD_RECORDS, "old")
    log.delete_records(3)
    log.clean_offset, log.uncleanable = 4, "it was the old one"
    storage.dirs.dirs[0].mark_damaged(TP)
    storage.run(storage.dirs.save_checkpoints(*CHECKPOINTED))
    return storage, log


def replaced_during(job: Job, step: int, seed: int = 0) -> tuple[Storage, bool]:
    """Replace the topic before a disk operation of the job; whether there were so many."""
    storage, log = with_an_old_topic(seed)
    tasks: list[asyncio.Task[Any]] = []

    async def replace() -> None:
        await storage.dirs.delete(TP)
        if step // 2 % 2:
            await asyncio.sleep(PATIENCE_S / 5)  # the job goes on while there is no such topic
        new = await storage.dirs.create(TP, UUID(int=NEW))
        assert state(new) == (0, 0, 0, 0, None, None, None)

    storage.at_step(step, lambda: tasks.append(storage.task(replace())))
    tasks.append(storage.task(job(storage, log)))
    storage.finish(tasks)
    error = tasks[0].exception()
    assert error is None or isinstance(error, KafkaError), repr(error)
    for replacing in tasks[1:]:
        replacing.result()
    return storage, len(tasks) > 1


def state(log: PartitionLog) -> tuple[object, ...]:
    return (
        log.start_offset, log.end_offset, log.high_watermark, log.segment_log.recovery_point,
        log.clean_offset, log.uncleanable, log.damage,
    )  # fmt: skip


def values(log: PartitionLog) -> bytes:
    found, offset = b"", log.start_offset
    while offset < log.end_offset:
        read = log.read(offset, 1 << 20, Isolation.LOG_END)
        found += bytes(read.data)
        offset = read.next_offset
    return found


def check_new_topic(storage: Storage) -> None:
    assert storage.dirs.offline == {}
    assert storage.dirs.damaged == {}
    assert storage.loop.failures == []
    log = storage.dirs.partitions[TP]
    assert storage.dirs.topic_ids[TP] == UUID(int=NEW)
    assert (log.start_offset, log.end_offset) == (0, NEW_RECORDS)
    assert (log.clean_offset, log.uncleanable, log.damage) == (None, None, None)
    assert log.high_watermark <= NEW_RECORDS
    bases = [f"{segment.base_offset:020d}" for segment in log.segment_log.segments] + [f"{log.end_offset:020d}"]
    foreign = [
        name
        for name in storage.disk.list("/a/orders-0")
        if name.endswith((names.DELETED, names.CLEANED, names.SWAP)) or (name[0].isdigit() and name[:20] not in bases)
        or name == names.DAMAGED
    ]
    assert foreign == []
    found = values(log)
    assert found.count(b"new-") == NEW_RECORDS
    assert b"old-" not in found


def check(job: Job, step: int) -> bool:
    """False if the job makes fewer steps."""
    storage, reached = replaced_during(job, step)
    if reached:
        storage.append(storage.dirs.partitions[TP], NEW_RECORDS, "new")
        check_new_topic(storage)
        storage.kill()
        if step % 2:
            storage.disk.power_cut()
        storage.start()
        check_new_topic(storage)
    return reached


@pytest.mark.invariant("M12")
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_a_new_topic_of_the_same_name_inherits_nothing(job: Job) -> None:
    steps = next(step for step in range(1000) if not check(job, step))
    assert steps > 3, "the job did something"


async def keep_old_offsets(*_: object) -> None:
    """A new partition begins with what the checkpoints say of an earlier one."""


class Unlocked:
    """Saves of one directory share a temporary file."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


async def close_at_once(files: PartitionFiles) -> None:
    """Whoever leaves waits for nobody."""
    files.closed = True


@asynccontextmanager
async def no_lease(files: PartitionFiles, purpose: str, **_: object) -> AsyncIterator[Lease]:
    """Everybody works on the files at the same time."""
    yield Lease(purpose, alone=False)


@pytest.mark.parametrize(
    ("owner", "name", "defect", "job", "step"),
    [
        (OffsetCheckpoints, "forget", keep_old_offsets, flush, 0),
        (asyncio, "Lock", Unlocked, two_cuts, 1),
        (PartitionFiles, "close", close_at_once, cut, 4),
        (PartitionFiles, "shared", no_lease, clean, 10),
        (PartitionFiles, "shared", no_lease, write_snapshots, 2),
    ],
    ids=["old offsets", "saves at once", "cut not waited for", "cleaning not waited for", "snapshot not waited for"],
)
def test_planted_bug_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, defect: object, job: Job, step: int
) -> None:
    assert check(job, step)
    monkeypatch.setattr(owner, name, defect)
    with pytest.raises((AssertionError, KafkaError, KeyError, OSError)):
        check(job, step)


@pytest.mark.invariant("M12")
@pytest.mark.parametrize("seed", range(1, 13))
def test_however_threads_interleave_a_new_topic_inherits_nothing(seed: int) -> None:
    storage, reached = replaced_during(everything, seed * 3, seed)
    assert reached
    storage.append(storage.dirs.partitions[TP], NEW_RECORDS, "new")
    storage.run(storage.keeper.tick())
    check_new_topic(storage)
    storage.kill()
    storage.start()
    check_new_topic(storage)
    storage.run(storage.dirs.stop(1))
    storage.start()
    check_new_topic(storage)
