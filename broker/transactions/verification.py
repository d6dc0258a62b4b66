"""Asks transaction coordinators whether a producer's transaction includes a partition, before its first batch is
written there, or has them add it (KIP-890).

Questions for one coordinator are merged into one request, of which one at a time is under way. A question that is not
answered is never taken for a yes: the batch is refused with an error after which the client sends it again.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rookery.broker.coordination.internal_topic import partition_for
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.request_metrics import QUANTILES, Times
from rookery.broker.transactions.unreachable import Unreachable
from rookery.core.errors import ErrorCode, KafkaError, error_for
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Endpoint
from rookery.core.metrics import Metrics
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.peers import Peers
from rookery.core.service import Service
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from rookery.core.wire.primitives import WireError

_log = get_logger("broker.transactions")
METRICS = "kafka_server_addpartitionstotxnmanager"
STATE_TOPIC = "__transaction_state"
BROKERS_FROM = 4
"""The first version of AddPartitionsToTxn that takes several transactions, and questions."""
TIMEOUT_S = 5.0
TRANSACTIONS_MAX = 500
"""In one request; the others wait for the next."""
WAITING_MAX = 10_000
"""Questions that wait for one coordinator."""

_E = ErrorCode
Codes = Mapping[TopicPartition, ErrorCode]
"""Partitions that may not be written to, with the reason."""

_LIKE_A_LACK_OF_REPLICAS = {
    _E.NETWORK_EXCEPTION: _E.NOT_ENOUGH_REPLICAS,
    _E.COORDINATOR_LOAD_IN_PROGRESS: _E.NOT_ENOUGH_REPLICAS,
    _E.COORDINATOR_NOT_AVAILABLE: _E.NOT_ENOUGH_REPLICAS,
    _E.NOT_COORDINATOR: _E.NOT_ENOUGH_REPLICAS,
    _E.UNKNOWN_SERVER_ERROR: _E.NOT_ENOUGH_REPLICAS,
}
"""Producers send such a batch again without looking for another leader: this one is right."""
_COMMON = {_E.PRODUCER_FENCED: _E.INVALID_PRODUCER_EPOCH}
_OLD = {_E.TRANSACTION_ABORTABLE: _E.INVALID_TXN_STATE}
ABORTABLE_PRODUCE_FROM, ADDING_PRODUCE_FROM = 11, 12
ABORTABLE_COMMIT_FROM, ADDING_COMMIT_FROM = 4, 5


def producer_error(code: ErrorCode, version: int) -> KafkaError:
    """The error that a Produce request of this version gets for a coordinator's refusal."""
    known = _COMMON | _LIKE_A_LACK_OF_REPLICAS | (_OLD if version < ABORTABLE_PRODUCE_FROM else {})
    if version < ADDING_PRODUCE_FROM:
        known[_E.CONCURRENT_TRANSACTIONS] = _E.NOT_ENOUGH_REPLICAS
    return _refusal(known.get(code, code), code)


def committer_error(code: ErrorCode, version: int) -> KafkaError:
    """The error that a TxnOffsetCommit request of this version gets for it."""
    known = _COMMON | (_OLD if version < ABORTABLE_COMMIT_FROM else {})
    known[_E.NETWORK_EXCEPTION] = _E.COORDINATOR_NOT_AVAILABLE
    return _refusal(known.get(code, code), code)


def _refusal(code: ErrorCode, said: ErrorCode) -> KafkaError:
    return error_for(code, f"the transaction's coordinator did not confirm the partition: {said.name}")


class Transaction(NamedTuple):
    """Who asks, and whether the coordinator is to `add` the partitions or only to look for them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    add: bool


def _is_older(one: Transaction, other: Transaction) -> bool:
    """By the epochs of one producer id. A producer that has used them up continues with another id, from epoch 0."""
    return one.producer_id == other.producer_id and one.producer_epoch < other.producer_epoch


class _Question:
    __slots__ = ("answer", "partitions", "transaction")

    def __init__(self, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        self.transaction = transaction
        self.partitions = frozenset(partitions)
        self.answer: asyncio.Future[Codes] = asyncio.get_running_loop().create_future()

    def refuse(self, code: ErrorCode) -> None:
        self.settle(dict.fromkeys(self.partitions, code))

    def settle(self, codes: Codes) -> None:
        if not self.answer.done():
            self.answer.set_result(codes)


class _Queue:
    """Questions for one coordinator that wait until the request under way is answered, by transactional id. Those of
    one id are of one transaction and ask for different partitions."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[_Question]] = {}
        self.sender: asyncio.Task[None] | None = None

    def put(self, question: _Question) -> None:
        transaction = question.transaction
        before = self.waiting.get(transaction.transactional_id, [])
        if before and _is_older(transaction, before[0].transaction):
            question.refuse(_E.INVALID_PRODUCER_EPOCH)
            return
        kept = []
        for each in before:
            if _is_older(each.transaction, transaction):
                each.refuse(_E.INVALID_PRODUCER_EPOCH)
            elif each.transaction != transaction or each.partitions & question.partitions:
                each.refuse(_E.NETWORK_EXCEPTION)  # most likely its client has given up and asks again
            else:
                kept.append(each)
        if len(self.waiting) >= WAITING_MAX and transaction.transactional_id not in self.waiting:
            question.refuse(_E.COORDINATOR_NOT_AVAILABLE)
            return
        self.waiting[transaction.transactional_id] = [*kept, question]

    def take(self) -> list[list[_Question]]:
        ids = list(self.waiting)[:TRANSACTIONS_MAX]
        return [self.waiting.pop(id) for id in ids]

    def forget(self, question: _Question) -> None:
        """Its answer is no longer waited for."""
        id = question.transaction.transactional_id
        left = [each for each in self.waiting.get(id, ()) if each is not question]
        if left:
            self.waiting[id] = left
        else:
            self.waiting.pop(id, None)


class Verification(Service):
    """`listener` is where brokers reach each other."""

    name = "transaction verification"

    def __init__(
        self,
        cluster: ClusterPort,
        peers: Peers,
        *,
        listener: str,
        enabled: bool = True,
        retry_ms: int = 20,
        retry_ms_max: int = 100,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.enabled = enabled
        """`transaction.partition.verification.enable`"""
        self._cluster = cluster
        self._peers = peers
        self._listener = listener
        self._retry_s = retry_ms / 1000
        self._retry_s_max = retry_ms_max / 1000
        self._timeout_s = timeout_s
        self._queues: dict[int, _Queue] = {}
        self._unreachable = Unreachable()
        self.failures = 0
        """Partitions that were not confirmed."""
        self._times = Times()

    def publish(self, metrics: Metrics) -> None:
        metrics.read_value(
            f"{METRICS}_verificationfailurerate",
            "Partitions that a transaction coordinator did not confirm.",
            lambda: self.failures,
            kind="counter",
        )
        name = f"{METRICS}_verificationtimems"
        text = "How long a coordinator took to confirm partitions, in milliseconds."
        metrics.read(
            name,
            text,
            lambda: [((str(share),), self._times.quantile_ms(share)) for share in QUANTILES],
            labels=("quantile",),
        )
        metrics.read_value(f"{name}_count", f"{text} Questions measured.", lambda: self._times.count)

    async def stop(self) -> None:
        for queue in self._queues.values():
            if queue.sender is not None:
                queue.sender.cancel()
        self._peers.close()

    async def ask(self, transaction: Transaction, partitions: Sequence[TopicPartition]) -> Codes:
        """The partitions that may not be written to, in the coordinator's codes; none of them if all may. A coordinator
        that is still ending the transaction before is asked again for a short while, where it is to add them."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._retry_s_max
        while True:
            codes = await self._ask_once(transaction, partitions)
            again = transaction.add and _E.CONCURRENT_TRANSACTIONS in codes.values()
            if not again or clock() + self._retry_s > until:
                self.failures += len(codes)
                return codes
            await asyncio.sleep(self._retry_s)

    async def _ask_once(self, transaction: Transaction, partitions: Sequence[TopicPartition]) -> Codes:
        broker = self._coordinator(transaction.transactional_id)
        if broker is None:
            return dict.fromkeys(partitions, _E.COORDINATOR_NOT_AVAILABLE)
        question = _Question(transaction, partitions)
        queue = self._queues.setdefault(broker, _Queue())
        queue.put(question)
        if queue.sender is None:
            task = self._send_all(broker, queue)
            queue.sender = asyncio.get_running_loop().create_task(task, name=f"questions to broker {broker}")
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(2 * self._timeout_s):
                return await question.answer
        except TimeoutError:
            return dict.fromkeys(partitions, _E.NETWORK_EXCEPTION)
        finally:
            self._times.add(clock() - began)
            queue.forget(question)

    def _coordinator(self, transactional_id: str) -> int | None:
        """The broker in charge; None where there is none at the moment."""
        image = self._cluster.image
        topic = image.topic(STATE_TOPIC)
        if topic is None or not topic.partitions:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return None if self._endpoint(leader) is None else leader

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        broker = self._cluster.image.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.endpoint(self._listener)

    async def _send_all(self, broker: int, queue: _Queue) -> None:
        """Until nothing waits for this coordinator any more."""
        try:
            while queue.waiting:
                await self._send(broker, queue.take())
        finally:
            queue.sender = None
            for questions in queue.waiting.values():
                _refuse(questions, _E.NETWORK_EXCEPTION)
            queue.waiting.clear()

    async def _send(self, broker: int, asked: list[list[_Question]]) -> None:
        questions = [question for each in asked for question in each]
        endpoint = self._endpoint(broker)
        if endpoint is None:
            _refuse(questions, _E.COORDINATOR_NOT_AVAILABLE)
            return
        try:
            answer = await self._peers.ask(
                (endpoint.host, endpoint.port),
                ADD_PARTITIONS_TO_TXN,
                AddPartitionsToTxnRequest(transactions=[_transaction(each) for each in asked]),
                timeout_s=self._timeout_s,
                at_least=BROKERS_FROM,
            )
        except (OSError, ConnectionLostError, KafkaError, WireError) as error:
            if self._unreachable.is_news(broker, asyncio.get_running_loop().time()):
                _log.warning(
                    "transaction.verification.failed", coordinator=broker, transactions=len(asked), reason=str(error)
                )
            _refuse(questions, _E.NETWORK_EXCEPTION)
            return
        except BaseException:
            _refuse(questions, _E.NETWORK_EXCEPTION)
            raise
        self._unreachable.answered(broker)
        _settle(questions, answer)


def _transaction(questions: Sequence[_Question]) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for question in questions:
        for topic, index in sorted(question.partitions):
            topics.setdefault(topic, []).append(index)
    transactional_id, producer_id, producer_epoch, add = questions[0].transaction
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=not add,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _settle(questions: Iterable[_Question], answer: AddPartitionsToTxnResponse) -> None:
    if answer.error_code != _E.NONE:
        refused = answer.error_code == _E.CLUSTER_AUTHORIZATION_FAILED
        _refuse(questions, _E.INVALID_TXN_STATE if refused else error_for(answer.error_code).code)
        return
    said = {
        (transaction.transactional_id, TopicPartition(topic.name, each.partition_index)): each.partition_error_code
        for transaction in answer.results_by_transaction
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }
    for question in questions:
        id = question.transaction.transactional_id
        codes = {each: said.get((id, each), _E.NETWORK_EXCEPTION) for each in sorted(question.partitions)}
        question.settle({each: error_for(code).code for each, code in codes.items() if code != _E.NONE})


def _refuse(questions: Iterable[_Question], code: ErrorCode) -> None:
    for question in questions:
        question.refuse(code)
