"""Transactions on the wire, as far as partitions and groups are concerned: Produce, WriteTxnMarkers, TxnOffsetCommit.
The coordinator's answers are given by hand."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rookery.broker.handlers import offset_fetch
from rookery.broker.transactions.verification import Codes, Transaction
from rookery.core.config import node
from rookery.core.errors import ErrorCode
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from rookery.core.wire.apis.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from rookery.core.wire.apis.write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.broker.coordination.test_internal_topic import ONE
from tests.unit.broker.coordination.test_shards import GROUP, lead, loaded, offset_record, step, with_topic
from tests.unit.broker.coordination.test_shards_change import too_few_in_sync
from tests.unit.broker.one_broker import NODE_ID, OneBroker, running_broker
from tests.unit.broker.talk import QuietBroker, Talk, batch_of
from tests.unit.broker.waiting import until

E = ErrorCode
ID = "transfers"
PRODUCER = 7


class Coordinator:
    """Stands in for the question to the transaction's coordinator."""

    def __init__(self, broker: OneBroker) -> None:
        self.asked: list[tuple[Transaction, list[TopicPartition]]] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.let = asyncio.Event()
        self.let.set()
        broker.verification.ask = self.ask  # type: ignore[method-assign]

    async def ask(self, transaction: Transaction, partitions: Sequence[TopicPartition]) -> Codes:
        self.asked.append((transaction, list(partitions)))
        await self.let.wait()
        return {each: self.codes[each] for each in partitions if each in self.codes}


def transactional(value: bytes = b"x", *, sequence: int = 0, epoch: int = 0, producer: int = PRODUCER) -> bytes:
    return batch_of(
        value, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def request(*batches: bytes, id: str | None = ID, topic: str = "orders", acks: int = -1) -> ProduceRequest:
    """One batch for each partition from 0 on."""
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    return ProduceRequest(
        transactional_id=id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


async def produce(talk: Talk, *batches: bytes, version: int = 11, **options: Any) -> list[ErrorCode]:
    answer = await talk.ask(PRODUCE, version, request(*batches, **options))
    return [ErrorCode(each.error_code) for each in answer.responses[0].partition_responses]


def marker_request(
    *places: TopicPartition, commit: bool = True, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0
) -> WriteTxnMarkersRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, []).append(index)
    marker = WritableTxnMarker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
    )
    return WriteTxnMarkersRequest(markers=[marker])


def codes_of(answer: Any) -> list[ErrorCode]:
    return [
        ErrorCode(each.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    ]


async def end(talk: Talk, *places: TopicPartition, **options: Any) -> list[ErrorCode]:
    return codes_of(await talk.ask(WRITE_TXN_MARKERS, 2, marker_request(*places, **options)))


PLACE = TopicPartition("orders", 0)


# --- Produce --------------------------------------------------------------------------------


@pytest.mark.row(132)
@pytest.mark.invariant("T11")
@pytest.mark.parametrize("version", range(3, 13))
async def test_the_first_batch_is_asked_for_and_the_next_are_not(broker: QuietBroker, version: int) -> None:
    await broker.create("orders", 2)
    coordinator, talk = Coordinator(broker), broker.talk()
    assert await produce(talk, transactional(), transactional(), version=version) == [E.NONE, E.NONE]
    (asked,) = coordinator.asked
    assert asked == (
        Transaction(ID, PRODUCER, 0, version >= 12), [PLACE, TopicPartition("orders", 1)],
    )  # fmt: skip
    assert await produce(talk, transactional(sequence=1), version=version) == [E.NONE]
    assert len(coordinator.asked) == 1
    assert broker.partition("orders").log.last_stable_offset == 0


@pytest.mark.invariant("T11")
@pytest.mark.parametrize(("version", "told"), [(10, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)])
async def test_what_the_coordinator_does_not_confirm_is_not_written(
    broker: QuietBroker, version: int, told: ErrorCode
) -> None:
    await broker.create("orders", 2)
    coordinator, talk = Coordinator(broker), broker.talk()
    coordinator.codes = {PLACE: E.TRANSACTION_ABORTABLE}
    assert await produce(talk, transactional(), transactional(), version=version) == [told, E.NONE]
    assert [broker.partition("orders", index).log.end_offset for index in (0, 1)] == [0, 1]


@pytest.mark.invariant("T11")
async def test_later_requests_of_the_connection_wait_for_the_answer(broker: QuietBroker) -> None:
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    coordinator.let.clear()
    for sequence in range(3):
        talk.send(PRODUCE, 11, request(transactional(b"%d" % sequence, sequence=sequence)))
    await until(lambda: bool(coordinator.asked))
    assert talk.receive() == []
    coordinator.let.set()
    answers = await talk.receive_some(3)
    offsets = [each.responses[0].partition_responses[0].base_offset for each in answers]
    assert offsets == [0, 1, 2], "in the order in which they were sent"
    assert len(coordinator.asked) == 1


@pytest.mark.invariant("T11")
async def test_2_a_marker_that_overtakes_the_batch_keeps_it_out(broker: QuietBroker) -> None:
    """KAFKA-14402: the transaction was aborted while its first batch was on the way."""
    await broker.create("orders")
    coordinator, talk, other = Coordinator(broker), broker.talk(), broker.talk()
    coordinator.let.clear()
    talk.send(PRODUCE, 11, request(transactional()))
    await until(lambda: bool(coordinator.asked))
    assert await end(other, PLACE, commit=False) == [E.NONE]
    coordinator.let.set()
    (answer,) = await talk.receive_some(1)
    assert answer.responses[0].partition_responses[0].error_code == E.INVALID_TXN_STATE
    log = broker.partition("orders").log
    assert log.last_stable_offset == log.high_watermark == 1, "nothing hangs"


@pytest.mark.invariant("T11")
async def test_3_the_marker_of_the_transaction_before_does_not_keep_the_next_out(broker: QuietBroker) -> None:
    """KAFKA-18575"""
    await broker.create("orders")
    coordinator, talk, other = Coordinator(broker), broker.talk(), broker.talk()
    assert await produce(talk, transactional(), version=12) == [E.NONE]
    coordinator.let.clear()
    talk.send(PRODUCE, 12, request(transactional(epoch=1)))
    await until(lambda: len(coordinator.asked) == 2)
    assert await end(other, PLACE, epoch=1, version=2) == [E.NONE]
    coordinator.let.set()
    (answer,) = await talk.receive_some(1)
    assert answer.responses[0].partition_responses[0].error_code == E.NONE
    assert broker.partition("orders").log.last_stable_offset == 2


@pytest.mark.invariant("P11", "T11")
async def test_a_change_of_leader_while_the_coordinator_is_asked(broker: QuietBroker) -> None:
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    coordinator.let.clear()
    talk.send(PRODUCE, 11, request(transactional()))
    await until(lambda: bool(coordinator.asked))
    topic = broker.cluster.image.topic("orders")
    assert topic is not None
    for leader in (-1, NODE_ID):
        broker.cluster.commit([PartitionChangeRecord(topic.id, 0, leader=leader, isr=(NODE_ID,))])
    coordinator.let.set()
    (answer,) = await talk.receive_some(1)
    assert answer.responses[0].partition_responses[0].error_code == E.NOT_LEADER_OR_FOLLOWER
    assert broker.partition("orders").log.end_offset == 0


@pytest.mark.invariant("T1", "T3")
async def test_a_retry_is_answered_without_asking(broker: QuietBroker) -> None:
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    assert await produce(talk, transactional()) == [E.NONE]
    assert await end(talk, PLACE) == [E.NONE]
    coordinator.codes = {PLACE: E.TRANSACTION_ABORTABLE}
    answer = await talk.ask(PRODUCE, 11, request(transactional()))
    (told,) = answer.responses[0].partition_responses
    assert (told.error_code, told.base_offset) == (E.NONE, 0)
    assert len(coordinator.asked) == 1


@pytest.mark.invariant("T11")
async def test_an_old_epoch_is_refused_without_asking(broker: QuietBroker) -> None:
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    assert await produce(talk, transactional(epoch=3)) == [E.NONE]
    assert await produce(talk, transactional(epoch=2)) == [E.INVALID_PRODUCER_EPOCH]
    assert len(coordinator.asked) == 1


async def test_one_request_has_one_transactional_producer(broker: QuietBroker) -> None:
    await broker.create("orders", 2)
    coordinator, talk = Coordinator(broker), broker.talk()
    several = await produce(talk, transactional(), transactional(producer=8))
    assert several == [E.INVALID_PRODUCER_ID_MAPPING] * 2
    assert coordinator.asked == []
    assert broker.partition("orders").log.end_offset == 0


async def test_a_damaged_batch_is_not_asked_for(broker: QuietBroker) -> None:
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    damaged = bytearray(transactional())
    damaged[-1] ^= 1
    assert await produce(talk, bytes(damaged)) == [E.CORRUPT_MESSAGE]
    assert await produce(talk, transactional()[:30]) == [E.CORRUPT_MESSAGE]
    assert coordinator.asked == []


async def test_verification_can_be_switched_off(broker: QuietBroker) -> None:
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    broker.verification.enabled = False
    assert await produce(talk, transactional()) == [E.NONE]
    assert coordinator.asked == []


@pytest.mark.row(132)
async def test_who_lets_the_leader_add_the_partition_is_asked_for_in_any_case(broker: QuietBroker) -> None:
    """Nobody else adds it: without the question the transaction would end without this partition."""
    await broker.create("orders")
    coordinator, talk = Coordinator(broker), broker.talk()
    broker.verification.enabled = False
    assert await produce(talk, transactional(), version=12) == [E.NONE]
    assert coordinator.asked == [(Transaction(ID, PRODUCER, 0, True), [PLACE])]
    coordinator.codes[PLACE] = E.PRODUCER_FENCED
    assert await produce(talk, transactional(epoch=1), version=12) == [E.INVALID_PRODUCER_EPOCH]


async def test_a_batch_in_another_codec_is_asked_for_and_opened(broker: QuietBroker) -> None:
    await broker.create("orders", compression_type="gzip")
    coordinator, talk = Coordinator(broker), broker.talk()
    assert await produce(talk, transactional()) == [E.NONE]
    assert await produce(talk, transactional(sequence=1)) == [E.NONE]
    assert len(coordinator.asked) == 1
    assert broker.partition("orders").log.end_offset == 2


async def test_version_13_names_topics_by_id(broker: QuietBroker) -> None:
    await broker.create("orders")
    topic = broker.cluster.image.topic("orders")
    assert topic is not None
    talk = broker.talk()
    for topic_id, expected in ((topic.id, E.NONE), (broker.partition("orders").topic_id, E.NONE)):
        asked = request(batch_of(b"x"), id=None)
        asked.topic_data[0].topic_id = topic_id
        answer = await talk.ask(PRODUCE, 13, asked)
        assert answer.responses[0].topic_id == topic_id
        assert answer.responses[0].partition_responses[0].error_code == expected
    unknown = request(batch_of(b"x"), id=None)
    unknown.topic_data[0].topic_id = type(topic.id)(int=99)
    answer = await talk.ask(PRODUCE, 13, unknown)
    assert answer.responses[0].partition_responses[0].error_code == E.UNKNOWN_TOPIC_ID
    assert broker.partition("orders").log.end_offset == 2


@pytest.mark.row(136)
@pytest.mark.invariant("T1")
async def test_without_a_transactional_id_idempotence_ends_with_the_session(broker: QuietBroker) -> None:
    """Each start gets another producer id: what the last session sent cannot be recognised any more."""
    await broker.create("orders")
    talk, offsets = broker.talk(), []
    start = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    for _ in range(2):
        session = await talk.ask(INIT_PRODUCER_ID, 5, start)
        batch = batch_of(b"x", producer_id=session.producer_id, producer_epoch=session.producer_epoch, base_sequence=0)
        offsets += [(await talk.produce("orders", batch)).base_offset for _ in range(2)]
    assert offsets == [0, 0, 1, 1], "a retry within a session is stored once, the same record of the next one again"
    assert broker.partition("orders").log.end_offset == 2


# --- WriteTxnMarkers --------------------------------------------------------------------------------


@pytest.mark.row(133)
@pytest.mark.invariant("T8", "T9")
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [1, 2])
async def test_markers_end_transactions(broker: QuietBroker, commit: bool, version: int) -> None:
    await broker.create("orders", 2)
    Coordinator(broker)
    talk = broker.talk()
    await produce(talk, transactional(), transactional())
    places = [TopicPartition("orders", index) for index in (0, 1)]
    answer = await talk.ask(WRITE_TXN_MARKERS, version, marker_request(*places, commit=commit))
    assert codes_of(answer) == [E.NONE, E.NONE]
    for index in (0, 1):
        log = broker.partition("orders", index).log
        assert log.last_stable_offset == 2
    read = await talk.fetch("orders", 0, isolation_level=1)
    aborted = [(each.producer_id, each.first_offset) for each in read.aborted_transactions or ()]
    assert aborted == ([] if commit else [(PRODUCER, 0)])


@pytest.mark.invariant("T8")
async def test_markers_that_are_refused(broker: QuietBroker) -> None:
    await broker.create("orders")
    Coordinator(broker)
    talk = broker.talk()
    await produce(talk, transactional(epoch=4))
    assert await end(talk, TopicPartition("nowhere", 0), PLACE, TopicPartition("orders", 9), epoch=3) == [
        E.UNKNOWN_TOPIC_OR_PARTITION, E.INVALID_PRODUCER_EPOCH, E.UNKNOWN_TOPIC_OR_PARTITION,
    ]  # fmt: skip
    assert await end(talk, PLACE, epoch=4, version=2) == [E.INVALID_PRODUCER_EPOCH]
    assert await end(talk, PLACE, epoch=5, version=2, coordinator_epoch=6) == [E.NONE]
    assert await end(talk, PLACE, epoch=5, version=2, coordinator_epoch=6) == [E.NONE], "once more"
    assert await end(talk, PLACE, epoch=6, version=2, coordinator_epoch=5) == [E.TRANSACTION_COORDINATOR_FENCED]
    topic = broker.cluster.image.topic("orders")
    assert topic is not None
    broker.cluster.commit([PartitionChangeRecord(topic.id, 0, leader=-1, isr=(NODE_ID,))])
    assert await end(talk, PLACE, epoch=6) == [E.NOT_LEADER_OR_FOLLOWER]


async def test_no_markers_are_answered_at_once(broker: QuietBroker) -> None:
    assert (await broker.talk().ask(WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest(markers=[]))).markers == []


@pytest.mark.invariant("T3", "T8")
async def test_a_marker_is_answered_when_it_is_committed(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create("orders")
    partition, talk = broker.partition("orders"), broker.talk()
    monkeypatch.setattr(partition.log, "advance_high_watermark", lambda offset: False)
    talk.send(WRITE_TXN_MARKERS, 2, marker_request(PLACE))
    assert talk.receive() == []
    monkeypatch.undo()
    partition.log.advance_high_watermark(1)
    broker.waiters.wake(partition)
    (answer,) = await talk.receive_some(1)
    assert codes_of(answer) == [E.NONE]


@pytest.mark.invariant("T8")
async def test_a_marker_that_is_not_committed_in_time_may_be_sent_again(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create("orders")
    partition, talk = broker.partition("orders"), broker.talk()
    monkeypatch.setattr(partition.log, "advance_high_watermark", lambda offset: False)
    talk.send(WRITE_TXN_MARKERS, 2, marker_request(PLACE))
    assert talk.receive() == []
    broker.advance(31)
    (answer,) = await talk.receive_some(1)
    assert codes_of(answer) == [E.REQUEST_TIMED_OUT]


@pytest.mark.invariant("T8")
async def test_a_slow_partition_does_not_use_up_the_patience_of_who_sends_markers(
    broker: QuietBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that gives up first loses the answers for all other partitions, too."""
    await broker.create("orders", 2)
    slow, talk = broker.partition("orders", 1), broker.talk()
    monkeypatch.setattr(slow.log, "advance_high_watermark", lambda offset: False)
    talk.send(WRITE_TXN_MARKERS, 2, marker_request(PLACE, TopicPartition("orders", 1)))
    assert talk.receive() == []
    broker.advance(broker.settings[node.REQUEST_TIMEOUT_MS] / 2000)
    (answer,) = await talk.receive_some(1)
    assert codes_of(answer) == [E.NONE, E.REQUEST_TIMED_OUT]


# --- offsets --------------------------------------------------------------------------------


def commit_request(
    offset: int = 20, *, member: str = "", generation: int = -1, group: str = GROUP
) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=group,
        producer_id=PRODUCER,
        producer_epoch=0,
        generation_id=generation,
        member_id=member,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


async def ask(broker: OneBroker, api: Any, version: int, sent: Any) -> Any:
    return await broker.verification._peers.ask(
        ("127.0.0.1", broker.port), api, sent, timeout_s=10, at_most=version
    )


async def commits(broker: OneBroker, version: int = 3, **options: Any) -> ErrorCode:
    answer = await ask(broker, TXN_OFFSET_COMMIT, version, commit_request(**options))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def fetched(broker: OneBroker, *, stable: bool = True) -> tuple[int, ErrorCode]:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=stable
    )
    answer = await ask(broker, OFFSET_FETCH, 9, asked)
    (found,) = answer.groups[0].topics[0].partitions
    return found.committed_offset, ErrorCode(found.error_code)


@pytest.mark.invariant("T13")
@pytest.mark.parametrize("replaced", [True, False])
async def test_stable_offsets_come_from_the_coordinator_in_charge(
    monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """One that is cut off does not know that another has newer ones; but it cannot commit anything."""
    monkeypatch.setattr(offset_fetch, "CONFIRMED_WITHIN_S", 60 if replaced else 0.05)
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        shard.run_for(GROUP, step(offset_record(42))[0])
        assert await fetched(broker) == (42, E.NONE)
        end = shard.partition.log.end_offset
        monkeypatch.setattr(shard.partition.log, "advance_high_watermark", lambda offset: False)
        assert await fetched(broker, stable=False) == (42, E.NONE)
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        asked = asyncio.create_task(ask(broker, OFFSET_FETCH, 9, request))
        await until(lambda: shard.partition.log.end_offset > end)
        assert not asked.done()
        if replaced:
            lead(broker, shard.partition.index, -1)
        assert (await asked).groups[0].error_code == E.NOT_COORDINATOR


async def test_offsets_can_be_read_while_too_few_replicas_are_in_sync() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        shard = await loaded(broker)
        shard.run_for(GROUP, step(offset_record(42))[0])
        too_few_in_sync(broker, shard.partition, too_few=True)
        assert await fetched(broker) == (42, E.NONE)


@pytest.mark.row(137)
@pytest.mark.invariant("T13")
@pytest.mark.parametrize("version", range(6))
async def test_8_offsets_become_visible_with_the_marker(version: int) -> None:
    async with running_broker(config=ONE) as broker:
        coordinator = Coordinator(broker)
        await with_topic(broker)
        shard = await loaded(broker)
        assert await commits(broker, version) is E.NONE
        place = shard.partition.topic_partition
        assert coordinator.asked == [(Transaction(ID, PRODUCER, 0, version >= 5), [place])]
        assert await fetched(broker) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        assert await fetched(broker, stable=False) == (-1, E.NONE)
        assert await commits(broker, version, offset=21) is E.NONE
        assert len(coordinator.asked) == 1, "the transaction is open here"
        answer = await ask(broker, WRITE_TXN_MARKERS, 2, marker_request(place))
        assert codes_of(answer) == [E.NONE]
        assert await fetched(broker) == (21, E.NONE), "KAFKA-17507: whoever asks after the answer sees them"


@pytest.mark.row(137)
@pytest.mark.parametrize("version", [4, 5])
async def test_verification_of_offsets_can_be_switched_off_and_adding_cannot(version: int) -> None:
    async with running_broker(config=ONE) as broker:
        coordinator = Coordinator(broker)
        broker.verification.enabled = False
        await with_topic(broker)
        await loaded(broker)
        assert await commits(broker, version) is E.NONE
        assert len(coordinator.asked) == (1 if version >= 5 else 0)


@pytest.mark.invariant("T11", "T13")
async def test_offsets_that_the_coordinator_does_not_confirm() -> None:
    async with running_broker(config=ONE) as broker:
        coordinator = Coordinator(broker)
        await with_topic(broker)
        shard = await loaded(broker)
        for code, version, told in (
            (E.TRANSACTION_ABORTABLE, 3, E.INVALID_TXN_STATE),
            (E.TRANSACTION_ABORTABLE, 4, E.TRANSACTION_ABORTABLE),
            (E.CONCURRENT_TRANSACTIONS, 5, E.CONCURRENT_TRANSACTIONS),
            (E.NETWORK_EXCEPTION, 3, E.COORDINATOR_NOT_AVAILABLE),
            (E.NETWORK_EXCEPTION, 1, E.COORDINATOR_NOT_AVAILABLE),
            (E.PRODUCER_FENCED, 5, E.INVALID_PRODUCER_EPOCH),
        ):
            coordinator.codes = {shard.partition.topic_partition: code}
            assert await commits(broker, version) is told
        assert shard.partition.log.end_offset == 0
        assert await fetched(broker) == (-1, E.NONE)


async def test_a_question_that_breaks_is_answered() -> None:
    async with running_broker(config=ONE) as broker:
        await with_topic(broker)
        await loaded(broker)

        async def break_down(*_: object) -> Codes:
            raise ZeroDivisionError("a bug")

        broker.verification.ask = break_down  # type: ignore[method-assign,assignment]
        assert await commits(broker) is E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.invariant("T13")
async def test_offsets_are_fenced_by_the_group() -> None:
    async with running_broker(config=ONE) as broker:
        Coordinator(broker)
        await with_topic(broker)
        await loaded(broker)
        assert await commits(broker, member="m", generation=3) is E.ILLEGAL_GENERATION
        assert await commits(broker, group="") is E.INVALID_GROUP_ID


@pytest.mark.invariant("T11", "T13")
async def test_a_shard_that_is_loaded_anew_takes_no_old_answer() -> None:
    async with running_broker(config=ONE) as broker:
        coordinator = Coordinator(broker)
        await with_topic(broker)
        shard = await loaded(broker)
        coordinator.let.clear()
        asked = asyncio.create_task(commits(broker))
        await until(lambda: bool(coordinator.asked))
        topic = broker.cluster.image.topic("__consumer_offsets")
        assert topic is not None
        for leader in (-1, NODE_ID):
            broker.cluster.commit(
                [PartitionChangeRecord(topic.id, shard.partition.index, leader=leader, isr=(NODE_ID,))]
            )
        again = await loaded(broker)
        assert again is not shard
        coordinator.let.set()
        assert await asked is E.NOT_COORDINATOR
        assert again.partition.log.end_offset == 0


@pytest.mark.invariant("T8", "T13")
async def test_markers_for_groups_that_are_loaded_elsewhere() -> None:
    async with running_broker(config=ONE) as broker:
        Coordinator(broker)
        await with_topic(broker)
        shard = await loaded(broker)
        place = shard.partition.topic_partition
        topic = broker.cluster.image.topic("__consumer_offsets")
        assert topic is not None
        change = PartitionChangeRecord(topic.id, place.partition, leader=-1, isr=(NODE_ID,))
        broker.cluster.commit([change])
        unknown = TopicPartition(place.topic, 99)
        answer = await ask(broker, WRITE_TXN_MARKERS, 2, marker_request(place, unknown))
        assert codes_of(answer) == [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION]
