"""Produce (0): one batch to each of some partitions.

Batches stay as they came: their header and checksum are checked, offset and epoch are written into the bytes
where they lie, and those bytes go to the log. Only where a topic asks for it (another codec, keys on each
record) is a batch opened, off the loop, and then the connection's later requests wait until it is written, so
that batches reach the log in the order in which they were sent.

The first batch of a transaction in a partition waits, in the same way, until the transaction's coordinator has
confirmed the partition, or from v12 on has added it.

acks=0 has no answer; if it fails, the connection is closed. acks=1 answers when the batch is written
(and on the device, where the topic asks for it), acks=all when all in-sync replicas have it. Versions 0 to
2 are advertised, since old clients judge compression by them, but not served.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from rookery.broker.handlers.authorize import WRITE, topic_denied, transactional_id_denied
from rookery.broker.handlers.delayed_produce import DelayedProduce, Written
from rookery.broker.handlers.locate import Locator
from rookery.broker.log.producer_state import NOT_VERIFIED, Guard
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import FOR_COMMITTED, LONG_AGO, Waiters
from rookery.broker.server.access import TRANSACTIONAL_ID, Access
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Refused
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.broker.transactions.verification import (
    ADDING_PRODUCE_FROM,
    Codes,
    Transaction,
    Verification,
    producer_error,
)
from rookery.core.clock import Clock
from rookery.core.errors import (
    ErrorCode,
    InvalidProducerIdMappingError,
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaError,
    NotLeaderOrFollowerError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicIdError,
)
from rookery.core.metadata.topic_names import INTERNAL
from rookery.core.wire.apis.produce import (
    PRODUCE,
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from rookery.core.wire.batch import HEADER_SIZE, TRANSACTIONAL
from rookery.core.wire.primitives import NO_UUID, Buffer
from rookery.core.wire.records import InvalidRecordsError, read_header, validate_produce_batch
from rookery.core.wire.served import Served

LEADER_HINTS_FROM = 10
_UNSEEN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
"""With these there need not be a topic of the name, so it gets no metrics of its own."""
STORAGE_ERRORS_FROM = 4


class ProduceErrors:
    """Writes errors into answers, in the terms of the client's version; a client that asked the wrong broker
    gets the address of the right one, which spares it a metadata request."""

    __slots__ = ("_call", "_endpoints", "_first", "_locator", "_metrics")

    def __init__(self, locator: Locator, metrics: TopicMetrics, call: Call) -> None:
        self._locator = locator
        self._metrics = metrics
        self._call = call
        self._endpoints: dict[int, NodeEndpoint] | None = None
        self._first: str | None = None

    def refuse(self, answer: PartitionProduceResponse, topic: str, error: KafkaError) -> None:
        code = error.code
        if self._first is None:
            self._first = f"{topic}-{answer.index}: {error}"
        self._count(topic, code)
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._call.version < STORAGE_ERRORS_FROM:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_code = code
        answer.error_message = error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if isinstance(error, InvalidRecordsError):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
                for index, reason in error.record_errors
            ]
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._call.version >= LEADER_HINTS_FROM:
            self._name_leader(answer, topic)

    def complete(self, response: ProduceResponse) -> None:
        """Add what the answers refer to."""
        if self._endpoints:
            response.node_endpoints = list(self._endpoints.values())

    def close_connection(self) -> None:
        """acks=0: the only way to report a failure is to close the connection."""
        if self._first is not None:
            raise Refused(f"acks=0 failed for {self._first}")

    def _count(self, topic: str, code: ErrorCode) -> None:
        self._call.error(code)
        traffic = self._metrics["" if code in _UNSEEN else topic]
        traffic.produce_requests += 1
        traffic.failed_produces += 1

    def _name_leader(self, answer: PartitionProduceResponse, topic: str) -> None:
        leader = self._locator.leader(topic, NO_UUID, answer.index, self._call.client.listener)
        if leader is None or leader.id == self._locator.node_id:  # refused though it leads: others know more
            return
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
        if leader.endpoint is not None:
            if self._endpoints is None:
                self._endpoints = {}
            _, host, port, _ = leader.endpoint
            self._endpoints[leader.id] = NodeEndpoint(
                node_id=leader.id, host=host, port=port, rack=leader.rack
            )


Outcome = ProduceResponse | Pending[Any] | None
FLAGS_AT = 22  # the low byte of a batch's attributes
_ACKS = (1, -1, 0)
WRITE_BIT = 1 << WRITE


class RecordWork(Protocol):
    """Work that looks at single records: it takes its time, so it happens off the loop."""

    def needed(self, partition: Partition, batch: Buffer | None) -> bool:
        """Whether a batch has to be opened; raises KafkaError if it is no valid batch in the first place."""

    async def prepare(self, partition: Partition, batch: bytearray, client: str) -> bytearray:
        """The batch as it is to be stored; raises KafkaError when it may not be. `client` is an address."""


class Held(NamedTuple):
    """A batch that has to be looked into, or asked for, before it can be written."""

    answer: PartitionProduceResponse
    partition: Partition
    batch: bytearray
    leader_epoch: int
    guard: Guard | None = None
    """Of a batch that the transaction's coordinator is asked for."""


class ProduceHandler:
    served = Served(PRODUCE, 3, 13, advertise_min=0)

    def __init__(
        self,
        locator: Locator,
        waiters: Waiters[Partition],
        clock: Clock,
        record_work: RecordWork,
        verification: Verification,
        start_task: Callable[[Coroutine[Any, Any, Any], str], Pending[Any]],
        metrics: TopicMetrics,
    ) -> None:
        self._locator = locator
        self._waiters = waiters
        self._clock = clock
        self._record_work = record_work
        self._verification = verification
        self._start_task = start_task
        self._metrics = metrics

    def handle(self, request: ProduceRequest, call: Call) -> Outcome:
        run = _Run(request, call, self._clock.wall_ms())
        refusal = _refusal(request)
        access = call.client.access
        restricted = access.restricted
        if restricted and request.transactional_id is not None:
            refusal = _denial(request, call.access) or refusal
        responses = []
        for topic in request.topic_data:
            name = topic.name or self._name_of(topic)
            denied = restricted and not access.knows_topic(WRITE_BIT, name) and not _may_write(call, name, refusal)
            answers = []
            for data in topic.partition_data:
                answer = PartitionProduceResponse(index=data.index, base_offset=-1)
                answers.append(answer)
                try:
                    if refusal is not None:
                        raise refusal
                    if denied:
                        raise topic_denied(WRITE)
                    if name in INTERNAL:
                        raise InvalidTopicError(f"{name} is written by its coordinator alone")
                    self._take(run, answer, self._locator.named(name, data.index), data.records)
                except KafkaError as error:
                    unknown = None if name else UnknownTopicIdError(f"no topic here has the id {topic.topic_id}")
                    self._errors(run).refuse(answer, name, unknown or error)
            responses.append(
                TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=answers)
            )
        run.response = ProduceResponse(responses=responses)
        if run.held:
            return self._start_task(self._write_held(run), PRODUCE.name)
        return self._answer(run, self._waiters.changes)

    def _name_of(self, topic: TopicProduceData) -> str:
        """The name of a topic that is given by its id, from v13 on; empty where none has it, or not yet here."""
        name, here = self._locator.name_of(topic.topic_id), self._locator.here
        found = (here(name, data.index) for data in topic.partition_data)
        return name if all(each is None or each.topic_id == topic.topic_id for each in found) else ""

    def _take(
        self,
        run: "_Run",
        answer: PartitionProduceResponse,
        partition: Partition,
        batch: Buffer | None,
    ) -> None:
        """Write one batch, or put it aside if it has to be looked into; raises KafkaError if it is
        refused."""
        if is_transactional(batch):
            self._take_transactional(run, answer, partition, batch)
        elif partition.opens_batches and self._must_open(partition, batch):
            run.held.append(Held(answer, partition, bytearray(batch or b""), partition.state.leader_epoch))
        else:
            self._append(run, answer, partition, batch)

    def _take_transactional(
        self, run: "_Run", answer: PartitionProduceResponse, partition: Partition, batch: Any
    ) -> None:
        """Like `_take`. Nothing is asked where the transaction is open here already, nor for a retry."""
        if run.request.transactional_id is None:
            raise TransactionalIdAuthorizationFailedError("a transactional batch needs a transactional id")
        partition.check_leader()
        partition.check_in_touch()
        state, epoch, guard = partition.log.store.state, partition.state.leader_epoch, None
        adds = run.call.version >= ADDING_PRODUCE_FROM
        if not adds and not self._verification.enabled:
            guard = NOT_VERIFIED
        elif len(batch) >= HEADER_SIZE:
            header = read_header(batch)
            _, _, _, _, _, _, _, _, _, producer_id, producer_epoch, sequence, _ = header
            if not state.is_open(producer_id, producer_epoch) and state.duplicate_of(header) is None:
                validate_produce_batch(batch, partition.log.config.max_message_bytes)
                guard = state.guard_for(producer_id, producer_epoch, sequence, bumps=adds, now_ms=run.now_ms)
                run.held.append(Held(answer, partition, bytearray(batch), epoch, guard))
                return
        if partition.opens_batches and self._must_open(partition, batch):
            run.held.append(Held(answer, partition, bytearray(batch), epoch, guard))
        else:
            self._append(run, answer, partition, batch, guard)

    def _append(
        self,
        run: "_Run",
        answer: PartitionProduceResponse,
        partition: Partition,
        batch: Any,  # a view into the receive buffer, or a copy: writable, since it is stamped in place
        guard: Guard | None = None,
    ) -> None:
        """Write one batch; raises KafkaError, and then nothing was written."""
        acks = run.request.acks
        appended = partition.append_as_leader(batch, acks, run.now_ms, guard)
        base_offset, last_offset, answer.log_append_time_ms, answer.log_start_offset, known = appended
        answer.base_offset = base_offset
        traffic = self._metrics[partition.topic]
        traffic.produce_requests += 1
        if not known:
            traffic.messages_in += last_offset - base_offset + 1
            traffic.bytes_in += len(batch)
        if not partition.is_acknowledged(appended, acks):
            epoch = partition.state.leader_epoch
            run.waiting.append(Written(answer, partition.topic, partition, appended, epoch, traffic))
        elif acks:
            traffic.acked += last_offset - base_offset + 1

    def _must_open(self, partition: Partition, batch: Buffer | None) -> bool:
        partition.check_leader()
        return self._record_work.needed(partition, batch)

    async def _write_held(self, run: "_Run") -> Outcome:
        """Ask for transactions, look into batches off the loop, and write each when its turn comes."""
        refused = await self._ask(run)
        for held in run.held:
            partition = held.partition
            try:
                code = refused.get(partition.topic_partition) if held.guard is not None else None
                if code is not None:
                    raise producer_error(code, run.call.version)
                batch = held.batch
                if held.guard is None or (partition.opens_batches and self._must_open(partition, batch)):
                    batch = await self._record_work.prepare(partition, batch, run.call.client.address)
                run.now_ms = self._clock.wall_ms()
                if held.guard is not None and held.leader_epoch != partition.state.leader_epoch:
                    raise NotLeaderOrFollowerError(
                        f"{partition.topic_partition} got another leader while the transaction was asked for"
                    )
                self._append(run, held.answer, partition, batch, held.guard)
            except KafkaError as error:
                self._errors(run).refuse(held.answer, partition.topic, error)
        return self._answer(run)

    async def _ask(self, run: "_Run") -> Codes:
        asked = [held for held in run.held if held.guard is not None and held.guard is not NOT_VERIFIED]
        transactional_id = run.request.transactional_id
        if not asked or transactional_id is None:
            return {}
        header = read_header(asked[0].batch)
        adds = run.call.version >= ADDING_PRODUCE_FROM
        transaction = Transaction(transactional_id, header.producer_id, header.producer_epoch, adds)
        return await self._verification.ask(
            transaction, sorted({held.partition.topic_partition for held in asked})
        )

    def _answer(self, run: "_Run", as_of: int = LONG_AGO) -> Outcome:
        """`as_of`: nothing that is waited for had happened by then."""
        errors, request, response = run.errors, run.request, run.response
        if request.acks == 0:
            if errors is not None:
                errors.close_connection()
            return None
        if errors is not None:
            errors.complete(response)
        if not run.waiting:
            return response

        def refuse(written: Written, error: KafkaError) -> None:
            errors = self._errors(run)
            errors.refuse(written.answer, written.topic, error)
            errors.complete(response)

        delayed = DelayedProduce(run.waiting, response, request.acks, refuse)
        timeout_s = request.timeout_ms / 1000
        parked = self._waiters.park(delayed, delayed.partitions, timeout_s, as_of=as_of, waits_for=FOR_COMMITTED)
        delayed.pending.on_abandon = lambda: self._waiters.forget(parked)
        return delayed.pending

    def _errors(self, run: "_Run") -> ProduceErrors:
        if run.errors is None:
            run.errors = ProduceErrors(self._locator, self._metrics, run.call)
        return run.errors


class _Run:
    """One request on its way through its partitions."""

    __slots__ = ("call", "errors", "held", "now_ms", "request", "response", "waiting")

    response: ProduceResponse

    def __init__(self, request: ProduceRequest, call: Call, now_ms: int) -> None:
        self.request = request
        self.call = call
        self.now_ms = now_ms
        self.errors: ProduceErrors | None = None
        self.held: list[Held] = []
        self.waiting: list[Written] = []


def is_transactional(batch: Buffer | None) -> bool:
    """Whether a batch claims to be part of a transaction. Taken without one, it would hold back readers of
    committed records for ever."""
    return batch is not None and len(batch) > FLAGS_AT and bool(batch[FLAGS_AT] & TRANSACTIONAL)


def _refusal(request: ProduceRequest) -> KafkaError | None:
    """What is wrong with the request as a whole; it is then the answer for each partition."""
    if request.acks not in _ACKS:
        return InvalidRequiredAcksError(f"acks={request.acks}")
    if request.transactional_id is not None:
        return _refusal_of_producers(request)
    return None


def _may_write(call: Call, name: str, refusal: KafkaError | None) -> bool:
    """A topic without a name is one whose id is unknown, which is the answer."""
    return refusal is not None or not name or call.access.topic(WRITE, name)


def _denial(request: ProduceRequest, access: Access) -> KafkaError | None:
    """A client that may not use a transactional id writes nothing with it."""
    name = request.transactional_id
    if name is None or access.shows(WRITE, TRANSACTIONAL_ID, name):
        return None
    batches = (data.records for topic in request.topic_data for data in topic.partition_data)
    if not any(map(is_transactional, batches)) or access.transactional_id(WRITE, name):
        return None
    return transactional_id_denied(WRITE)


def _refusal_of_producers(request: ProduceRequest) -> KafkaError | None:
    """A transactional id stands for one producer."""
    batches = (data.records for topic in request.topic_data for data in topic.partition_data)
    producers = set()
    for batch in batches:
        if is_transactional(batch) and batch is not None and len(batch) >= HEADER_SIZE:
            header = read_header(batch)
            producers.add((header.producer_id, header.producer_epoch))
    if len(producers) > 1:
        return InvalidProducerIdMappingError(f"{request.transactional_id!r} sends batches of several producers")
    return None
