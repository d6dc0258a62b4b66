"""Produce (0): one batch to each of some partitions.

Batches stay as they came: their header and checksum are checked, offset and epoch are written into the bytes
where they lie, and those bytes go to the log. Only where a topic asks for it (another codec, keys on each
record) is a batch opened, off the loop, and then the connection's later requests wait, so that batches reach
the log in the order in which they were sent.

acks=0 has no answer; if it fails, the closed connection tells. acks=1 answers when the batch is written,
acks=all when all in-sync replicas have it. Versions 0 to 2 are advertised, since old clients judge
compression by them, but not served.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from rookery.broker.handlers.delayed_produce import DelayedProduce
from rookery.broker.handlers.locate import Locator
from rookery.broker.handlers.produce_entry import Entry, topic_answers
from rookery.broker.replication.partition import ACKS_ALL, Partition
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import Refused
from rookery.broker.server.pending import Pending
from rookery.broker.server.topic_metrics import TopicMetrics
from rookery.core.clock import Clock
from rookery.core.errors import (
    ErrorCode,
    InvalidRequiredAcksError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnsupportedVersionError,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ProduceRequest,
    ProduceResponse,
)
from rookery.core.wire.batch import MutableBuffer
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.served import Served

LEADER_HINTS_FROM = 10
STORAGE_ERRORS_FROM = 4

Outcome = ProduceResponse | Pending[Any] | None


class RecordWork(Protocol):
    """Work that looks at single records: it takes its time, so it happens off the loop."""

    def needed(self, partition: Partition, batch: Buffer | None) -> bool:
        """Whether a batch has to be opened; raises KafkaError if it is no valid batch in the first place."""

    async def prepare(self, partition: Partition, batch: bytearray) -> bytearray:
        """The batch as it is to be stored; raises KafkaError when it may not be."""


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
        refusal = _refusal(request)
        entries = []
        record_work = False
        for topic in request.topic_data:
            for data in topic.partition_data:
                entry = Entry(topic, data.index, _writable(data.records))
                entry.error = refusal or self._locate(entry)
                record_work |= entry.needs_record_work
                entries.append(entry)
        if record_work:
            return self._start_task(self._after_record_work(_copied(entries), request, call), PRODUCE.name)
        return self._append(entries, request, call)

    def _locate(self, entry: Entry) -> KafkaError | None:
        """Find the partition, and whether its topic wants to look into the batch."""
        try:
            partition = entry.partition = self._locator.named(entry.topic.name, entry.index)
            if partition.settings.opens_batches:
                partition.check_leader()
                entry.needs_record_work = self._record_work.needed(partition, entry.batch)
        except KafkaError as error:
            return error
        return None

    async def _after_record_work(
        self, entries: Sequence[Entry], request: ProduceRequest, call: Call
    ) -> Outcome:
        for entry in entries:
            if entry.needs_record_work:
                try:
                    entry.batch = await self._record_work.prepare(entry.partition, bytearray(entry.batch or b""))
                except KafkaError as error:
                    entry.error = error
        return self._append(entries, request, call)

    def _append(self, entries: Sequence[Entry], request: ProduceRequest, call: Call) -> Outcome:
        """Write what has no error yet, and answer, or wait for the replicas."""
        now_ms = self._clock.wall_ms()
        waiting = []
        for entry in entries:
            if entry.error is None:
                self._append_one(entry, request.acks, now_ms)
            if entry.error is not None:
                self._count_failure(entry, entry.error, call)
            elif request.acks == ACKS_ALL and not entry.partition.is_committed(entry.appended):
                waiting.append(entry)
        if request.acks == 0:
            _close_on_error(entries)
            return None
        if not waiting:
            return self._response(entries, call)
        pending: Pending[Any] = Pending(blocks=False)
        delayed = DelayedProduce(waiting, pending, lambda: self._response(entries, call))
        parked = self._waiters.park(delayed, delayed.partitions, request.timeout_ms / 1000)
        pending.on_abandon = lambda: self._waiters.forget(parked)
        return pending

    def _append_one(self, entry: Entry, acks: int, now_ms: int) -> None:
        partition, batch = entry.partition, entry.batch
        try:
            appended = entry.appended = partition.append_as_leader(batch, acks, now_ms)
        except KafkaError as error:
            entry.error = error
            return
        entry.leader_epoch = partition.state.leader_epoch
        traffic = self._metrics.of(partition.topic)
        traffic.produce_requests += 1
        if not appended.duplicate and batch is not None:
            traffic.messages_in += appended.last_offset - appended.base_offset + 1
            traffic.bytes_in += len(batch)

    def _count_failure(self, entry: Entry, error: KafkaError, call: Call) -> None:
        call.error(error.code)
        unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        traffic = self._metrics.of("" if unknown else entry.topic.name)
        traffic.produce_requests += 1
        traffic.failed_produces += 1

    def _response(self, entries: Sequence[Entry], call: Call) -> ProduceResponse:
        endpoints: dict[int, NodeEndpoint] = {}
        for entry in entries:
            if entry.error is not None:
                self._explain(entry, entry.error, call, endpoints)
        return ProduceResponse(responses=topic_answers(entries), node_endpoints=list(endpoints.values()))

    def _explain(
        self, entry: Entry, error: KafkaError, call: Call, endpoints: dict[int, NodeEndpoint]
    ) -> None:
        """Name the leader to a client that asked the wrong broker; use the errors its version has."""
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR and call.version < STORAGE_ERRORS_FROM:
            entry.error = NotLeaderOrFollowerError(error.message)
        if error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER or call.version < LEADER_HINTS_FROM:
            return
        topic = entry.topic
        leader = self._locator.leader(topic.name, topic.topic_id, entry.index, call.client.listener)
        if leader is not None:
            entry.leader = LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
            if leader.endpoint is not None:
                _, host, port, _ = leader.endpoint
                endpoints[leader.id] = NodeEndpoint(node_id=leader.id, host=host, port=port, rack=leader.rack)


def _refusal(request: ProduceRequest) -> KafkaError | None:
    """What is wrong with the request as a whole; it is then the answer for each partition."""
    if request.acks not in (-1, 0, 1):
        return InvalidRequiredAcksError(f"acks={request.acks}")
    if request.transactional_id is not None:
        return UnsupportedVersionError("this broker does not serve transactions yet")
    return None


def _writable(records: Buffer | None) -> MutableBuffer | None:
    """The batch as a buffer to be stamped in place: the receive buffer itself, unless it is read-only."""
    if isinstance(records, bytes) or (isinstance(records, memoryview) and records.readonly):
        return bytearray(records)
    return records


def _copied(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Frames do not outlive the handler's call, so whoever goes on later takes copies."""
    for entry in entries:
        if entry.batch is not None:
            entry.batch = bytearray(entry.batch)
    return entries


def _close_on_error(entries: Sequence[Entry]) -> None:
    """acks=0: the only way to tell of a failure is to close the connection."""
    for entry in entries:
        if entry.error is not None:
            raise Refused(f"acks=0 for {entry.topic.name}-{entry.index} failed: {entry.error}")
