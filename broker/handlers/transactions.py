"""The handlers of the transaction coordinator.

AddPartitionsToTxn (24), AddOffsetsToTxn (25) and EndTxn (26) drive one transaction; DescribeTransactions (65) and
ListTransactions (66) show them. Old versions do not know PRODUCER_FENCED and get INVALID_PRODUCER_EPOCH instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rookery.broker.coordination.internal_topic import CoordinatorFinder, InternalTopic
from rookery.broker.coordination.reply import Converted, Gather, Part, Reply
from rookery.broker.coordination.step import Receiver
from rookery.broker.groups.consumer.regex import compiled
from rookery.broker.handlers.authorize import (
    CLUSTER_ACTION,
    DESCRIBE,
    READ,
    WRITE,
    check_group,
    check_transactional_id,
    cluster_denied,
    transactional_id_denied,
)
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.access import TOPIC, TRANSACTIONAL_ID, Access
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Handler
from rookery.broker.server.pending import Pending
from rookery.broker.transactions.coordinator import TransactionCoordinator
from rookery.broker.transactions.state import Step, TransactionsState
from rookery.broker.transactions.transaction import BUMPING, Producer, State, Transaction
from rookery.core.clock import Timer
from rookery.core.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    ErrorCode,
    KafkaError,
)
from rookery.core.metadata.topic_names import INTERNAL
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.add_offsets_to_txn import (
    ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from rookery.core.wire.apis.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from rookery.core.wire.apis.describe_transactions import (
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from rookery.core.wire.apis.describe_transactions import TransactionState as DescribedTransaction
from rookery.core.wire.apis.end_txn import END_TXN, EndTxnRequest, EndTxnResponse
from rookery.core.wire.apis.list_transactions import (
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from rookery.core.wire.apis.list_transactions import TransactionState as ListedTransaction
from rookery.core.wire.served import Served

FENCED_FROM = 2
"""Older versions know no PRODUCER_FENCED."""
BROKERS_FROM = 4
"""The version of AddPartitionsToTxn from which on brokers ask, for several transactions in one request."""
BROKERS_WAIT_S = 2.0
"""For the answers to all transactions of such a request. Whoever asks gives up later, and then has none."""
BUMPING_FROM = 5
"""The version of EndTxn from which on it raises the epoch."""
_OLD = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}

Codes = Mapping[TopicPartition, ErrorCode]


def transaction_handlers(
    transactions: TransactionCoordinator,
    offsets: InternalTopic,
    offsets_finder: CoordinatorFinder,
    cluster: ClusterPort,
) -> list[Handler]:
    return [
        AddPartitionsToTxnHandler(transactions, cluster),
        AddOffsetsToTxnHandler(transactions, offsets, offsets_finder, cluster),
        EndTxnHandler(transactions),
        DescribeTransactionsHandler(transactions),
        ListTransactionsHandler(transactions),
    ]


def _older(call: Call) -> Mapping[ErrorCode, ErrorCode] | None:
    return None if call.version >= FENCED_FROM else _OLD


class AddPartitionsToTxnHandler:
    """Up to v3 a client adds partitions before it writes to them: all of a request or none. From v4 on the brokers that
    lead the partitions ask: whether they belong to a transaction, or to add them."""

    served = Served(ADD_PARTITIONS_TO_TXN, 0, 5)

    def __init__(self, transactions: TransactionCoordinator, cluster: ClusterPort) -> None:
        self._transactions = transactions
        self._cluster = cluster

    def handle(
        self, request: AddPartitionsToTxnRequest, call: Call
    ) -> AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]:
        if call.version >= BROKERS_FROM:
            return self._for_brokers(request, call)
        partitions = _partitions(request.v3_and_below_topics)
        if not call.access.transactional_id(WRITE, request.v3_and_below_transactional_id):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            call.error(code)
            return _answer_to_client(dict.fromkeys(partitions, code))
        wrong = self._wrong(partitions, call)
        if wrong:
            codes = {each: wrong.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
            call.error(next(iter(wrong.values())))
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(codes))
        reply = Reply(
            call,
            lambda code: AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=_by_topic(dict.fromkeys(partitions, code))
            ),
            _older(call),
        )
        to = Converted(reply, _answer_to_client)
        name = request.v3_and_below_transactional_id
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        added = frozenset(partitions)
        self._transactions.run(
            name, to, lambda state, now: state.add_partitions(name, producer, added, 0, to, now), patient=True
        )
        return reply.outcome()

    def _wrong(self, partitions: Iterable[TopicPartition], call: Call) -> dict[TopicPartition, ErrorCode]:
        """Partitions that cannot be added, and why."""
        access = call.access
        wrong = {}
        for each in partitions:
            if each.topic in INTERNAL or not access.topic(WRITE, each.topic):
                wrong[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not self._is_known(each):
                wrong[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return wrong

    def _is_known(self, partition: TopicPartition) -> bool:
        topic = self._cluster.image.topic(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def _for_brokers(
        self, request: AddPartitionsToTxnRequest, call: Call
    ) -> AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]:
        reply: Reply[AddPartitionsToTxnResponse] = Reply(call, lambda code: AddPartitionsToTxnResponse(error_code=code))
        denied = cluster_denied(call, CLUSTER_ACTION)
        if denied is not None:
            reply.refuse(denied)
            return reply.outcome()
        late: list[Timer] = []

        def done(results: list[AddPartitionsToTxnResult]) -> None:
            for timer in late:
                timer.cancel()
            reply.complete(AddPartitionsToTxnResponse(results_by_transaction=results))

        gather = Gather(len(request.transactions), done)
        parts = [self._for_broker(asked, gather, index, call) for index, asked in enumerate(request.transactions)]
        outcome = reply.outcome()
        if isinstance(outcome, Pending):
            late.append(self._transactions.call_later(BROKERS_WAIT_S, lambda: _give_up(gather, parts)))
        return outcome

    def _for_broker(
        self, asked: AddPartitionsToTxnTransaction, gather: Gather[AddPartitionsToTxnResult], index: int, call: Call
    ) -> Receiver:
        name, partitions = asked.transactional_id, frozenset(_partitions(asked.topics))
        producer = Producer(asked.producer_id, asked.producer_epoch)

        def result(codes: Codes) -> AddPartitionsToTxnResult:
            return AddPartitionsToTxnResult(transactional_id=name, topic_results=_by_topic(codes))

        part = Part(gather, index, call, lambda code: result(dict.fromkeys(partitions, code)))
        to: Converted[Codes, AddPartitionsToTxnResult] = Converted(part, result)
        if asked.verify_only:
            self._transactions.run(
                name, to, lambda state, now: state.verify_partitions(name, producer, partitions, to)
            )
            return to
        unknown = [each for each in partitions if not self._is_known(each)]
        if unknown:
            # Its markers would be taken for those of a deleted topic.
            to.refuse(CoordinatorLoadInProgressError(f"this broker has not received the metadata of {unknown[0]} yet"))
            return to
        self._transactions.run(
            name,
            to,
            lambda state, now: state.add_partitions(name, producer, partitions, BUMPING, to, now),
            patient=True,
        )
        return to


def _give_up(gather: Gather[AddPartitionsToTxnResult], parts: Sequence[Receiver]) -> None:
    """Some wait for a log that is not committed; the others are not to wait with them."""
    for index, part in enumerate(parts):
        if gather.is_missing(index):
            part.refuse(CoordinatorNotAvailableError("what was decided is not committed yet"))


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _by_topic(codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        topics.setdefault(topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()
    ]


def _answer_to_client(codes: Codes) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(codes))


class AddOffsetsToTxnHandler:
    """A transaction is about to commit offsets of a group: the group's partition of `__consumer_offsets` joins it."""

    served = Served(ADD_OFFSETS_TO_TXN, 0, 4)

    def __init__(
        self,
        transactions: TransactionCoordinator,
        offsets: InternalTopic,
        offsets_finder: CoordinatorFinder,
        cluster: ClusterPort,
    ) -> None:
        self._transactions = transactions
        self._offsets = offsets
        self._offsets_finder = offsets_finder
        self._cluster = cluster

    def handle(
        self, request: AddOffsetsToTxnRequest, call: Call
    ) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
        reply = Reply(call, lambda code: AddOffsetsToTxnResponse(error_code=code), _older(call))
        try:
            check_transactional_id(call, WRITE, request.transactional_id)
            check_group(call, READ, request.group_id)
        except KafkaError as error:
            reply.refuse(error)
            return reply.outcome()
        index = self._offsets.index_of(request.group_id, self._cluster.image)
        if index is None:
            try:
                self._offsets_finder.find(request.group_id, call.client.listener)
            except KafkaError as error:
                reply.refuse(error)
            return reply.outcome()
        to: Converted[Codes, AddOffsetsToTxnResponse] = Converted(reply, lambda _: AddOffsetsToTxnResponse())
        name, added = request.transactional_id, frozenset({TopicPartition(self._offsets.name, index)})
        producer = Producer(request.producer_id, request.producer_epoch)
        self._transactions.run(
            name, to, lambda state, now: state.add_partitions(name, producer, added, 0, to, now), patient=True
        )
        return reply.outcome()


class EndTxnHandler:
    """Answered when the decision is committed; markers are written after that."""

    served = Served(END_TXN, 0, 5)

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def handle(self, request: EndTxnRequest, call: Call) -> EndTxnResponse | Pending[EndTxnResponse]:
        reply = Reply(call, lambda code: EndTxnResponse(error_code=code), _older(call))
        if not call.access.transactional_id(WRITE, request.transactional_id):
            reply.refuse(transactional_id_denied(WRITE))
            return reply.outcome()
        version = BUMPING if call.version >= BUMPING_FROM else 0
        to = Converted(reply, _go_on if version else _ended)
        name, commit = request.transactional_id, request.committed
        producer = Producer(request.producer_id, request.producer_epoch)
        self._transactions.run(
            name, to, lambda state, now: state.end(name, producer, commit, version, to, now), patient=True
        )
        return reply.outcome()


def _ended(producer: Producer) -> EndTxnResponse:
    return EndTxnResponse()


def _go_on(producer: Producer) -> EndTxnResponse:
    return EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)


class DescribeTransactionsHandler:
    served = Served(DESCRIBE_TRANSACTIONS, 0, 0)

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def handle(
        self, request: DescribeTransactionsRequest, call: Call
    ) -> DescribeTransactionsResponse | Pending[DescribeTransactionsResponse]:
        reply: Reply[DescribeTransactionsResponse] = Reply(
            call, lambda code: DescribeTransactionsResponse(transaction_states=())
        )
        names = list(dict.fromkeys(request.transactional_ids))
        gather: Gather[DescribedTransaction] = Gather(
            len(names), lambda states: reply.complete(DescribeTransactionsResponse(transaction_states=states))
        )
        for index, name in enumerate(names):
            to = Converted(Part(gather, index, call, _not_described(name)), partial(_described, call.client.access))
            if call.access.transactional_id(DESCRIBE, name):
                self._transactions.run(name, to, _describing(name, to))
            else:
                to.refuse(transactional_id_denied(DESCRIBE))
        return reply.outcome()


def _describing(name: str, to: Converted[Any, Any]) -> Callable[[TransactionsState, Any], Step]:
    return lambda state, now: state.describe(name, to)


def _not_described(name: str) -> Callable[[ErrorCode], DescribedTransaction]:
    return lambda code: DescribedTransaction(
        error_code=code,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )


def _described(access: Access, transaction: Transaction) -> DescribedTransaction:
    """Without the topics that the client may not see."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        if not access.shows(DESCRIBE, TOPIC, topic):
            continue
        topics.setdefault(topic, []).append(index)
    return DescribedTransaction(
        transactional_id=transaction.id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )


class ListTransactionsHandler:
    """The transactions this broker coordinates; v1 filters by duration, v2 by a regular expression."""

    served = Served(LIST_TRANSACTIONS, 0, 2)

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def handle(self, request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
        titles = {state.title for state in State}
        unknown = [name for name in request.state_filters if name not in titles]
        try:
            if self._transactions.loading:
                raise CoordinatorLoadInProgressError("not all transactions of this broker are loaded")
            matches = compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None
        except KafkaError as error:
            call.error(error.code)
            return ListTransactionsResponse(
                error_code=error.code, unknown_state_filters=unknown, transaction_states=()
            )
        access = call.access
        return ListTransactionsResponse(
            unknown_state_filters=unknown,
            transaction_states=[
                ListedTransaction(
                    transactional_id=one.id, producer_id=one.producer_id, transaction_state=one.state.title
                )
                for shard in self._transactions.shards
                for one in shard.transactions.transactions.values()
                if self._is_asked_for(one, request)
                and (matches is None or matches(one.id))
                and access.shows(DESCRIBE, TRANSACTIONAL_ID, one.id)
            ],
        )

    def _is_asked_for(self, one: Transaction, request: ListTransactionsRequest) -> bool:
        if request.state_filters and one.state.title not in request.state_filters:
            return False
        if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
            return False
        if request.duration_filter >= 0:
            now_ms = self._transactions.now().wall_ms
            return now_ms - one.started_ms > request.duration_filter
        return True
