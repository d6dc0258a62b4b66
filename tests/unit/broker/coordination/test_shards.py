"""Shards come and go with the leadership of their partitions."""

from typing import Any

import pytest

from rookery.broker.coordination.shard import ProducerTransaction
from rookery.broker.groups.group import Group
from rookery.broker.groups.joining import Join
from rookery.broker.groups.records import GroupRecord, OffsetCommitValue, OffsetRecord, encode
from rookery.broker.groups.shard import GroupShard
from rookery.broker.groups.step import Step
from rookery.broker.log.producer_state import NOT_VERIFIED
from rookery.core.errors import CoordinatorLoadInProgressError, ErrorCode, KafkaError, NotCoordinatorError
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.metadata.requests import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicReference
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.sync_group import SyncGroupRequest
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.records import Record, build_batch
from tests.unit.broker.coordination.test_internal_topic import ONE, find
from tests.unit.broker.groups.driver import RANGE, Caller
from tests.unit.broker.one_broker import NODE_ID, OneBroker, running_broker
from tests.unit.broker.waiting import until

GROUP = "g"
PRODUCER = 9
OFFSETS = "__consumer_offsets"


async def loaded(broker: OneBroker) -> GroupShard:
    """The shard of the group, once there is one."""
    await find(broker, 4, GROUP)

    def active() -> GroupShard | None:
        try:
            return broker.groups.shard_of(GROUP)
        except (NotCoordinatorError, CoordinatorLoadInProgressError):
            return None

    shard: GroupShard = await until(active)
    return shard


def offset_record(offset: int, topic: str = "t") -> OffsetRecord:
    value = OffsetCommitValue(offset=offset, leader_epoch=0, metadata="", commit_timestamp=1)
    return OffsetRecord(GROUP, topic, 0, value)


def step(*records: OffsetRecord | GroupRecord) -> tuple[Step, Caller]:
    caller = Caller()
    made = Step(list(records))
    made.answer(caller, "done")
    return made, caller


def lead(broker: OneBroker, index: int, leader: int) -> None:
    topic = broker.cluster.image.topic(OFFSETS)
    assert topic is not None
    before = topic.partitions[index]
    broker.cluster.commit([PartitionChangeRecord(topic.id, index, leader=leader, isr=before.isr)])


async def with_topic(broker: OneBroker, name: str = "t") -> None:
    await broker.cluster.ask(CreateTopicsRequest((NewTopic(name, 1, 1),)))


@pytest.mark.invariant("G3", "G5")
async def test_line_21_state_moves_with_leadership() -> None:
    """Loading, not coordinator, and the same state after the partition comes back."""
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        made, caller = step(offset_record(42))
        shard.run_for(GROUP, made)
        assert caller.response == "done"
        before = shard.groups.as_stored()
        lead(broker, shard.partition.index, -1)
        with pytest.raises(NotCoordinatorError):
            broker.groups.shard_of(GROUP)
        assert shard.closed
        lead(broker, shard.partition.index, NODE_ID)
        with pytest.raises(CoordinatorLoadInProgressError):
            broker.groups.shard_of(GROUP)
        again = await loaded(broker)
        assert again is not shard
        assert again.epoch > shard.epoch
        assert again.groups.as_stored() == before


@pytest.mark.invariant("G5")
async def test_an_old_shard_writes_nothing() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        old = await loaded(broker)
        lead(broker, old.partition.index, -1)
        lead(broker, old.partition.index, NODE_ID)
        new = await loaded(broker)
        end = new.partition.log.end_offset
        made, caller = step(offset_record(42))
        old.run(made)
        assert caller.response is ErrorCode.FENCED_LEADER_EPOCH
        assert new.partition.log.end_offset == end
        assert new.groups.groups == {}
        assert broker.groups.shard_of(GROUP) is new, "the new shard is not disturbed"


@pytest.mark.invariant("G3")
async def test_transactions_damage_and_unknown_kinds_in_the_log() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        partition, epoch = shard.partition, shard.epoch

        def written(key: bytes, value: bytes | None, **options: Any) -> None:
            batch = build_batch([Record(0, 1, key, value)], **options)
            partition.append_own(batch, epoch, 1, guard=NOT_VERIFIED)

        key, value = encode(offset_record(1))
        written(key, value)
        written(b"\0\7anything", b"of another kind")
        written(b"\0\1\0\7cut short", b"\0\3")
        transaction = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        written(key, encode(offset_record(2))[1], **transaction)
        partition.append_own(build_marker(EndMarker(True, 0), producer_id=9, producer_epoch=0, timestamp=1), epoch, 1)
        written(key, encode(offset_record(3))[1], **transaction | {"base_sequence": 1})
        partition.append_own(build_marker(EndMarker(False, 0), producer_id=9, producer_epoch=0, timestamp=1), epoch, 1)
        lead(broker, partition.index, -1)
        lead(broker, partition.index, NODE_ID)
        again = await loaded(broker)
        (offset,) = [value.offset for _, value in again.groups.groups[GROUP].offsets]
        assert offset == 2


def within(shard: GroupShard, epoch: int = 0) -> ProducerTransaction:
    guard = shard.partition.log.store.state.guard_for(PRODUCER, epoch)
    return ProducerTransaction(PRODUCER, epoch, guard)


def committed(shard: GroupShard) -> list[int]:
    group = shard.groups.groups.get(GROUP)
    return [] if group is None else [value.offset for _, value in group.offsets]


@pytest.mark.row(137)
@pytest.mark.invariant("T13")
@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_of_a_transaction_count_when_it_ends(commit: bool) -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        before, _ = step(offset_record(1))
        shard.run_for(GROUP, before)
        made, caller = step(offset_record(2))
        shard.run_for(GROUP, made, within(shard))
        assert caller.response == "done"
        assert committed(shard) == [1]
        assert shard.groups.groups[GROUP].offsets.is_unstable(TopicPartition("t", 0))
        told = Caller()
        shard.end(PRODUCER, 0, EndMarker(commit, 3), told, transaction_version=0)
        assert not told.waiting, "committed: there is one replica"
        assert committed(shard) == [2 if commit else 1]
        live = shard.groups.as_stored()
        lead(broker, shard.partition.index, -1)
        lead(broker, shard.partition.index, NODE_ID)
        assert (await loaded(broker)).groups.as_stored() == live, "whoever reads the log finds the same"


@pytest.mark.invariant("T7", "T13")
async def test_a_transaction_is_open_still_after_a_change_of_leader() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        made, _ = step(offset_record(2))
        shard.run_for(GROUP, made, within(shard))
        lead(broker, shard.partition.index, -1)
        lead(broker, shard.partition.index, NODE_ID)
        again = await loaded(broker)
        assert committed(again) == []
        assert again.groups.groups[GROUP].offsets.is_unstable(TopicPartition("t", 0))
        again.end(PRODUCER, 0, EndMarker(True, 3), Caller(), transaction_version=0)
        assert committed(again) == [2]


@pytest.mark.invariant("T11", "T13")
async def test_offsets_of_a_transaction_nobody_knows_of_are_refused() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        end = shard.partition.log.end_offset
        made, caller = step(offset_record(2))
        shard.run_for(GROUP, made, ProducerTransaction(PRODUCER, 0, None))
        assert caller.response is ErrorCode.INVALID_TXN_STATE
        late = within(shard)
        shard.end(PRODUCER, 0, EndMarker(False, 3), Caller(), transaction_version=0)
        made, caller = step(offset_record(2))
        shard.run_for(GROUP, made, late)
        assert caller.response is ErrorCode.INVALID_TXN_STATE, "the marker was faster"
        assert shard.partition.log.end_offset == end + 1
        assert committed(shard) == []


@pytest.mark.invariant("T8")
async def test_markers_of_old_epochs_change_no_group() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        made, _ = step(offset_record(2))
        shard.run_for(GROUP, made, within(shard, epoch=4))
        for producer_epoch, coordinator_epoch, version, expected in (
            (3, 3, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
            (4, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
            (5, 3, 2, None),
            (6, 2, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        ):
            told = Caller()
            marker = EndMarker(True, coordinator_epoch)
            shard.end(PRODUCER, producer_epoch, marker, told, transaction_version=version)
            assert told.response is expected
        assert committed(shard) == [2]


async def test_a_large_log_is_loaded_in_slices() -> None:
    async with running_broker(config={**ONE, "offsets.load.buffer.size": "1000"}) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        for offset in range(1200):
            shard.run_for(GROUP, step(offset_record(offset))[0])
        lead(broker, shard.partition.index, -1)
        lead(broker, shard.partition.index, NODE_ID)
        again = await loaded(broker)
        assert [value.offset for _, value in again.groups.groups[GROUP].offsets] == [1199]


async def test_offsets_of_a_topic_deleted_meanwhile_are_dropped() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker, "kept")
        await with_topic(broker, "gone")
        await with_topic(broker, "gone-later")
        shard = await loaded(broker)
        made, _ = step(*(offset_record(7, topic) for topic in ("kept", "gone", "gone-later")))
        shard.run_for(GROUP, made)
        lead(broker, shard.partition.index, -1)
        await broker.cluster.ask(DeleteTopicsRequest((TopicReference(name="gone"),)))
        lead(broker, shard.partition.index, NODE_ID)
        again = await loaded(broker)
        await until(lambda: len(again.groups.groups[GROUP].offsets) == 2)
        await broker.cluster.ask(DeleteTopicsRequest((TopicReference(name="gone-later"),)))
        assert [partition.topic for partition, _ in again.groups.groups[GROUP].offsets] == ["kept"]


async def test_a_batch_that_is_too_large_is_refused_and_changes_nothing() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        value = OffsetCommitValue(offset=1, metadata="x" * 30_000, commit_timestamp=1)
        made, caller = step(*(OffsetRecord(GROUP, "t", index, value) for index in range(50)))
        shard.run_for(GROUP, made)
        assert caller.response is ErrorCode.MESSAGE_TOO_LARGE
        assert shard.groups.groups == {}


@pytest.mark.invariant("G3")
async def test_what_cannot_be_stored_is_refused_and_changes_nothing() -> None:
    """A member id that is longer than a record can hold."""
    async with running_broker(config={**ONE, "group.initial.rebalance.delay.ms": "0"}) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        joined, synced = Caller(), Caller()
        join = Join(joined, "", "i" * 32767, "c", "/h", 6000, 6000, "consumer", RANGE)
        broker.groups.run(GROUP, joined, lambda state, now: state.join(GROUP, join, now))
        member_id, generation = joined.response.member_id, joined.response.generation_id
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id="i" * 32767, assignments=()
        )
        broker.groups.run(GROUP, synced, lambda state, now: state.sync(request, synced, now))
        assert synced.response is ErrorCode.INVALID_REQUEST
        assert shard.groups.groups[GROUP].state.value == "Empty"


async def test_deadlines_are_kept() -> None:
    """A member falls silent: the shard's alarm removes it."""
    config = {**ONE, "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "10"}
    async with running_broker(config=config) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        caller = Caller()
        join = Join(caller, "", None, "c", "/h", 50, 50, "consumer", RANGE, needs_known_id=False)
        broker.groups.run(GROUP, caller, lambda state, now: state.join(GROUP, join, now))
        assert caller.response.generation_id == 1
        await until(lambda: shard.groups.groups[GROUP].state.value == "Empty")
        group = shard.groups.groups[GROUP]
        assert isinstance(group, Group)
        assert group.generation == 2


async def test_expired_offsets_are_dropped_in_the_background() -> None:
    config = {**ONE, "offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "10"}
    async with running_broker(config=config) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        made, _ = step(offset_record(1))
        shard.run_for(GROUP, made)
        await until(lambda: GROUP not in shard.groups.groups)


async def test_nobody_waits_for_a_coordinator_that_stopped() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        caller = Caller()
        join = Join(caller, "", "static", "c", "/h", 6000, 6000, "consumer", RANGE)
        broker.groups.run(GROUP, caller, lambda state, now: state.join(GROUP, join, now))
        assert caller.waiting
        await broker.groups.stop()
        assert caller.response.error_code == ErrorCode.NOT_COORDINATOR
        assert shard.closed
        with pytest.raises(KafkaError):
            broker.groups.shard_of(GROUP)
