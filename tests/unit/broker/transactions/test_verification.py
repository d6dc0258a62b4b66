"""Questions to transaction coordinators: how they are merged, and what producers and groups are told of the answers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rookery.broker.coordination.internal_topic import partition_for
from rookery.broker.transactions import unreachable
from rookery.broker.transactions.verification import (
    STATE_TOPIC,
    Codes,
    Transaction,
    Verification,
    committer_error,
    producer_error,
)
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import CreateTopicsRequest, NewTopic
from rookery.core.metrics import Metrics
from rookery.core.net.connection import ConnectionLostError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tests.unit.broker.one_broker import LISTENER, OneBroker
from tests.unit.broker.waiting import until

E = ErrorCode
A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Coordinator:
    """Answers when it is let, with `codes` or nothing."""

    def __init__(self) -> None:
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.versions: list[int] = []
        self.codes: dict[TopicPartition, ErrorCode] = {}
        self.top_level = E.NONE
        self.failure: Exception | None = None
        self.leave_out = False
        self.let = asyncio.Event()
        self.let.set()

    async def ask(
        self, address: Any, api: Any, request: AddPartitionsToTxnRequest, *, timeout_s: float, at_least: int
    ) -> AddPartitionsToTxnResponse:
        self.asked.append(request)
        self.versions.append(at_least)
        async with asyncio.timeout(timeout_s):
            await self.let.wait()
        if self.failure is not None:
            raise self.failure
        results = [] if self.leave_out else [self._result(each) for each in request.transactions]
        return AddPartitionsToTxnResponse(error_code=self.top_level, results_by_transaction=results)

    def _result(self, transaction: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
        return AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index,
                            partition_error_code=self.codes.get(TopicPartition(topic.name, index), E.NONE),
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ],
        )

    def close(self) -> None:
        pass


class Rig:
    def __init__(self, broker: OneBroker, **options: Any) -> None:
        self.broker = broker
        self.coordinator = Coordinator()
        self.verification = Verification(
            broker.cluster, self.coordinator, listener=LISTENER, **options  # type: ignore[arg-type]
        )

    def ask(
        self, *partitions: TopicPartition, id: str = "x", epoch: int = 0, add: bool = False
    ) -> "asyncio.Task[Codes]":
        transaction = Transaction(id, 7, epoch, add)
        return asyncio.create_task(self.verification.ask(transaction, partitions))

    async def under_way(self) -> "asyncio.Task[Codes]":
        """One request that is not answered before `let`: what is asked now waits behind it."""
        self.coordinator.let.clear()
        first = self.ask(C, id="first")
        await until(lambda: bool(self.coordinator.asked))
        return first


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    broker = OneBroker()
    broker.register(9092)
    await broker.cluster.ask(CreateTopicsRequest((NewTopic(STATE_TOPIC, 5, 1),)))
    made = Rig(broker, retry_ms=1, retry_ms_max=4)
    yield made
    await made.verification.stop()
    await broker.stop()


async def test_a_question_names_its_transaction_and_partitions(rig: Rig) -> None:
    rig.coordinator.codes = {B: E.TRANSACTION_ABORTABLE}
    assert await rig.ask(A, B, C, epoch=3) == {B: E.TRANSACTION_ABORTABLE}
    (asked,) = rig.coordinator.asked[0].transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("x", 7, 3)
    assert asked.verify_only
    assert [(topic.name, list(topic.partitions)) for topic in asked.topics] == [("t", [0, 1]), ("u", [0])]
    assert rig.coordinator.versions == [4], "older versions know neither questions nor several transactions"
    await rig.ask(A, add=True)
    assert not rig.coordinator.asked[1].transactions[0].verify_only
    assert rig.verification.failures == 1


async def test_the_time_of_questions_is_measured(rig: Rig) -> None:
    metrics = Metrics()
    rig.verification.publish(metrics)
    time = "kafka_server_addpartitionstotxnmanager_verificationtimems"
    assert metrics.value(time, {"quantile": "0.99"}) == 0
    slow = await rig.under_way()
    await asyncio.sleep(0.02)
    rig.coordinator.let.set()
    await slow
    assert metrics.value(f"{time}_count") == 1
    assert 20 <= (metrics.value(time, {"quantile": "0.99"}) or 0) < 10_000


async def test_questions_are_merged_while_one_request_is_under_way(rig: Rig) -> None:
    first = await rig.under_way()
    others = [rig.ask(A, id=f"id-{n}") for n in range(5)]
    await asyncio.sleep(0)
    rig.coordinator.let.set()
    assert await asyncio.gather(first, *others) == [{}] * 6
    assert [len(request.transactions) for request in rig.coordinator.asked] == [1, 5]


async def test_two_parts_of_one_transaction_are_asked_for_together(rig: Rig) -> None:
    first = await rig.under_way()
    one, other = rig.ask(A), rig.ask(B)
    await asyncio.sleep(0)
    rig.coordinator.codes = {B: E.TRANSACTION_ABORTABLE}
    rig.coordinator.let.set()
    assert list(await asyncio.gather(first, one, other)) == [{}, {}, {B: E.TRANSACTION_ABORTABLE}]
    assert len(rig.coordinator.asked) == 2


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        pytest.param((1, 1), [E.NETWORK_EXCEPTION, None], id="asked again"),
        pytest.param((1, 2), [E.INVALID_PRODUCER_EPOCH, None], id="a newer epoch"),
        pytest.param((2, 1), [None, E.INVALID_PRODUCER_EPOCH], id="an older epoch"),
    ],
)
async def test_a_second_question_for_the_same_partition(
    rig: Rig, epochs: tuple[int, int], expected: list[ErrorCode | None]
) -> None:
    first = await rig.under_way()
    both = [rig.ask(A, epoch=epoch) for epoch in epochs]
    await asyncio.sleep(0)
    rig.coordinator.let.set()
    await first
    assert [(await each).get(A) for each in both] == expected


async def test_epochs_of_two_producer_ids_are_not_compared(rig: Rig) -> None:
    """A producer whose epochs are used up goes on with a new id, from epoch 0."""
    first = await rig.under_way()
    late = rig.ask(A, epoch=32766)
    transaction = Transaction("x", 8, 0, True)
    goes_on = asyncio.create_task(rig.verification.ask(transaction, [A]))
    await asyncio.sleep(0)
    rig.coordinator.let.set()
    await first
    assert (await late, await goes_on) == ({A: E.NETWORK_EXCEPTION}, {})


async def test_looking_and_adding_are_not_mixed(rig: Rig) -> None:
    first = await rig.under_way()
    looks, adds = rig.ask(A), rig.ask(B, add=True)
    await asyncio.sleep(0)
    rig.coordinator.let.set()
    await first
    assert await looks == {A: E.NETWORK_EXCEPTION}
    assert await adds == {}


async def test_the_coordinator_is_the_leader_of_the_ids_partition(rig: Rig) -> None:
    image = rig.broker.cluster.image
    topic = image.topic(STATE_TOPIC)
    assert topic is not None
    assert topic.partitions[partition_for("x", 5)].leader == rig.broker.cluster.node_id
    nowhere = OneBroker()
    other = Rig(nowhere)
    assert await other.ask(A) == {A: E.COORDINATOR_NOT_AVAILABLE}, "there is no such topic"
    assert other.coordinator.asked == []
    await nowhere.stop()


@pytest.mark.parametrize(
    "failure", [ConnectionLostError("gone"), ConnectionRefusedError("no"), TimeoutError("late")]
)
async def test_no_answer_is_never_a_yes(rig: Rig, failure: Exception) -> None:
    rig.coordinator.failure = failure
    assert await rig.ask(A) == {A: E.NETWORK_EXCEPTION}
    rig.coordinator.failure = None
    rig.coordinator.leave_out = True
    assert await rig.ask(A) == {A: E.NETWORK_EXCEPTION}
    rig.coordinator.leave_out = False
    assert await rig.ask(A) == {}, "and the next question is asked"


async def test_a_coordinator_that_cannot_be_asked_is_logged_once_in_a_while(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producers ask again several times a second, each of them."""

    async def logged(times: int) -> list[str]:
        caplog.clear()
        for _ in range(times):
            await rig.ask(A)
        return [record.getMessage().split()[0] for record in caplog.records]

    failed, refused = "transaction.verification.failed", ConnectionRefusedError("no")
    rig.coordinator.failure = refused
    assert await logged(times=20) == [failed]
    rig.coordinator.failure = None
    assert await logged(times=2) == []
    rig.coordinator.failure = refused
    monkeypatch.setattr(unreachable, "REPORT_AGAIN_S", 0.0)
    assert await logged(times=3) == [failed, failed, failed], "it has answered, then the time between reports is over"


async def test_a_coordinator_that_stays_silent_is_given_up(rig: Rig) -> None:
    slow = Rig(rig.broker, timeout_s=0.01)
    slow.coordinator.let.clear()
    assert await slow.ask(A) == {A: E.NETWORK_EXCEPTION}


async def test_who_stops_answers_everybody(rig: Rig) -> None:
    first = await rig.under_way()
    second = rig.ask(A)
    await asyncio.sleep(0)
    await rig.verification.stop()
    assert await first == {C: E.NETWORK_EXCEPTION}
    assert await second == {A: E.NETWORK_EXCEPTION}


async def test_a_broker_without_rights_learns_that_the_transaction_is_not_open(rig: Rig) -> None:
    rig.coordinator.top_level = E.CLUSTER_AUTHORIZATION_FAILED
    assert await rig.ask(A) == {A: E.INVALID_TXN_STATE}
    rig.coordinator.top_level = E.COORDINATOR_LOAD_IN_PROGRESS
    assert await rig.ask(A) == {A: E.COORDINATOR_LOAD_IN_PROGRESS}


async def test_adding_is_tried_again_while_the_transaction_before_is_ending(rig: Rig) -> None:
    rig.coordinator.codes = {A: E.CONCURRENT_TRANSACTIONS}
    assert await rig.ask(A) == {A: E.CONCURRENT_TRANSACTIONS}
    assert len(rig.coordinator.asked) == 1, "a look is not repeated"
    assert await rig.ask(A, add=True) == {A: E.CONCURRENT_TRANSACTIONS}
    assert len(rig.coordinator.asked) > 2
    before = len(rig.coordinator.asked)
    patient = Rig(rig.broker, retry_ms=1, retry_ms_max=60_000)
    patient.coordinator.codes = {A: E.CONCURRENT_TRANSACTIONS}
    asked = patient.ask(A, add=True)
    await until(lambda: len(patient.coordinator.asked) > 1)
    patient.coordinator.codes = {}
    assert await asked == {}
    assert len(rig.coordinator.asked) == before


# --- what clients are told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "looking", "abortable", "adding"),
    [
        (E.PRODUCER_FENCED, *[E.INVALID_PRODUCER_EPOCH] * 3),
        (E.INVALID_PRODUCER_ID_MAPPING, *[E.INVALID_PRODUCER_ID_MAPPING] * 3),
        (E.INVALID_PRODUCER_EPOCH, *[E.INVALID_PRODUCER_EPOCH] * 3),
        (E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE),
        (E.NETWORK_EXCEPTION, *[E.NOT_ENOUGH_REPLICAS] * 3),
        (E.COORDINATOR_LOAD_IN_PROGRESS, *[E.NOT_ENOUGH_REPLICAS] * 3),
        (E.COORDINATOR_NOT_AVAILABLE, *[E.NOT_ENOUGH_REPLICAS] * 3),
        (E.NOT_COORDINATOR, *[E.NOT_ENOUGH_REPLICAS] * 3),
        (E.CONCURRENT_TRANSACTIONS, E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS),
        (E.INVALID_TXN_STATE, *[E.INVALID_TXN_STATE] * 3),
        (E.UNKNOWN_SERVER_ERROR, *[E.NOT_ENOUGH_REPLICAS] * 3),
    ],
)
@pytest.mark.invariant("T4")
def test_what_a_producer_is_answered(
    said: ErrorCode, looking: ErrorCode, abortable: ErrorCode, adding: ErrorCode
) -> None:
    assert [producer_error(said, version).code for version in (3, 10)] == [looking] * 2
    assert producer_error(said, 11).code is abortable
    assert [producer_error(said, version).code for version in (12, 13)] == [adding] * 2


@pytest.mark.parametrize(
    ("said", "old", "new"),
    [
        (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
        (E.TRANSACTION_ABORTABLE, E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE),
        (E.NETWORK_EXCEPTION, E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_NOT_AVAILABLE),
        (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
        (E.NOT_COORDINATOR, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        (E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_a_consumer_in_a_transaction_is_answered(said: ErrorCode, old: ErrorCode, new: ErrorCode) -> None:
    assert [committer_error(said, version).code for version in (0, 3)] == [old] * 2
    assert [committer_error(said, version).code for version in (4, 5)] == [new] * 2
