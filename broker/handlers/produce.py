"""Produce (0): one batch to each of some partitions.

Batches stay as they came: their header and checksum are checked, offset and epoch are written into the bytes
where they lie, and those bytes go to the log. Only where a topic asks for it (another codec, keys on each
record) is a batch opened, off the loop, and then the connection's later requests wait until it is written, so
that batches reach the log in the order in which they were sent.

acks=0 has no answer; if it fails, the closed connection tells. acks=1 answers when the batch is written
(and on the device, where the topic asks for it), acks=all when all in-sync replicas have it. Versions 0 to
2 are advertised, since old clients judge compression by them, but not served.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from rookery.broker.handlers.delayed_produce import DelayedProduce, Written
from rookery.broker.handlers.locate import Locator
from rookery.broker.handlers.produce_errors import ProduceErrors
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.core.clock import Clock
from rookery.core.errors import (
    InvalidRequiredAcksError,
    InvalidTopicError,
    KafkaError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
)
from rookery.core.metadata.topic_names import INTERNAL
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from rookery.core.wire.batch import TRANSACTIONAL
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.served import Served

Outcome = ProduceResponse | Pending[Any] | None
FLAGS_AT = 22  # the low byte of a batch's attributes
_ACKS = (1, -1, 0)


class RecordWork(Protocol):
    """Work that looks at single records: it takes its time, so it happens off the loop."""

    def needed(self, partition: Partition, batch: Buffer | None) -> bool:
        """Whether a batch has to be opened; raises KafkaError if it is no valid batch in the first place."""

    async def prepare(self, partition: Partition, batch: bytearray, client: str) -> bytearray:
        """The batch as it is to be stored; raises KafkaError when it may not be. `client` is an address."""


class Unopened(NamedTuple):
    """A batch that has to be looked into before it can be written."""

    answer: PartitionProduceResponse
    partition: Partition
    batch: bytearray


class ProduceHandler:
    served = Served(PRODUCE, 3, 11, advertise_min=0)

    def __init__(
        self,
        locator: Locator,
        waiters: Waiters[Partition],
        clock: Clock,
        record_work: RecordWork,
        start_task: Callable[[Coroutine[Any, Any, Any], str], Pending[Any]],
        metrics: TopicMetrics,
    ) -> None:
        self._locator = locator
        self._waiters = waiters
        self._clock = clock
        self._record_work = record_work
        self._start_task = start_task
        self._metrics = metrics

    def handle(self, request: ProduceRequest, call: Call) -> Outcome:
        run = _Run(request, call, self._clock.wall_ms())
        refusal = _refusal(request)
        responses = []
        for topic in request.topic_data:
            name = topic.name
            answers = []
            for data in topic.partition_data:
                answer = PartitionProduceResponse(index=data.index, base_offset=-1)
                answers.append(answer)
                try:
                    if refusal is not None:
                        raise refusal
                    if name in INTERNAL:
                        raise InvalidTopicError(f"{name} is written by its coordinator alone")
                    self._take(run, answer, self._locator.named(name, data.index), data.records)
                except KafkaError as error:
                    self._errors(run).refuse(answer, name, error)
            responses.append(
                TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=answers)
            )
        run.response = ProduceResponse(responses=responses)
        if run.unopened:
            return self._start_task(self._open(run), PRODUCE.name)
        return self._answer(run)

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
            raise TransactionalIdAuthorizationFailedError("a transactional batch needs a transactional id")
        if partition.opens_batches and self._must_open(partition, batch):
            run.unopened.append(Unopened(answer, partition, bytearray(batch or b"")))
        else:
            self._append(run, answer, partition, batch)

    def _append(
        self,
        run: "_Run",
        answer: PartitionProduceResponse,
        partition: Partition,
        batch: Any,  # a view into the receive buffer, or a copy: writable, since it is stamped in place
    ) -> None:
        """Write one batch; raises KafkaError, and then nothing was written."""
        acks = run.request.acks
        appended = partition.append_as_leader(batch, acks, run.now_ms)
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

    async def _open(self, run: "_Run") -> Outcome:
        """Look into batches off the loop; write each when its turn comes."""
        for answer, partition, batch in run.unopened:
            try:
                prepared = await self._record_work.prepare(partition, batch, run.call.client.address)
                run.now_ms = self._clock.wall_ms()
                self._append(run, answer, partition, prepared)
            except KafkaError as error:
                self._errors(run).refuse(answer, partition.topic, error)
        return self._answer(run)

    def _answer(self, run: "_Run") -> Outcome:
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
        parked = self._waiters.park(delayed, delayed.partitions, request.timeout_ms / 1000)
        delayed.pending.on_abandon = lambda: self._waiters.forget(parked)
        return delayed.pending

    def _errors(self, run: "_Run") -> ProduceErrors:
        if run.errors is None:
            run.errors = ProduceErrors(self._locator, self._metrics, run.call)
        return run.errors


class _Run:
    """One request on its way through its partitions."""

    __slots__ = ("call", "errors", "now_ms", "request", "response", "unopened", "waiting")

    response: ProduceResponse

    def __init__(self, request: ProduceRequest, call: Call, now_ms: int) -> None:
        self.request = request
        self.call = call
        self.now_ms = now_ms
        self.errors: ProduceErrors | None = None
        self.unopened: list[Unopened] = []
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
        return UnsupportedVersionError("this broker does not serve transactions yet")
    return None
