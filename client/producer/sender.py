"""The part of a producer that talks to the cluster: carries out the accumulator's plans.

`kick` asks for a new plan soon. A plan is made when a batch is opened or full, when an answer came, when metadata or a
producer id arrived, and at the time the last plan named: nothing runs while there is nothing to do. Every task started
here is in `_tasks` until it ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from rookery.client.errors import BufferFullError
from rookery.client.producer.accumulator import Accumulator, AccumulatorSettings, Plan, Request
from rookery.client.producer.batch import Batch
from rookery.client.producer.transactions import PRODUCE_V1, Transactions
from rookery.client.session import explained
from rookery.client.types import TopicPartition
from rookery.core.errors import KafkaError, LeaderNotAvailableError, error_for
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import Backoff
from rookery.core.net.cluster import BootstrapError, Cluster, Node, check
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from rookery.core.wire.primitives import NO_UUID

NAMES_VERSION_MAX = 12
"""The last version of Produce with topic names."""
UNUSED_MS = 60_000  # transaction timeout: a required field that has no effect without a transaction
QUIET_S = 2.0
"""Metadata that is needed again sooner than this is asked for after a pause."""

_log = get_logger("client.producer")
Passing = (KafkaError, ConnectionLostError, BootstrapError, OSError)


class Sender:
    """Requests of one producer. `transactions` is set while the producer has a transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        settings: AccumulatorSettings,
        *,
        acks: int,
        create_topics: bool,
        metadata_max_age_s: float,
        rng: Random,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._loop = loop
        self._acks = acks
        self._create_topics = create_topics
        self._timeout_ms = int(cluster.request_timeout_s * 1000)
        self._age_s = metadata_max_age_s
        self._rng = rng
        self.accumulator = Accumulator(settings, self._leader, rng, loop.time)
        self.accumulator.on_failed = self._failed
        self.transactions: Transactions | None = None
        self.transactional_id: str | None = None
        self.on_transaction_error: Callable[[Exception, bool], None] = lambda error, from_coordinator: None
        self.on_metadata: Callable[[], None] = lambda: None
        self.closing = False
        self._kicked = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._room: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._stale: set[str] = set()
        self._refreshing = False
        self._refresh_backoff = Backoff(settings.backoff, rng)
        self._refreshed_at = loop.time()
        self._age_timer = loop.call_later(metadata_max_age_s, self._metadata_is_old)
        self._identifying = False
        self._adding: set[TopicPartition] = set()
        self._additions: set[asyncio.Task[None]] = set()
        self.requests = 0
        self.refreshes = 0
        self.latency_s_sum = 0.0
        self.latency_s_max = 0.0

    # --- plans ----------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Make a plan once the current callback has returned."""
        if not self._kicked and not self.closing:
            self._kicked = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._kicked = False
        if self.closing:
            return
        plan = self.accumulator.plan(self._loop.time(), hurry=bool(self._room))
        self._give_room()
        for request in plan.requests:
            self._start(self._send(request))
        if plan.stale:
            self.refresh_soon(plan.stale)
        if plan.wants_id and not self._identifying and self.transactions is None:
            self._identifying = True
            self._start(self._identify())
        self._add_to_transaction(plan)
        self._set_timer(plan.wake_at)

    def _set_timer(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._loop.call_at(at, self.kick)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _leader(self, place: TopicPartition) -> int:
        topic = self._cluster.view.topics.get(place.topic)
        partition = None if topic is None else topic.partitions.get(place.partition)
        return (
            -1 if partition is None or partition.leader not in self._cluster.view.nodes else partition.leader
        )

    # --- produce --------------------------------------------------------------------------------------------

    async def _send(self, request: Request) -> None:
        began = self._loop.time()
        try:
            answer = await self._produce(request)
        except Exception as error:
            if not isinstance(error, Passing):
                _log.exception("producer.request.failed", error, node=request.node)
            self._ended(request, began, 0.0)
            cause = explained(error) if isinstance(error, KafkaError) else error
            for batch in request.batches:
                self.accumulator.not_stored(batch, _as_exception(cause), self._loop.time())
        else:
            self._ended(request, began, answer.throttle_time_ms / 1000)
            self._answered(request, answer)
        self._give_room()
        self.kick()

    def _ended(self, request: Request, began: float, throttle_s: float) -> None:
        now = self._loop.time()
        self.accumulator.answered(request, now, throttle_s)
        self.latency_s_sum += now - began
        self.latency_s_max = max(self.latency_s_max, now - began)

    async def _produce(self, request: Request) -> ProduceResponse:
        node = self._cluster.view.nodes.get(request.node)
        if node is None:
            raise LeaderNotAvailableError(f"node {request.node} left the cluster")
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in request.batches:
            data = PartitionProduceData(index=batch.place.partition, records=batch.encoded())
            topics.setdefault(batch.place.topic, []).append(data)
        views = self._cluster.view.topics
        ids = {name: views[name].id if name in views else NO_UUID for name in topics}
        produce = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(name=name, topic_id=ids[name], partition_data=each)
                for name, each in topics.items()
            ],
        )
        self.requests += 1
        at_most = NAMES_VERSION_MAX if NO_UUID in ids.values() else None
        if self.transactions is not None and self.transactions.version == 1:
            at_most = PRODUCE_V1
        if self._acks == 0:
            return await self._send_only(node, produce, at_most)
        answer = await self._cluster.ask(node, PRODUCE, produce, at_most=at_most)
        names = {topic_id: name for name, topic_id in ids.items() if topic_id != NO_UUID}
        for topic in answer.responses:
            topic.name = topic.name or names.get(topic.topic_id, "")
        return answer

    async def _send_only(self, node: Node, produce: ProduceRequest, at_most: int | None) -> ProduceResponse:
        """acks=0: a batch counts as sent when the connection took it."""
        connection = await self._cluster.peers.connection(node.endpoint)
        version = connection.version_for(PRODUCE, at_most)
        await connection.send(PRODUCE, version, produce, self._cluster.request_timeout_s)
        return ProduceResponse(responses=())

    def _answered(self, request: Request, answer: ProduceResponse) -> None:
        now = self._loop.time()
        found = {
            (topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses
        }
        for batch in request.batches:
            each = found.get(batch.place)
            if self._acks == 0:
                self.accumulator.stored(batch, -1)
            elif each is None:
                self.accumulator.not_stored(batch, ConnectionLostError("the answer does not contain it"), now)
            elif each.error_code:
                self.accumulator.not_stored(batch, _error_of(batch, each), now)
            else:
                self.accumulator.stored(batch, each.base_offset, each.log_append_time_ms)

    def _failed(self, batch: Batch, error: Exception, observed: bool) -> None:
        if not observed:
            place, attempts = str(batch.place), batch.attempts
            _log.warning(
                "producer.failed", place=place, records=batch.count, attempts=attempts, error=str(error)
            )
        if self.transactions is not None:
            self.on_transaction_error(error, False)

    # --- metadata -------------------------------------------------------------------------------------------

    def refresh_soon(self, topics: set[str]) -> None:
        self._stale |= topics
        if not self._refreshing:
            self._refreshing = True
            self._start(self._refresh())

    async def _refresh(self) -> None:
        """Ask for leaders until an answer came. Repeated questions come after growing pauses."""
        try:
            while self._stale and not self.closing:
                if self._loop.time() - self._refreshed_at < QUIET_S:
                    self._cluster.turn()  # what it answered did not help: it may be cut off from the others
                    await asyncio.sleep(self._refresh_backoff.failed())
                else:
                    self._refresh_backoff.succeeded()
                topics, self._stale = self._stale, set()
                self.refreshes += 1
                self._refreshed_at = self._loop.time()
                try:
                    await self._cluster.refresh(sorted(topics), create=self._create_topics)
                except Passing as error:
                    _log.debug("producer.metadata.failed", error=str(error))
                    self._stale |= topics
                else:
                    self.on_metadata()
        finally:
            self._refreshing = False
        self.kick()

    def _metadata_is_old(self) -> None:
        if not self.closing:
            self._age_timer = self._loop.call_later(self._age_s, self._metadata_is_old)
            self._cluster.turn()
            self.refresh_soon(set(self._cluster.view.topics))

    # --- identity -------------------------------------------------------------------------------------------

    async def _identify(self) -> None:
        """A producer id for idempotence; asked for until there is one, since nothing can be sent without."""
        backoff = Backoff(self.accumulator.settings.backoff, self._rng)
        try:
            while not self.closing and self.accumulator.incomplete:
                try:
                    request = InitProducerIdRequest(transaction_timeout_ms=UNUSED_MS)
                    answer = await self._cluster.ask_any(INIT_PRODUCER_ID, request)
                    check(answer.error_code, "a producer id")
                except Exception as error:
                    if isinstance(error, KafkaError) and not error.retriable:
                        self.accumulator.abandon(_as_exception(explained(error)))
                        self._give_room()
                        return
                    if not isinstance(error, Passing):
                        _log.exception("producer.id.failed", error)
                    await asyncio.sleep(backoff.failed())
                else:
                    self.accumulator.identify(answer.producer_id, answer.producer_epoch)
                    return
        finally:
            self._identifying = False
            self.kick()

    def _add_to_transaction(self, plan: Plan) -> None:
        new = [place for place in plan.to_add if place not in self._adding]
        if new and self.transactions is not None:
            self._adding.update(new)
            task = self._start(self._add(self.transactions, new))
            self._additions.add(task)
            task.add_done_callback(self._additions.discard)

    async def additions(self) -> None:
        """Wait until no partition is being added: a late one would open the transaction again after its end."""
        if self._additions:
            await asyncio.wait(list(self._additions))

    async def _add(self, transactions: Transactions, places: list[TopicPartition]) -> None:
        try:
            await transactions.add_partitions(places)
        except Passing as error:
            self.on_transaction_error(_as_exception(explained(error)), True)
            self.accumulator.abandon(_as_exception(explained(error)))
        else:
            if self.accumulator.added is not None:
                self.accumulator.added.update(places)
        finally:
            self._adding.difference_update(places)
            self.kick()

    # --- room -----------------------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """Whether calls wait for room: later ones wait behind them."""
        return bool(self._room)

    async def wait_for_room(self, size: int, timeout_s: float) -> None:
        """Wait until `size` bytes fit, in the order of arrival."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._room.append((size, turn))
        self.kick()
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except TimeoutError:
            raise BufferFullError(
                f"no room in buffer.memory for {timeout_s:g} s; {self.accumulator.used} bytes are not acknowledged",
                "The cluster does not keep up or cannot be reached: see `explain()`",
            ) from None
        finally:
            if (size, turn) in self._room:
                self._room.remove((size, turn))
            self.kick()  # the next one may need less

    def _give_room(self) -> None:
        """One after the other: each must add its record before the next may look."""
        while self._room and self._room[0][1].done():
            self._room.popleft()
        if self._room and self.accumulator.has_room(self._room[0][0]):
            self._room.popleft()[1].set_result(None)
            self._loop.call_soon(self._give_room)

    # --- the end --------------------------------------------------------------------------------------------

    async def close(self, error: Exception) -> None:
        """Stop; what is not settled fails with `error`."""
        self.closing = True
        self._set_timer(None)
        self._age_timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.accumulator.abandon_all(error)
        for _, turn in self._room:
            if not turn.done():
                turn.set_exception(error)
        self._room.clear()


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else RuntimeError(str(error))


def _error_of(batch: Batch, answer: PartitionProduceResponse) -> KafkaError:
    reasons = [
        f"record {each.batch_index}: {each.batch_index_error_message}" for each in answer.record_errors
    ]
    text = "; ".join(filter(None, [answer.error_message, *reasons]))
    return error_for(answer.error_code, f"{batch.place}: {text}" if text else str(batch.place))
