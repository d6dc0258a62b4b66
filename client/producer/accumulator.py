"""What a producer has to send: batches by partition, the room they take, and when they go to whom.

Pure: times are given, leaders are looked up by a function, and what to do is returned as a `Plan`. The shell sends
the requests of a plan and comes back with each answer. All answers and errors of batches go through here, so that
each record is settled once.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rookery.client.errors import DeliveryTimeoutError, RecordTooLargeError
from rookery.client.producer.batch import Batch
from rookery.client.producer.partition_queue import EPOCH_MAX, PartitionQueue
from rookery.client.types import Headers, TopicPartition
from rookery.core.errors import (
    DuplicateSequenceNumberError,
    ErrorCode,
    InvalidProducerEpochError,
    KafkaError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    RecordListTooLargeError,
    UnknownProducerIdError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.wire.batch import HEADER_SIZE
from rookery.core.wire.primitives import Buffer

UNCERTAIN = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NETWORK_EXCEPTION,
}
"""Errors after which the batch may be stored."""
_TOO_LARGE = (MessageTooLargeError, RecordListTooLargeError)
_WRONG_SEQUENCE = (OutOfOrderSequenceNumberError, UnknownProducerIdError)
_PASSING = (UnknownTopicOrPartitionError, UnknownTopicIdError)

Leader = Callable[[TopicPartition], int]
"""The node that leads a partition; -1 while none is known."""


@dataclass(frozen=True, slots=True)
class AccumulatorSettings:
    batch_size: int = 16384
    linger_s: float = 0.005
    buffer_memory: int = 32 << 20
    request_bytes_max: int = 1 << 20
    delivery_timeout_s: float = 120.0
    in_flight_max: int = 5
    retries: int = 2**31 - 1
    backoff: BackoffSettings = field(default_factory=lambda: BackoffSettings(0.1, 1.0))
    idempotent: bool = True
    transactional: bool = False
    codec: int = 0
    level: int | None = None


class Request(NamedTuple):
    """Batches of different partitions that one node leads."""

    node: int
    batches: list[Batch]


@dataclass(slots=True)
class Plan:
    """What to do now, and when to look again."""

    requests: list[Request] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)
    """Topics whose leaders are not known or proved wrong."""
    wants_id: bool = False
    """A producer id is needed first."""
    to_add: list[TopicPartition] = field(default_factory=list)
    """Partitions that the transaction must contain first."""
    wake_at: float | None = None
    """When to ask for the next plan, if nothing happens before."""

    def wake(self, at: float) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at


class Accumulator:
    """The batches of one producer."""

    def __init__(
        self, settings: AccumulatorSettings, leader: Leader, rng: Random, clock: Callable[[], float]
    ) -> None:
        self.settings = settings
        self._leader = leader
        self._clock = clock
        self._rng = rng
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        """Those with batches that wait to be sent."""
        self._in_flight: dict[int, int] = {}
        """Requests by node."""
        self._muted: dict[int, float] = {}
        """Nodes that asked for a pause, and its end."""
        self._backoffs: dict[TopicPartition, Backoff] = {}
        self._flushing = 0
        self._ended: Exception | None = None
        self.identity: tuple[int, int] | None = None
        self.added: set[TopicPartition] | None = None
        """Partitions of the transaction; None if they need not be added."""
        self.used = 0
        self.incomplete: dict[Batch, None] = {}
        self.stale: set[str] = set()
        self.failed: Exception | None = None
        """The first failure since the last `forgive`: a transaction cannot commit after it."""
        self.wrote = False
        """Whether a batch was sent since the last `forgive`."""
        self.on_failed: Callable[[Batch, Exception, bool], None] = lambda batch, error, observed: None
        self.records_sent = self.records_failed = self.retries = self.batches_sent = self.bytes_sent = (
            self.splits
        ) = 0

    # --- filling --------------------------------------------------------------------------------------------

    def queue(self, place: TopicPartition) -> PartitionQueue:
        found = self._queues.get(place)
        if found is None:
            found = self._queues[place] = PartitionQueue(place)
        return found

    def has_room(self, size: int) -> bool:
        return self.used + size <= self.settings.buffer_memory

    def check_size(self, size: int) -> None:
        limit = min(self.settings.request_bytes_max, self.settings.buffer_memory)
        if size > limit:
            raise RecordTooLargeError(
                f"a record of {size} bytes is larger than {limit}",
                "Raise max_request_size, or send less at once",
            )

    def append(
        self,
        queue: PartitionQueue,
        size: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> tuple[Batch, int]:
        """Add a record for which there is room; returns its batch and its number there."""
        batch = queue.open
        if batch is None or batch.size + size > self.settings.batch_size:
            batch = self._open(queue)
        self.used += size
        batch.size += size
        queue.waiting_bytes += size
        return batch, batch.append(timestamp, key, value, headers)

    def extend(
        self,
        queue: PartitionQueue,
        size: int,
        timestamp: int,
        keys: list[bytes] | None,
        values: list[bytes],
    ) -> tuple[Batch, int]:
        """Add records that fit into the open batch by `room_in`."""
        batch = queue.open
        if batch is None or (batch.count and batch.size + size > self.settings.batch_size):
            batch = self._open(queue)
        self.used += size
        batch.size += size
        queue.waiting_bytes += size
        return batch, batch.extend(timestamp, keys, values)

    def enclose(self, queue: PartitionQueue, timestamp: int, records: Buffer, count: int) -> Batch:
        """Add a batch of encoded records, which takes no others and does not linger."""
        batch = self._open(queue)
        queue.open = None
        size = len(records)
        self.used += size
        batch.size += size
        queue.waiting_bytes += size
        batch.enclose(timestamp, records, count)
        return batch

    def room_in(self, queue: PartitionQueue) -> int:
        """Bytes that the open batch still takes."""
        return self.settings.batch_size - (queue.open.size if queue.open is not None else HEADER_SIZE)

    def _open(self, queue: PartitionQueue) -> Batch:
        if self._ended is not None:
            raise self._ended
        settings = self.settings
        batch = Batch(queue.place, self._clock(), settings.codec, settings.level)
        batch.transactional = settings.transactional
        queue.add(batch)
        self.used += batch.size
        self.incomplete[batch] = None
        self._active[queue.place] = queue
        return batch

    # --- what to do -----------------------------------------------------------------------------------------

    def plan(self, now: float, *, hurry: bool = False) -> Plan:
        """What to send now. `hurry` ends all lingering: somebody waits for room, or the producer closes."""
        plan = Plan(stale=self.stale)
        self.stale = set()
        self._expire(now, plan)
        hurry = hurry or self._flushing > 0
        by_node: dict[int, list[PartitionQueue]] = {}
        for place, queue in list(self._active.items()):
            if not queue.waiting:
                del self._active[place]
                continue
            node = self._node_for(queue, now, hurry, plan)
            if node is not None:
                by_node.setdefault(node, []).append(queue)
        for node, queues in by_node.items():
            self._requests(node, queues, now, hurry, plan)
        return plan

    def _node_for(self, queue: PartitionQueue, now: float, hurry: bool, plan: Plan) -> int | None:
        """Where the next batch of a partition can go now; otherwise the plan says what is missing."""
        head = queue.waiting[0]
        ready_at = self._ready_at(queue, head, hurry)
        if ready_at > now:
            plan.wake(ready_at)
            return None
        node = self._leader(queue.place)
        if node < 0:
            plan.stale.add(queue.place.topic)
            return None
        if not self._identified(queue, plan):
            return None
        if self._muted.get(node, 0.0) > now:
            plan.wake(self._muted[node])
            return None
        return node

    def _ready_at(self, queue: PartitionQueue, head: Batch, hurry: bool) -> float:
        if head.attempts:
            return head.retry_at
        if hurry or queue.open is not head or head.size >= self.settings.batch_size:
            return 0.0
        return head.created_at + self.settings.linger_s

    def _identified(self, queue: PartitionQueue, plan: Plan) -> bool:
        """Whether the partition has numbers, and belongs to the transaction."""
        if not self.settings.idempotent:
            return True
        if self.identity is None:
            plan.wants_id = True
            return False
        if self._needs_identity(queue):
            if queue.in_flight:
                return False  # what is in flight ends under the old identity
            queue.number_as(*self.identity)
        if self.added is not None and queue.place not in self.added:
            plan.to_add.append(queue.place)
            return False
        return True

    def _needs_identity(self, queue: PartitionQueue) -> bool:
        """A transaction has one identity. Otherwise a partition keeps the one it has until its epochs are used up."""
        if self.settings.transactional:
            return (queue.producer_id, queue.epoch) != self.identity
        return queue.producer_id < 0 or (queue.lost and queue.epoch >= EPOCH_MAX)

    def _requests(
        self, node: int, queues: Sequence[PartitionQueue], now: float, hurry: bool, plan: Plan
    ) -> None:
        """As many requests as the node may have in flight, each with one batch of a partition at most."""
        left = list(queues)
        self._rng.shuffle(left)
        while left and self._in_flight.get(node, 0) < self.settings.in_flight_max:
            batches: list[Batch] = []
            size = 0
            again: list[PartitionQueue] = []
            for queue in left:
                if not self._may_go(queue, now, hurry, plan):
                    continue
                if batches and size + queue.waiting[0].size > self.settings.request_bytes_max:
                    again.append(queue)
                    continue
                batch = queue.take(self.settings.idempotent, now)
                batches.append(batch)
                size += batch.size
                again.append(queue)
            if not batches:
                return
            self._in_flight[node] = self._in_flight.get(node, 0) + 1
            self.batches_sent += len(batches)
            self.wrote = True
            plan.requests.append(Request(node, batches))
            left = again

    def _may_go(self, queue: PartitionQueue, now: float, hurry: bool, plan: Plan) -> bool:
        head = queue.head()
        if head is None:
            return False
        ready_at = self._ready_at(queue, head, hurry)
        if ready_at > now:
            plan.wake(ready_at)
            return False
        idempotent = self.settings.idempotent
        if not queue.may_send(idempotent):
            return False
        if self.settings.in_flight_max == 1 and queue.in_flight:
            return False  # at another node, which led the partition before: the order is kept
        if idempotent and not queue.in_flight and not queue.settle_numbers():
            self.identity = None
            plan.wants_id = True
            return False
        return True

    # --- answers --------------------------------------------------------------------------------------------

    def answered(self, request: Request, now: float, throttle_s: float = 0.0) -> None:
        """A request is over; the result of each of its batches is reported by the methods below."""
        self._in_flight[request.node] -= 1
        if throttle_s > 0:
            self._muted[request.node] = now + throttle_s

    def stored(self, batch: Batch, base_offset: int, log_append_time: int = -1) -> None:
        queue = self._queues[batch.place]
        queue.stored(batch)
        self._backoffs.pop(batch.place, None)
        if not batch.settled:
            self.records_sent += batch.count
            self.bytes_sent += batch.size
            self._release(batch)
            batch.succeed(base_offset, log_append_time)

    def not_stored(self, batch: Batch, error: Exception, now: float) -> None:
        """A node refused the batch, or no answer came. Retried if that can help and there is time."""
        queue = self._queues[batch.place]
        match error:
            case DuplicateSequenceNumberError():
                self.stored(batch, -1)
                return
            case _ if isinstance(error, _TOO_LARGE) and batch.count > 1 and not batch.settled:
                self._split(queue, batch)
                return
            case _ if isinstance(error, _WRONG_SEQUENCE) and self.settings.idempotent:
                self._wrong_sequence(queue, batch, error, now)
                return
            case InvalidProducerEpochError() if self.settings.idempotent and not self.settings.transactional:
                queue.back(batch, uncertain=False)
                queue.lost = True
                self._later(queue, batch, error, now)
                return
            case _:
                pass
        if isinstance(error, KafkaError) and not error.retriable and not isinstance(error, _PASSING):
            queue.refused(batch)
            self._give_up(batch, error)
            return
        uncertain = not isinstance(error, KafkaError) or error.code in UNCERTAIN
        if not isinstance(error, KafkaError) or error.code.stale_metadata:
            self.stale.add(batch.place.topic)
        queue.back(batch, uncertain=uncertain)
        self._later(queue, batch, error, now)

    def _wrong_sequence(self, queue: PartitionQueue, batch: Batch, error: Exception, now: float) -> None:
        queue.out_of_order(batch)
        if self.settings.transactional and queue.lost:
            queue.expired(batch)
            self._give_up(batch, error)
            return
        self._later(queue, batch, error, now, pause=not queue.lost)

    def _split(self, queue: PartitionQueue, batch: Batch) -> None:
        self.splits += 1
        parts = batch.split()
        queue.replace(batch, parts)
        self.used += sum(part.size for part in parts) - batch.size
        # in its place, since `_expire` looks at the oldest first
        self.incomplete = {
            each: None for old in self.incomplete for each in (parts if old is batch else (old,))
        }
        self._active[queue.place] = queue

    def _later(
        self, queue: PartitionQueue, batch: Batch, error: Exception, now: float, *, pause: bool = True
    ) -> None:
        """The batch is back in the queue: wait a while, or give it up."""
        self._active[queue.place] = queue
        if batch.settled:  # given up while it was in flight
            queue.expired(batch)
        elif batch.attempts > self.settings.retries:
            queue.expired(batch)
            self._give_up(batch, error)
        else:
            self.retries += 1
            batch.last_error = error
            backoff = self._backoffs.setdefault(batch.place, Backoff(self.settings.backoff, self._rng))
            batch.retry_at = now + backoff.failed() if pause else now

    def _expire(self, now: float, plan: Plan) -> None:
        """Give up what is older than delivery.timeout.ms. Batches in flight stay in their queue until the answer, so
        that the numbers stay right, but nobody waits for them any more."""
        limit = self.settings.delivery_timeout_s
        for batch in list(self.incomplete):
            if batch.created_at + limit > now:
                plan.wake(batch.created_at + limit)
                return  # the others are younger
            queue = self._queues[batch.place]
            if batch not in queue.in_flight:
                queue.expired(batch)
            cause = f"; the last attempt: {batch.last_error}" if batch.last_error else ""
            error = DeliveryTimeoutError(
                f"{batch.count} records for {batch.place} were not acknowledged in {limit:g} s, "
                f"after {batch.attempts} attempts{cause}"
            )
            self._give_up(batch, error)

    def _give_up(self, batch: Batch, error: Exception) -> None:
        if batch.settled:
            return
        self.records_failed += batch.count
        self.failed = self.failed or error
        self._release(batch)
        observed = batch.fail(error)
        self.on_failed(batch, error, observed)

    def _release(self, batch: Batch) -> None:
        self.used -= batch.size
        del self.incomplete[batch]

    # --- flush and transactions -----------------------------------------------------------------------------

    def begin_flush(self) -> list[Batch]:
        """No lingering until `end_flush`; returns what must be settled."""
        self._flushing += 1
        return list(self.incomplete)

    def end_flush(self) -> None:
        self._flushing -= 1

    def abandon(self, error: Exception, keep_sent: bool = False) -> None:
        """Give up the batches that are not in flight; `keep_sent` spares those that were sent before."""
        for queue in self._queues.values():
            for batch in queue.drop_waiting(lambda batch: keep_sent and batch.attempts > 0):
                self._give_up(batch, error)

    def abandon_all(self, error: Exception) -> None:
        """Give up everything: the producer ends, and takes no more records."""
        self._ended = error
        self.abandon(error)
        for batch in list(self.incomplete):
            self._give_up(batch, error)

    def identify(self, producer_id: int, epoch: int) -> None:
        """The identity of batches that are not numbered yet."""
        self.identity = (producer_id, epoch)

    def forgive(self) -> None:
        """A new transaction begins."""
        self.failed = None
        self.wrote = False

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return sum(self._in_flight.values())

    def waiting_bytes(self, places: Iterable[TopicPartition]) -> list[int]:
        """Bytes not sent yet, for each of the partitions."""
        queues = (self._queues.get(place) for place in places)
        return [0 if queue is None else queue.waiting_bytes for queue in queues]

    def problems(self) -> list[str]:
        """Why batches that were to be sent are not: the error of the last attempt, or no leader."""
        found: list[str] = []
        for queue in self._queues.values():
            errors = [batch.last_error for batch in (*queue.in_flight, *queue.waiting) if batch.last_error]
            if errors:
                found.append(f"{queue.place}: {errors[0]}")
            elif queue.waiting and self._leader(queue.place) < 0:
                found.append(f"{queue.place} has no leader")
        return found

    def explain(self, now: float) -> dict[str, object]:
        """The batches that wait and are in flight, with the reason of a retry."""
        busy = [queue for queue in self._queues.values() if not queue.idle]
        return {
            "used_bytes": self.used,
            "batches": len(self.incomplete),
            "requests_in_flight": dict(self._in_flight),
            "partitions": {
                str(queue.place): {
                    "leader": self._leader(queue.place),
                    "waiting_batches": len(queue.waiting),
                    "in_flight": len(queue.in_flight),
                    "oldest_s": round(
                        now - min(batch.created_at for batch in (*queue.waiting, *queue.in_flight)), 3
                    ),
                    "last_error": next(
                        (str(batch.last_error) for batch in queue.waiting if batch.last_error), ""
                    ),
                }
                for queue in busy
            },
        }
