"""The coordinator on a broker: requests over a socket, loading, markers, time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from rookery.broker.coordination.internal_topic import partition_for
from rookery.broker.handlers import transactions as handlers
from rookery.broker.replication.partition import Partition
from rookery.broker.transactions import coordinator
from rookery.broker.transactions.coordinator import TransactionShard
from rookery.broker.transactions.records import TransactionRecord
from rookery.broker.transactions.transaction import Producer, State, Transaction
from rookery.core.errors import ErrorCode, KafkaError, MessageTooLargeError, NotEnoughReplicasError
from rookery.core.metadata.records import PartitionChangeRecord
from rookery.core.metadata.requests import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicReference
from rookery.core.net.connection import Connection
from rookery.core.wire.api import Api
from rookery.core.wire.apis.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from rookery.core.wire.apis.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from rookery.core.wire.apis.describe_transactions import DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest
from rookery.core.wire.apis.end_txn import END_TXN, EndTxnRequest
from rookery.core.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.list_transactions import LIST_TRANSACTIONS, ListTransactionsRequest
from rookery.core.wire.apis.produce import PRODUCE
from tests.unit.broker.one_broker import NODE_ID, OneBroker, running_broker
from tests.unit.broker.talk import batch_of, produce_request
from tests.unit.broker.waiting import until

E = ErrorCode
ID = "payments"
NO_PRODUCER = Producer(-1, -1)
TOPIC = "__transaction_state"
CONFIG = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
}


class Wire:
    """A producer that says which version it speaks."""

    def __init__(self, broker: OneBroker, connection: Connection) -> None:
        self.broker = broker
        self._connection = connection

    async def ask(self, api: Api[Any, Any], version: int, request: Any) -> Any:
        return await self._connection.request(api, version, request, 10)

    async def init(self, version: int = 5, name: str = ID, expected: Producer = NO_PRODUCER) -> Any:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=60_000, producer_id=expected.id, producer_epoch=expected.epoch
        )
        answer = await self.ask(INIT_PRODUCER_ID, version, request)
        return answer.error_code or Producer(answer.producer_id, answer.producer_epoch)

    async def add(self, version: int, producer: Producer, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer.id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=_topics(partitions),
        )
        answer = await self.ask(ADD_PARTITIONS_TO_TXN, version, request)
        return _codes(answer.results_by_topic_v3_and_below)

    async def asked_by_broker(
        self, producer: Producer, *partitions: tuple[str, int], verify: bool = True, name: str = ID
    ) -> dict[tuple[str, int], int]:
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=each,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    verify_only=verify,
                    topics=_topics(partitions),
                )
                for each in (name, "nobody")
            ]
        )
        answer = await self.ask(ADD_PARTITIONS_TO_TXN, 5, request)
        of_id, of_nobody = answer.results_by_transaction
        assert (of_id.transactional_id, of_nobody.transactional_id) == (name, "nobody")
        unknown = {E.INVALID_PRODUCER_ID_MAPPING, E.COORDINATOR_LOAD_IN_PROGRESS}
        assert set(_codes(of_nobody.topic_results).values()) <= unknown
        return _codes(of_id.topic_results)

    async def end(self, version: int, producer: Producer, commit: bool = True) -> Any:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=producer.id, producer_epoch=producer.epoch, committed=commit
        )
        answer = await self.ask(END_TXN, version, request)
        return answer.error_code or Producer(answer.producer_id, answer.producer_epoch)

    @property
    def shard(self) -> TransactionShard | None:
        try:
            return self.broker.transactions.shard_of(ID)
        except KafkaError:
            return None

    @property
    def one(self) -> Transaction:
        assert self.shard is not None
        return self.shard.transactions.transactions[ID]

    async def until_state(self, state: State) -> None:
        await until(lambda: self.shard is not None and self.one.state is state)

    def lead(self, leader: int) -> None:
        topic = self.broker.cluster.image.topic(TOPIC)
        assert topic is not None
        for index, before in topic.partitions.items():
            self.broker.cluster.commit([PartitionChangeRecord(topic.id, index, leader=leader, isr=before.isr)])

    def lead_t(self, leader: int) -> None:
        """Who leads the partition that a transaction has written to."""
        topic = self.broker.cluster.image.topic("t")
        assert topic is not None
        self.broker.cluster.commit([PartitionChangeRecord(topic.id, 0, leader=leader, isr=topic.partitions[0].isr)])

    def one_was_updated_before(self, ms: int) -> None:
        assert self.shard is not None
        older = replace(self.one, updated_ms=self.one.updated_ms - ms)
        self.shard.transactions.replay(TransactionRecord(ID, older), 0)

    async def fail_over(self) -> None:
        """Led by nobody, then here again, in a new epoch."""
        self.lead(-1)
        assert self.shard is None
        self.lead(NODE_ID)
        await until(lambda: self.shard is not None)


def _topics(partitions: Any) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions]


def _codes(topics: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in topics
        for each in topic.results_by_partition
    }


@asynccontextmanager
async def wire(**config: str) -> AsyncIterator[Wire]:
    async with running_broker(config={**CONFIG, **config}) as broker:
        await broker.cluster.ask(CreateTopicsRequest((NewTopic("t", 2, 1),)))
        connection = await Connection.open("127.0.0.1", broker.port, client_id="unit")
        client = Wire(broker, connection)
        try:
            await client.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
            await until(lambda: len(broker.transactions.shards) == 3)
            yield client
        finally:
            connection.close()


async def test_the_topic_is_made_for_transactions() -> None:
    async with wire() as client:
        config = client.broker.cluster.image.topic_config(TOPIC)
        assert dict(config) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }
        (found,) = (
            await client.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
        ).coordinators
        assert (found.error_code, found.node_id) == (0, NODE_ID)


@pytest.mark.row(132, 133)
@pytest.mark.parametrize(("version", "commit"), [(0, True), (1, False), (4, True), (5, True), (5, False)])
async def test_a_transaction_from_its_beginning_to_its_end(version: int, commit: bool) -> None:
    async with wire() as client:
        producer = await client.init()
        assert producer.epoch == 0
        assert await client.add(min(version, 3), producer, ("t", 0), ("t", 1)) == {("t", 0): 0, ("t", 1): 0}
        go_on = await client.end(version, producer, commit)
        assert go_on == (Producer(producer.id, 1) if version == 5 else Producer(-1, -1))
        await client.until_state(State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
        ends = [client.broker.partition("t", index).log.end_offset for index in range(2)]
        assert ends == [1, 1], "one marker in each partition, and nothing else"


async def produce(client: Wire, producer: Producer, value: bytes, version: int = 12, sequence: int = 0) -> int:
    batch = batch_of(
        value,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
    )
    request = produce_request("t", batch, acks=-1)
    request.transactional_id = ID
    answer = await client.ask(PRODUCE, version, request)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.invariant("T10", "T11")
async def test_the_rules_of_version_2_from_produce_to_produce() -> None:
    """The leader adds the partition, each end raises the epoch, and what is late is refused."""
    async with wire() as client:
        first = await client.init()
        assert await produce(client, first, b"one") == 0
        assert (client.one.state, client.one.version, set(client.one.partitions)) == (State.ONGOING, 2, {("t", 0)})
        second = await client.end(5, first)
        assert second == Producer(first.id, 1)
        await client.until_state(State.COMPLETE_COMMIT)
        assert await produce(client, first, b"late", sequence=1) == E.INVALID_PRODUCER_EPOCH
        assert await produce(client, second, b"two") == 0
        assert await client.end(5, first, commit=True) == E.PRODUCER_FENCED
        third = await client.end(5, second, commit=False)
        await client.until_state(State.COMPLETE_ABORT)
        assert await client.end(5, third, commit=False) == Producer(first.id, 3), "an abort of nothing"
        log = client.broker.partition("t").log
        await until(lambda: log.last_stable_offset == 4)
        assert log.end_offset == 4, "two batches with a marker each; the abort of nothing wrote none"


async def test_old_versions_do_not_learn_of_fencing() -> None:
    async with wire() as client:
        producer = await client.init()
        old = Producer(producer.id, 7)
        for version in range(4):
            code = E.INVALID_PRODUCER_EPOCH if version < 2 else E.PRODUCER_FENCED
            assert await client.add(version, old, ("t", 0)) == {("t", 0): code}
            assert await client.end(version, old) == code
            request = AddOffsetsToTxnRequest(
                transactional_id=ID, producer_id=old.id, producer_epoch=old.epoch, group_id="g"
            )
            answer = await client.ask(ADD_OFFSETS_TO_TXN, version, request)
            if answer.error_code == E.COORDINATOR_NOT_AVAILABLE:
                await until(lambda: client.broker.cluster.image.topic("__consumer_offsets"))
                answer = await client.ask(ADD_OFFSETS_TO_TXN, version, request)
            assert answer.error_code == code
        for version in (3, 4, 5):
            code = E.INVALID_PRODUCER_EPOCH if version < 4 else E.PRODUCER_FENCED
            assert await client.init(version, expected=old) == code


async def test_partitions_are_added_all_or_none() -> None:
    async with wire() as client:
        producer = await client.init()
        assert await client.add(3, producer, ("t", 0), (TOPIC, 0), ("t", 9), ("gone", 0)) == {
            ("t", 0): E.OPERATION_NOT_ATTEMPTED,
            (TOPIC, 0): E.TOPIC_AUTHORIZATION_FAILED,
            ("t", 9): E.UNKNOWN_TOPIC_OR_PARTITION,
            ("gone", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert client.one.state is State.EMPTY


@pytest.mark.invariant("T11")
async def test_brokers_ask_for_several_transactions() -> None:
    async with wire() as client:
        producer = await client.init()
        assert await client.asked_by_broker(producer, ("t", 0)) == {("t", 0): E.TRANSACTION_ABORTABLE}
        assert await client.asked_by_broker(producer, ("t", 0), verify=False) == {("t", 0): 0}
        assert await client.asked_by_broker(producer, ("t", 0), ("t", 1)) == {
            ("t", 0): 0, ("t", 1): E.TRANSACTION_ABORTABLE,
        }  # fmt: skip
        assert client.one.version == 2
        new_topic = await client.asked_by_broker(producer, ("not heard of", 0), verify=False)
        assert new_topic == {("not heard of", 0): E.COORDINATOR_LOAD_IN_PROGRESS}


async def test_offsets_join_a_transaction() -> None:
    async with wire() as client:
        producer = await client.init()
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=producer.id, producer_epoch=producer.epoch, group_id="g"
        )
        first = await client.ask(ADD_OFFSETS_TO_TXN, 4, request)
        assert first.error_code == E.COORDINATOR_NOT_AVAILABLE, "the topic of offsets is made first"
        await until(lambda: client.broker.cluster.image.topic("__consumer_offsets"))
        assert (await client.ask(ADD_OFFSETS_TO_TXN, 4, request)).error_code == 0
        ((topic, _),) = client.one.partitions
        assert topic == "__consumer_offsets"


async def test_tools_see_transactions() -> None:
    async with wire() as client:
        producer = await client.init()
        await client.add(3, producer, ("t", 1), ("t", 0))
        answer = await client.ask(
            DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[ID, "nobody", ""])
        )
        one, unknown, unnamed = answer.transaction_states
        assert (one.transaction_state, one.producer_id, one.transaction_timeout_ms) == ("Ongoing", producer.id, 60_000)
        assert [(topic.topic, topic.partitions) for topic in one.topics] == [("t", [0, 1])]
        assert (unknown.error_code, unnamed.error_code) == (E.TRANSACTIONAL_ID_NOT_FOUND, E.INVALID_REQUEST)
        await client.init(name="other")
        for version, request, expected in (
            (0, {}, {ID, "other"}),
            (0, {"state_filters": ["Ongoing", "Nonsense"]}, {ID}),
            (0, {"producer_id_filters": [producer.id]}, {ID}),
            (1, {"duration_filter": 1_000_000, "state_filters": ["Ongoing"]}, set()),
            (2, {"transactional_id_pattern": "o.*"}, {"other"}),
            (2, {"transactional_id_pattern": "the"}, set()),
        ):
            asked: dict[str, Any] = {"state_filters": (), "producer_id_filters": (), **request}
            listed = await client.ask(LIST_TRANSACTIONS, version, ListTransactionsRequest(**asked))
            assert {each.transactional_id for each in listed.transaction_states} == expected
            unknown_states = [name for name in asked["state_filters"] if name == "Nonsense"]
            assert list(listed.unknown_state_filters) == unknown_states
        wrong = ListTransactionsRequest(state_filters=(), producer_id_filters=(), transactional_id_pattern="(")
        assert (await client.ask(LIST_TRANSACTIONS, 2, wrong)).error_code == E.INVALID_REGULAR_EXPRESSION


@pytest.mark.invariant("T11")
async def test_a_partition_that_cannot_commit_does_not_keep_the_others_answers_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker that asks would give up, and have no answer for any of its transactions."""
    monkeypatch.setattr(handlers, "BROKERS_WAIT_S", 0.05)
    async with wire() as client:
        other = next(name for name in map(str, range(10)) if partition_for(name, 3) != partition_for(ID, 3))
        producers = {name: await client.init(name=name) for name in (ID, other)}
        assert client.shard is not None
        monkeypatch.setattr(client.shard.partition.log, "advance_high_watermark", lambda offset: False)
        asked = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producer.id,
                    producer_epoch=producer.epoch,
                    verify_only=False,
                    topics=_topics([("t", 0)]),
                )
                for name, producer in producers.items()
            ]
        )
        answer = await client.ask(ADD_PARTITIONS_TO_TXN, 5, asked)
        codes = [_codes(each.topic_results)["t", 0] for each in answer.results_by_transaction]
        assert codes == [E.COORDINATOR_NOT_AVAILABLE, E.NONE]


@pytest.mark.invariant("T7")
@pytest.mark.parametrize("commit", [True, False])
async def test_10_an_open_transaction_survives_a_change_of_leaders(commit: bool) -> None:
    async with wire() as client:
        producer = await client.init()
        await client.fail_over()
        await client.add(3, producer, ("t", 0))
        await client.fail_over()
        assert client.one.state is State.ONGOING
        assert await client.end(5, producer, commit) == Producer(producer.id, 1)
        await client.fail_over()
        await client.until_state(State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


@pytest.mark.invariant("T7")
async def test_a_decision_without_markers_is_carried_out_by_the_next_coordinator() -> None:
    async with wire() as client:
        producer = await client.init()
        await client.add(3, producer, ("t", 0))
        assert client.shard is not None
        client.lead_t(-1)
        await client.end(3, producer)
        await until(lambda: client.broker.transactions.sender.leaderless)
        await client.fail_over()
        assert client.one.state is State.PREPARE_COMMIT
        assert await client.end(3, producer) == E.CONCURRENT_TRANSACTIONS
        client.lead_t(NODE_ID)
        await client.until_state(State.COMPLETE_COMMIT)
        assert client.broker.partition("t").log.end_offset == 1


@asynccontextmanager
async def ending(**config: str) -> AsyncIterator[tuple[Wire, Producer]]:
    """A transaction is decided; its partition has no leader that could write the marker."""
    async with wire(**config) as client:
        producer = await client.init()
        await client.add(3, producer, ("t", 0))
        client.lead_t(-1)
        assert await client.end(3, producer) == NO_PRODUCER
        await until(lambda: client.broker.transactions.sender.leaderless)
        yield client, producer


@pytest.mark.parametrize("asked_by", ["client", "leader", "another producer"])
async def test_the_next_transaction_waits_for_the_end_of_the_last(
    asked_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "ENDING_MS", 600_000)
    async with ending() as (client, producer):
        asks: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "client": lambda: client.add(3, producer, ("t", 1)),
            "leader": lambda: client.asked_by_broker(producer, ("t", 1), verify=False),
            "another producer": client.init,
        }
        next_one = asyncio.create_task(asks[asked_by]())
        await until(lambda: client.broker.transactions.waiting_for_end == 1)
        assert client.one.state is State.PREPARE_COMMIT
        client.lead_t(NODE_ID)
        answer = await next_one
        assert answer == (producer._replace(epoch=1) if asked_by == "another producer" else {("t", 1): E.NONE})
        assert client.broker.transactions.waiting_for_end == 0


async def test_a_repeated_end_waits_and_a_question_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "ENDING_MS", 600_000)
    async with ending() as (client, producer):
        assert await client.asked_by_broker(producer, ("t", 0)) == {("t", 0): E.CONCURRENT_TRANSACTIONS}
        again = asyncio.create_task(client.end(3, producer))
        await until(lambda: client.broker.transactions.waiting_for_end == 1)
        client.lead_t(NODE_ID)
        assert await again == NO_PRODUCER


async def test_what_takes_long_to_end_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ending() as (client, producer):
        assert await client.add(3, producer, ("t", 1)) == {("t", 1): E.CONCURRENT_TRANSACTIONS}
        client.one_was_updated_before(coordinator.ENDING_MS)
        monkeypatch.setattr(client.broker.transactions, "_wait_for_end", None)
        assert await client.add(3, producer, ("t", 1)) == {("t", 1): E.CONCURRENT_TRANSACTIONS}


async def test_who_waits_for_an_end_asks_the_next_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "ENDING_MS", 1_000)
    async with ending() as (client, producer):
        next_one = asyncio.create_task(client.add(3, producer, ("t", 1)))
        await until(lambda: client.broker.transactions.waiting_for_end == 1)
        client.lead(-1)
        assert await next_one == {("t", 1): E.NOT_COORDINATOR}


async def test_13_a_topic_is_deleted_in_the_middle() -> None:
    async with wire() as client:
        producer = await client.init()
        await client.add(3, producer, ("t", 0), ("t", 1))
        await client.broker.cluster.ask(DeleteTopicsRequest((TopicReference("t"),)))
        await client.end(3, producer)
        await client.until_state(State.COMPLETE_COMMIT)


async def test_the_topic_of_the_coordinator_is_deleted() -> None:
    """As in Kafka, all that was known of transactions is gone with it; the next client has the topic made anew."""
    async with wire() as client:
        producer = await client.init()
        await client.add(3, producer, ("t", 0))
        await client.broker.cluster.ask(DeleteTopicsRequest((TopicReference(TOPIC),)))
        assert await client.end(3, producer) == E.NOT_COORDINATOR
        await client.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
        await until(lambda: len(client.broker.transactions.shards) == 3)
        assert await client.end(3, producer) == E.INVALID_PRODUCER_ID_MAPPING
        again = await client.init()
        assert (again.id > producer.id, again.epoch) == (True, 0)


async def test_9_an_old_epoch_does_not_end_a_newer_load() -> None:
    async with wire() as client:
        producer = await client.init()
        old = client.shard
        assert old is not None
        client.lead(-1)
        client.lead(NODE_ID)
        client.lead(-1)
        client.lead(NODE_ID)
        await until(lambda: client.shard is not None)
        new = client.shard
        client.broker.transactions._shards.lost(old)
        old.close()
        assert client.shard is new
        assert await client.add(3, producer, ("t", 0)) == {("t", 0): 0}


@pytest.mark.invariant("T12")
async def test_time_ends_a_transaction() -> None:
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10"}
    async with wire(**config) as client:
        request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1)
        answer = await client.ask(INIT_PRODUCER_ID, 5, request)
        producer = Producer(answer.producer_id, answer.producer_epoch)
        await client.add(3, producer, ("t", 0))
        await client.until_state(State.COMPLETE_ABORT)
        assert await client.end(3, producer) == E.PRODUCER_FENCED


@pytest.mark.invariant("T12")
@pytest.mark.parametrize(
    ("failure", "expected"), [(NotEnoughReplicasError("too few"), 1), (MessageTooLargeError("too large"), 5)]
)
async def test_a_log_that_takes_nothing_is_not_tried_for_each_overdue_transaction(
    monkeypatch: pytest.MonkeyPatch, failure: KafkaError, expected: int
) -> None:
    """What is wrong with one record holds up no other."""
    async with wire() as client:
        names = [name for name in map(str, range(30)) if partition_for(name, 3) == partition_for(ID, 3)][:5]
        for name in names:
            await client.asked_by_broker(await client.init(name=name), ("t", 0), verify=False, name=name)
        shard, transactions = client.shard, client.broker.transactions
        assert shard is not None
        tries: list[int] = []

        def refuse(*_: Any, **__: Any) -> None:
            tries.append(1)
            raise failure

        now = transactions.now()
        monkeypatch.setattr(transactions, "now", lambda: now._replace(wall_ms=now.wall_ms + 3_600_000))
        with monkeypatch.context() as failing:
            failing.setattr(Partition, "append_own", refuse)
            await transactions.time_out_in(shard)
        assert len(tries) == expected
        states = [shard.transactions.transactions[name].state for name in names]
        assert states == [State.ONGOING] * 5
        await transactions.time_out_in(shard)
        assert State.ONGOING not in {shard.transactions.transactions[name].state for name in names}



async def test_time_makes_ids_forgotten() -> None:
    config = {
        "transaction.remove.expired.transaction.cleanup.interval.ms": "10",
        "transactional.id.expiration.ms": "1",
    }
    async with wire(**config) as client:
        producer = await client.init()
        await until(lambda: client.shard is not None and ID not in client.shard.transactions.transactions)
        assert await client.add(3, producer, ("t", 0)) == {("t", 0): E.INVALID_PRODUCER_ID_MAPPING}
        again = await client.init()
        assert (again.epoch, again.id != producer.id) == (0, True)
