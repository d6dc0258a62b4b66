"""The producer: `send` puts a record into a batch and returns at once; batches go out in the background."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from time import time_ns
from types import TracebackType
from typing import Any

from rookery.client.errors import ClosedError, ConfigurationError, IllegalStateError, KafkaTimeoutError
from rookery.client.health import Health
from rookery.client.options import METADATA_MAX_AGE_MS, read_options
from rookery.client.producer import options as of
from rookery.client.producer.batch import OVERHEAD, Callback, row_size
from rookery.client.producer.bulk import Columns, Filling
from rookery.client.producer.delivery import Deliveries, Delivery, settled
from rookery.client.producer.partition_queue import PartitionQueue
from rookery.client.producer.partitioners import OwnPartitioner, Partitioner, Route
from rookery.client.producer.routes import Routes
from rookery.client.producer.sender import Sender
from rookery.client.producer.transaction import Transaction
from rookery.client.producer.transaction_calls import TransactionCalls
from rookery.client.producer.transaction_state import Phase, TransactionState
from rookery.client.producer.transactions import Transactions
from rookery.client.serializers import Serializer, serialize, serializer
from rookery.client.session import Session
from rookery.client.types import Headers, as_headers
from rookery.core.errors import KafkaError
from rookery.core.net.backoff import Backoff
from rookery.core.net.network import Network

GIVE_WAY_MS = 5
"""A loop of `send` lets other tasks run at least this often."""
NO_TIMESTAMP = -1
"""A record without time: a copy of one that has none."""
_TIMESTAMP_MAX = 2**63 - 1


class Producer(TransactionCalls):
    """Sends records to any Kafka cluster.

    Options are keywords with Kafka's names (``linger_ms=5``), or a mapping with dots (``{"linger.ms": 5}``). For one
    event loop; `rookery.sync.Producer` is for code without asyncio and for threads.
    """

    def __init__(
        self, options: Mapping[str, Any] | None = None, /, *, network: Network | None = None, **keywords: Any
    ) -> None:
        settings = read_options(of.CLIENT, of.TABLE, keywords, options)
        of.check(settings)
        self._settings = settings
        self._session = Session(of.CLIENT, settings, network)
        self._rng = Random()
        self._core = of.accumulator_settings(settings)
        self._batch_size = self._core.batch_size
        self.max_block_s: float = settings[of.MAX_BLOCK_MS] / 1000
        self.delivery_timeout_s = self._core.delivery_timeout_s
        self._key_serializer = serializer(settings[of.KEY_SERIALIZER])
        self._value_serializer = serializer(settings[of.VALUE_SERIALIZER])
        self._serializes = self._key_serializer is not None or self._value_serializer is not None
        own: Any = settings[of.PARTITIONER]
        self._own_partitioner: OwnPartitioner | None = None if isinstance(own, str) else own
        self._partitioner = Partitioner(
            "default" if callable(own) else own,
            self._rng,
            ignore_keys=settings[of.PARTITIONER_IGNORE_KEYS],
            adaptive=settings[of.PARTITIONER_ADAPTIVE],
            batch_size=self._batch_size,
        )
        self._routes: Routes | None = None
        self._sender: Sender | None = None
        self._gave_way_ms = 0
        self._give_way = False
        name = settings[of.TRANSACTIONAL_ID]
        self._state = TransactionState(name) if name else None
        self._transactions: Transactions | None = None
        self._ending = asyncio.Lock()
        self._stopping = False

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Producer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect, and take over the transactional id if there is one. Raises NoBrokersError with the reason of each
        address, or AuthenticationError. Does nothing if started."""
        if self._sender is not None and not self._session.closed:
            return
        await self._session.open()
        cluster = self._session.cluster
        sender = Sender(
            cluster,
            self._core,
            acks=of.acks_of(self._settings),
            create_topics=self._settings[of.AUTO_CREATE_TOPICS],
            metadata_max_age_s=self._settings[METADATA_MAX_AGE_MS] / 1000,
            rng=self._rng,
        )
        routes = Routes(
            cluster,
            sender.accumulator,
            create=self._settings[of.AUTO_CREATE_TOPICS],
            check_running=self._running,
        )
        sender.on_metadata = routes.metadata_changed
        if self._state is not None:
            try:
                await self._take_over(sender)
            except BaseException:
                await sender.close(ClosedError("the producer could not start"))
                await self._session.close()
                raise
        self._sender, self._routes = sender, routes

    async def _take_over(self, sender: Sender) -> None:
        state = self._state
        assert state is not None
        self._transactions = Transactions(
            self._session.cluster,
            state,
            self._settings[of.TRANSACTION_TIMEOUT_MS],
            lambda: Backoff(self._core.backoff, self._rng),
            self.max_block_s,
        )
        sender.transactions = self._transactions
        sender.transactional_id = state.transactional_id
        sender.on_transaction_error = self._transaction_failed
        await self._coordinated(self._transactions.initialize())
        self._renumber(sender)
        state.initialized()

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver what is waiting, for at most `timeout_s` (by default delivery.timeout.ms), and disconnect. An open
        transaction is aborted. Calls after the first do nothing."""
        if self._stopping or self._session.closed:
            return
        self._stopping = True
        sender = self._sender
        if sender is not None and not self._session.forked:
            limit_s = self.delivery_timeout_s if timeout_s is None else timeout_s
            try:
                async with asyncio.timeout(limit_s):
                    await self._finish(sender)
            except (TimeoutError, KafkaError):
                pass  # what is left fails below, and calls that wait for it get the reason
            finally:
                await sender.close(ClosedError("the producer was closed before the record was acknowledged"))
                await self._session.close()
        await self._session.close()

    async def _finish(self, sender: Sender) -> None:
        state = self._state
        if state is not None and state.phase in (Phase.OPEN, Phase.ABORTABLE):
            await self._abort(sender)
        else:
            await self._settle_all(sender)

    def transaction(self) -> "Transaction":
        """``async with producer.transaction() as tx``: commits at the end, aborts if an exception comes out."""
        self._transactional()
        return Transaction(self)

    def _running(self) -> Sender:
        """The sender of a producer that may be used; otherwise raises why not."""
        self._session.check_usable()
        if self._stopping:
            raise ClosedError("this Producer is closed", "Make a new one")
        if self._sender is None:
            raise IllegalStateError(
                "this Producer is not started", "Use `async with Producer(...)`, or await `start()`"
            )
        return self._sender

    # --- sending --------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callback | None = None,
    ) -> Delivery:
        """Put a record into the buffer, waiting for room if there is none (`max.block.ms`).

        `await` the result for the place of the record. `on_delivery(metadata, error)` is called once in the loop. A
        call that is cancelled has not sent the record.
        """
        if self._give_way:  # before the record is in the buffer: a call that is cancelled here did not send it
            self._give_way = False
            await asyncio.sleep(0)
        sender, routes = self._sender, self._routes
        route = None if routes is None or self._stopping else routes.known.get(topic)
        if sender is None or route is None or (partition is not None and not 0 <= partition < len(route.queues)):
            sender = self._running()
            route = await self._routing().find(topic, partition, self.max_block_s)
        transaction = None if self._state is None else self._state.check_open()
        queue, size, raw_key, raw, pairs = self._prepared(route, value, key, headers, partition)
        if sender.crowded or not sender.accumulator.has_room(size):
            await sender.wait_for_room(size, self.max_block_s)
            if self._state is not None:
                self._state.check_open(transaction)
        timestamp = time_ns() // 1_000_000 if timestamp_ms is None else _checked_time(timestamp_ms)
        batch, number = sender.accumulator.append(queue, size, timestamp, raw_key, raw, pairs)
        if on_delivery is not None:
            batch.call_back(number, timestamp, on_delivery)
        if number == 0 or timestamp - self._gave_way_ms > GIVE_WAY_MS:
            self._put(sender, number, timestamp)
        return Delivery(batch, number, timestamp)

    def try_send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callback | None = None,
    ) -> Delivery | None:
        """As `send`, but never waits: None if there is no room now, or the topic's partitions are not known yet. They
        are asked for then. Let other tasks run between calls: nothing is sent before."""
        sender = self._running()
        route = self._routing().now(topic, partition)
        if route is None:
            sender.refresh_soon({topic})
            return None
        if sender.crowded:
            return None
        if self._state is not None:
            self._state.check_open()
        timestamp = time_ns() // 1_000_000 if timestamp_ms is None else _checked_time(timestamp_ms)
        queue, size, raw_key, raw, pairs = self._prepared(route, value, key, headers, partition)
        if not sender.accumulator.has_room(size):
            sender.kick()
            return None
        batch, number = sender.accumulator.append(queue, size, timestamp, raw_key, raw, pairs)
        if on_delivery is not None:
            batch.call_back(number, timestamp, on_delivery)
        if number == 0:
            self._put(sender, number, timestamp)
        return Delivery(batch, number, timestamp)

    def _prepared(
        self,
        route: Route,
        value: Any,
        key: Any,
        headers: Headers | Mapping[str, bytes | None] | None,
        partition: int | None,
    ) -> tuple[PartitionQueue, int, bytes | None, bytes | None, Headers]:
        """A record as bytes: its queue, size, key, value and headers."""
        raw_key: bytes | None = key
        raw: bytes | None = value
        if self._serializes or type(value) is not bytes or (key is not None and type(key) is not bytes):
            raw_key = serialize(self._key_serializer, "key", key)
            raw = serialize(self._value_serializer, "value", value)
        if headers:
            pairs = as_headers(headers)
            size = row_size(raw_key, raw, pairs)
        else:
            pairs = ()
            size = OVERHEAD + len(raw or b"") + (0 if raw_key is None else len(raw_key))
        if size > self._batch_size and self._sender is not None:
            self._sender.accumulator.check_size(size)
        if partition is None:
            if self._own_partitioner is None:
                partition = self._partitioner.choose(route, raw_key, size)
            else:
                partition = self._routing().chosen(self._own_partitioner, route, raw_key, raw, pairs)
        return route.queues[partition], size, raw_key, raw, pairs

    def _put(self, sender: Sender, number: int, timestamp: int) -> None:
        """A record is in the buffer. The first of a batch lets the batch before it go; now and then a loop of `send`
        lets other tasks run."""
        self._gave_way_ms = timestamp
        self._give_way = True
        if number == 0:
            self._opened(sender)

    def _opened(self, sender: Sender) -> None:
        """A batch was opened: the one before it can go."""
        self._session.check_usable()
        sender.kick()

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Deliveries:
        """Put many records into the buffer, waiting for room as needed. `await` the result for their places in order.

        Much faster than one `send` after the other. Records of one partition stay in their order.
        """
        sender = self._running()
        transaction = None if self._state is None else self._state.check_open()
        if keys is not None and len(keys) != len(values):
            raise ConfigurationError(f"{len(keys)} keys do not fit {len(values)} values", "keys")
        route = await self._routing().find(topic, partition, self.max_block_s)
        timestamp = time_ns() // 1_000_000 if timestamp_ms is None else _checked_time(timestamp_ms)
        raw, with_none = _serialized("value", self._value_serializer, values)
        raw_keys, without_key = (None, False) if keys is None else _serialized("key", self._key_serializer, keys)
        deliveries = Deliveries()
        own = self._own_partitioner is not None and partition is None
        if own or with_none or without_key:
            for number, value in enumerate(values):
                key = None if keys is None else keys[number]
                sent = await self.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp)
                deliveries.add(*sent.place, [number], timestamp)
            return deliveries

        async def room(size: int) -> None:
            if sender.crowded or not sender.accumulator.has_room(size):
                await sender.wait_for_room(size, self.max_block_s)
            if self._state is not None:
                self._state.check_open(transaction)

        filling = Filling(sender.accumulator, self._partitioner, room, lambda: self._opened(sender))
        columns = Columns(range(len(raw)), raw_keys, raw)
        if raw_keys is not None and partition is None and self._partitioner.by_key:
            for index, some in columns.by_partition(len(route.queues)).items():
                await filling.fill(route, index, some, timestamp, deliveries)
        else:
            await filling.fill(route, partition, columns, timestamp, deliveries)
        return deliveries

    def _routing(self) -> Routes:
        assert self._routes is not None  # there from the start on
        return self._routes

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all records sent before are settled, delivered or not; lingering ends for them."""
        sender = self._running()
        try:
            async with asyncio.timeout(timeout_s):
                await self._settle_all(sender)
        except TimeoutError:
            left = len(sender.accumulator.incomplete)
            raise KafkaTimeoutError(f"{left} batches are not acknowledged after {timeout_s:g} s") from None

    async def _settle_all(self, sender: Sender) -> None:
        batches = sender.accumulator.begin_flush()
        try:
            sender.kick()
            for batch in batches:
                await settled(batch)
            await sender.additions()
        finally:
            sender.accumulator.end_flush()

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        self._running()
        return list(range(len((await self._routing().find(topic, None, self.max_block_s)).queues)))

    # --- what it is doing -----------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Counts since the start, by the names of Kafka's producer where it has them."""
        sender = self._sender
        if sender is None:
            return {}
        core, requests = sender.accumulator, max(1, sender.requests)
        return {
            "record-send-total": core.records_sent,
            "record-error-total": core.records_failed,
            "record-retry-total": core.retries,
            "batch-split-total": core.splits,
            "byte-total": core.bytes_sent,
            "request-total": sender.requests,
            "batches-total": core.batches_sent,
            "records-per-request-avg": core.records_sent / requests,
            "request-latency-avg": 1000 * sender.latency_s_sum / requests,
            "request-latency-max": 1000 * sender.latency_s_max,
            "requests-in-flight": core.in_flight,
            "buffer-total-bytes": core.settings.buffer_memory,
            "buffer-available-bytes": core.settings.buffer_memory - core.used,
            "metadata-refresh-total": sender.refreshes,
        }

    def health(self) -> Health:
        """What keeps records from being delivered now."""
        if self._sender is None or self._stopping:
            return Health(("the producer is closed" if self._stopping else "the producer is not started",))
        state = self._state
        fatal = [] if state is None or state.phase is not Phase.FATAL else [str(state.error)]
        full = ["callers wait for room in buffer.memory"] if self._sender.crowded else []
        return Health((*fatal, *self._sender.accumulator.problems(), *full))

    def explain(self) -> dict[str, Any]:
        """What the producer is doing now: for logs and for people."""
        found: dict[str, Any] = {**self._session.explain(), "options": dict(self._session.options())}
        if self._sender is not None:
            found["buffer"] = self._sender.accumulator.explain(asyncio.get_running_loop().time())
            found["metrics"] = self.metrics()
        if self._state is not None:
            found["transaction"] = {
                "id": self._state.transactional_id,
                "phase": self._state.phase.name,
                "error": str(self._state.error or ""),
            }
        return found


def _serialized(what: str, function: Serializer | None, values: Sequence[Any]) -> tuple[list[Any], bool]:
    """The values as bytes, and whether some are None."""
    if function is None and (kinds := set(map(type, values))) <= {bytes, type(None)}:
        return list(values), type(None) in kinds
    raw = [serialize(function, what, value) for value in values]
    return raw, None in raw


def _checked_time(timestamp_ms: int) -> int:
    if type(timestamp_ms) is not int or not NO_TIMESTAMP <= timestamp_ms <= _TIMESTAMP_MAX:
        raise ConfigurationError(
            f"timestamp_ms is {timestamp_ms!r}: milliseconds since 1970 are needed, or -1 for a record without time",
            "timestamp_ms",
        )
    return timestamp_ms
