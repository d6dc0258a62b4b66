"""Shards whose log is cut, whose topic is made anew, whose load fails, and whose writes are many or refused."""

import asyncio
import threading
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from rookery.broker.coordination import shards
from rookery.broker.coordination.loader import load
from rookery.broker.groups.deleting import delete_group
from rookery.broker.groups.records import GroupRecord, OffsetCommitValue, OffsetRecord
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.core.errors import CoordinatorLoadInProgressError, ErrorCode
from rookery.core.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from rookery.core.metadata.requests import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicReference
from rookery.core.metrics import Metrics
from rookery.core.wire.batch import batches
from tests.unit.broker.coordination.test_internal_topic import ONE
from tests.unit.broker.coordination.test_shards import (
    GROUP,
    OFFSETS,
    lead,
    loaded,
    offset_record,
    step,
    with_topic,
)
from tests.unit.broker.groups.driver import Caller
from tests.unit.broker.one_broker import NODE_ID, OneBroker, running_broker
from tests.unit.broker.replication.test_cut import SlowDisk
from tests.unit.broker.waiting import until


@pytest.mark.invariant("G3", "P6")
async def test_nothing_is_loaded_before_the_log_has_been_cut() -> None:
    """What will be cut off was never committed, and its reader would run into the cut."""
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        shard.run_for(GROUP, step(offset_record(42))[0])
        partition, disk = shard.partition, SlowDisk()
        partition._storage = disk
        lead(broker, partition.index, 2)
        cut = partition.restart_at(partition.log.end_offset + 5)
        lead(broker, partition.index, NODE_ID)
        with pytest.raises(TimeoutError):
            await until(lambda: broker.groups.times_loaded > 5, within_s=0.05)
        with pytest.raises(CoordinatorLoadInProgressError):
            broker.groups.shard_of(GROUP)
        disk.may_go_on.set()
        await cut
        again = await loaded(broker)
        assert again.groups.groups == {}
        metrics = Metrics()
        broker.groups.publish_metrics(metrics, "groups_")
        longest, mean = (metrics.value(f"groups_partition_load_time_{name}") or 0 for name in ("max", "avg"))
        assert longest >= 50, "the wait for the cut belongs to the time it takes to load"
        assert longest > mean > 0


@pytest.mark.invariant("G5")
async def test_a_load_stops_reading_when_the_partition_is_led_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(config={**ONE, "offsets.load.buffer.size": "1"}) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        for offset in range(3):
            shard.run_for(GROUP, step(offset_record(offset))[0])
        partition = shard.partition
        lead(broker, partition.index, 2)
        may_decode = threading.Event()
        broker.executor.submit(may_decode.wait)
        reads: list[bool] = []
        read = PartitionLog.read

        def watched(self: PartitionLog, *args: Any, **options: Any) -> Any:
            if self is partition.log:
                reads.append(partition.leading is not None)
            return read(self, *args, **options)

        monkeypatch.setattr(PartitionLog, "read", watched)
        lead(broker, partition.index, NODE_ID)
        await until(lambda: reads)
        lead(broker, partition.index, 2)
        may_decode.set()
        for _ in range(3):
            await asyncio.get_running_loop().run_in_executor(broker.executor, int)
        assert reads == [True], "it went on reading although the log may be cut now"
        lead(broker, partition.index, NODE_ID)
        assert [value.offset for _, value in (await loaded(broker)).groups.groups[GROUP].offsets] == [2]


async def test_a_load_that_breaks_is_tried_again_and_ends_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = 0

    async def breaks_once(*args: Any, **options: Any) -> int:
        nonlocal broken
        if not broken:
            broken += 1
            raise ZeroDivisionError("a bug, or bytes nobody thought of")
        return await load(*args, **options)

    monkeypatch.setattr(shards, "load", breaks_once)
    monkeypatch.setattr(shards, "RETRY_PAUSE_S", 0.001)
    async with running_broker(config=ONE) as broker:
        await loaded(broker)
        await until(lambda: len(broker.groups.shards) == 5)
        assert broken == 1


@pytest.mark.invariant("M12")
async def test_a_topic_that_was_made_anew_is_loaded_anew() -> None:
    """Deleted and created within one change of the image, its epochs are those of the old one."""
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        old = await loaded(broker)
        old.run_for(GROUP, step(offset_record(42))[0])
        topic = broker.cluster.image.topic(OFFSETS)
        assert topic is not None
        new = UUID(int=77)
        broker.cluster.commit([
            RemoveTopicRecord(topic.id),
            TopicRecord(OFFSETS, new),
            *(PartitionRecord(new, index, (NODE_ID,), (NODE_ID,), NODE_ID) for index in topic.partitions),
        ])  # fmt: skip
        shard = await loaded(broker)
        assert old.closed
        assert (shard.partition.topic_id, shard.groups.groups) == (new, {})


def too_few_in_sync(broker: OneBroker, partition: Partition, *, too_few: bool) -> None:
    """Of two replicas one is in sync, and two are asked for; or there is but one."""
    partition.settings = TopicSettings(insync_replicas_min=2)
    change = PartitionChangeRecord(
        partition.topic_id, partition.index, replicas=(NODE_ID, 2) if too_few else (NODE_ID,), isr=(NODE_ID,)
    )
    broker.cluster.commit([change])


@pytest.mark.invariant("M12", "G3")
async def test_a_recreated_topic_inherits_no_offsets_when_the_tombstones_could_not_be_written() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        topic_id = broker.cluster.image.topic_ids["t"]
        value = OffsetCommitValue(offset=42, metadata="", commit_timestamp=1, topic_id=topic_id)
        shard.run_for(GROUP, step(OffsetRecord(GROUP, "t", 0, value))[0])
        too_few_in_sync(broker, shard.partition, too_few=True)
        end = shard.partition.log.end_offset
        await broker.cluster.ask(DeleteTopicsRequest((TopicReference(name="t"),)))
        await with_topic(broker)
        assert shard.partition.log.end_offset == end, "nothing could be written"
        assert len(shard.groups.groups[GROUP].offsets) == 1
        too_few_in_sync(broker, shard.partition, too_few=False)
        lead(broker, shard.partition.index, -1)
        lead(broker, shard.partition.index, NODE_ID)
        again = await loaded(broker)
        await until(lambda: not again.groups.groups[GROUP].offsets)
        assert again.partition.log.end_offset == end + 1


@pytest.mark.invariant("M12")
async def test_tombstones_that_could_not_be_written_are_written_later() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        topic_id = broker.cluster.image.topic_ids["t"]
        value = OffsetCommitValue(offset=42, metadata="", commit_timestamp=broker.clock.wall_ms(), topic_id=topic_id)
        shard.run_for(GROUP, step(OffsetRecord(GROUP, "t", 0, value))[0])
        too_few_in_sync(broker, shard.partition, too_few=True)
        await broker.cluster.ask(DeleteTopicsRequest((TopicReference(name="t"),)))
        await with_topic(broker)
        await broker.groups.expire_in(shard)
        assert len(shard.groups.groups[GROUP].offsets) == 1
        too_few_in_sync(broker, shard.partition, too_few=False)
        await broker.groups.expire_in(shard)
        assert GROUP not in shard.groups.groups


def small_batches(partition: Partition, size: int) -> None:
    partition.log.config = replace(partition.log.config, max_message_bytes=size)


async def test_a_group_with_more_offsets_than_fit_into_a_batch_is_deleted() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
        shard.run_for(GROUP, step(*(OffsetRecord(GROUP, "t", index, value) for index in range(500)))[0])
        small_batches(shard.partition, 1000)
        end = shard.partition.log.end_offset
        caller = Caller()
        broker.groups.run(GROUP, caller, lambda state, now: delete_group(state, GROUP, caller))
        assert caller.response.error_code == ErrorCode.NONE
        assert shard.groups.groups == {}
        assert shard.partition.log.end_offset == end + 501
        data = shard.partition.log.segment_log.read(end, 1 << 20).data
        sizes = [header.size for _, header in batches(data)]
        assert max(sizes) <= 1000
        assert len(sizes) < 50, "as few batches as needed"
        lead(broker, shard.partition.index, -1)
        lead(broker, shard.partition.index, NODE_ID)
        assert (await loaded(broker)).groups.groups == {}


async def test_a_deletion_that_stops_half_way_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(config=ONE) as broker:
        await broker.cluster.ask(CreateTopicsRequest((NewTopic("t", 100, 1),)))
        shard = await loaded(broker)
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
        shard.run_for(GROUP, step(*(OffsetRecord(GROUP, "t", index, value) for index in range(100)))[0])
        small_batches(shard.partition, 1000)
        replay = shard.groups.replay
        seen = 0

        def replay_and_fail_later(record: OffsetRecord | GroupRecord, at: int, producer_id: int = -1) -> None:
            nonlocal seen
            seen += 1
            if seen == 1:
                too_few_in_sync(broker, shard.partition, too_few=True)
            replay(record, at, producer_id)

        monkeypatch.setattr(shard.groups, "replay", replay_and_fail_later)
        caller = Caller()
        broker.groups.run(GROUP, caller, lambda state, now: delete_group(state, GROUP, caller))
        assert caller.response is ErrorCode.NOT_ENOUGH_REPLICAS
        assert 0 < len(shard.groups.groups[GROUP].offsets) < 100
        before = shard.groups.as_stored()
        too_few_in_sync(broker, shard.partition, too_few=False)
        lead(broker, shard.partition.index, -1)
        lead(broker, shard.partition.index, NODE_ID)
        again = await loaded(broker)
        assert again.groups.as_stored() == before
        caller = Caller()
        broker.groups.run(GROUP, caller, lambda state, now: delete_group(state, GROUP, caller))
        assert caller.response.error_code == ErrorCode.NONE
        assert again.groups.groups == {}
