"""The producer for code without asyncio, and for several threads.

`send` does not wait for the loop: records go into a queue that the loop empties, so one record costs no change of
threads. The queue is bounded; who fills it waits until the loop has taken some, at most `max.block.ms`. A queued record
waits no longer than that for room either.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, TypeVar

from rookery.client.blocking import BlockingClient, BlockingContext, BlockingResult
from rookery.client.errors import BufferFullError, ClosedError, IllegalStateError, KafkaTimeoutError
from rookery.client.health import Health
from rookery.client.producer import Delivery
from rookery.client.producer.batch import Callback
from rookery.client.producer.producer import Producer as AsyncProducer
from rookery.client.producer.transactions import Offsets
from rookery.client.types import GroupMetadata, Headers, RecordMetadata
from rookery.core.errors import KafkaError
from rookery.core.event_logging import get_logger

T = TypeVar("T")
_log = get_logger("client.producer")
QUEUE_MAX = 8192
"""Records that wait for the loop."""
WAKE_EVERY = 256
"""Records between two looks at what else the loop has to do."""


class BlockingDelivery:
    """One record on its way. `result()` waits for its place, or raises why it was not delivered."""

    __slots__ = ("_delivery", "_error", "_face", "arguments", "queued_at")

    def __init__(self, face: "BlockingProducer", arguments: tuple[Any, ...]) -> None:
        self._face = face
        self.arguments: tuple[Any, ...] = arguments
        self.queued_at = monotonic()
        self._delivery: Delivery | None = None
        self._error: Exception | None = None

    def bind(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.arguments = ()

    def refuse(self, error: Exception) -> None:
        topic: str = self.arguments[0]
        callback: Callback | None = self.arguments[-1]
        self._error = error
        self.arguments = ()
        if callback is not None:
            try:
                callback(None, error)
            except Exception as mistake:  # of the user's function: other records are to be settled all the same
                _log.exception("producer.callback.failed", mistake, place=topic)

    def done(self) -> bool:
        return self._error is not None or (self._delivery is not None and self._delivery.done())

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        if not self.done():
            self._face.wait_for(self, timeout_s)
        if self._error is not None:
            raise self._error
        if self._delivery is None:
            raise IllegalStateError("the record is not delivered yet")
        return self._delivery.result()

    async def settled(self) -> None:
        if self._delivery is not None and not self._delivery.done():
            try:
                await self._delivery
            except Exception:  # `result` raises it
                return


class BlockingProducer(BlockingClient):
    """`rookery.Producer` for code without asyncio. May be used by several threads."""

    made_of = AsyncProducer

    def __init__(self, options: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._queue: deque[BlockingDelivery] = deque()
        self._awake = False
        self._closing = False
        self._taken = threading.Condition()
        self._draining = asyncio.Lock()
        super().__init__(*(() if options is None else (options,)), **keywords)

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callback | None = None,
    ) -> BlockingDelivery:
        """Queue a record; `result()` of what is returned waits for its place. `on_delivery` is called once and must not
        wait: in the loop's thread, or by `close` for a record that was still queued. A record that is refused while a
        transaction is open fails the transaction."""
        delivery = BlockingDelivery(self, (topic, value, key, headers, partition, timestamp_ms, on_delivery))
        if len(self._queue) >= QUEUE_MAX or self._closing:
            self._wait_for_turn()
        self._queue.append(delivery)
        if not self._awake:
            self._awake = True
            thread = self._loop()
            thread.loop.call_soon_threadsafe(lambda: thread.loop.create_task(self._drain_all()))
        return delivery

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
    ) -> BlockingDelivery | None:
        """As `send`, but never waits: None if too many records wait already. Whether the buffer has room for it shows
        later."""
        if self._closing:
            raise _closed()
        if len(self._queue) >= QUEUE_MAX:
            return None
        return self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )

    def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        *,
        keys: Sequence[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BlockingResult[Sequence[RecordMetadata]]:
        """Put many records into the buffer, waiting for room as needed; `result()` waits for their places."""
        sent: BlockingResult[Sequence[RecordMetadata]] = self._run(
            self._client.send_many, topic, values, keys=keys, partition=partition, timestamp_ms=timestamp_ms
        )
        return sent

    def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        found: list[int] = self._run(self._client.partitions_for, topic)
        return found

    def transaction(self) -> "BlockingTransaction":
        """``with producer.transaction() as tx``: commits at the end, aborts if an exception comes out."""
        return BlockingTransaction(self, self._loop().run(_made(self._client.transaction)))

    def begin_transaction(self) -> None:
        self._run(self._client.begin_transaction)

    def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """Commit offsets of a consumer's group with the transaction."""
        self._run(self._client.send_offsets, offsets, group)

    def commit_transaction(self) -> None:
        """Deliver all records of the transaction, then make them visible."""
        self._run(self._client.commit_transaction)

    def abort_transaction(self) -> None:
        """Drop the records that were not sent, and hide those that were."""
        self._run(self._client.abort_transaction)

    def health(self) -> Health:
        """What keeps records from being delivered now."""
        found: Health = self._loop().run(_made(self._client.health))
        return found

    def metrics(self) -> dict[str, float]:
        """Counts since the start, by the names of Kafka's producer where it has them."""
        found: dict[str, float] = self._loop().run(_made(self._client.metrics))
        return found

    def explain(self) -> dict[str, Any]:
        """What the producer is doing now: for logs and for people."""
        found: dict[str, Any] = self._loop().run(_made(self._client.explain))
        return found

    def _wait_for_turn(self) -> None:
        limit_s = self._client.max_block_s
        with self._taken:
            there_is_room = self._taken.wait_for(
                lambda: len(self._queue) < QUEUE_MAX or self._closing, limit_s
            )
        if self._closing:
            raise _closed()
        if not there_is_room:
            raise BufferFullError(f"{len(self._queue)} records wait for room, and none got any in {limit_s:g} s")

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until all records sent before are settled, delivered or not; at most so long."""

        async def flush() -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._before_call()
                    await self._client.flush()
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"the records sent before are not all settled after {timeout_s:g} s"
                ) from None

        self._loop().run(flush())

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver what is waiting, for at most `timeout_s` (by default delivery.timeout.ms), and end the thread. What
        is not delivered then fails. Calls after the first do nothing."""
        if self._ended or self._forked:
            return
        limit_s = self._client.delivery_timeout_s if timeout_s is None else timeout_s

        async def close() -> None:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + limit_s
            try:
                async with asyncio.timeout_at(deadline):
                    await self._before_call()
            except TimeoutError:
                pass  # those in the queue fail below
            await self._client.close(max(0.0, deadline - loop.time()))

        self._closing = True
        self._wake()
        try:
            self._loop().run(close())
        finally:
            self._stop()
            while self._queue:
                self._queue.popleft().refuse(_closed())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _before_call(self) -> None:
        """Hand over what was queued before a call. That goes on if the call is given up: a record that was taken from
        the queue must arrive."""
        if self._queue or self._draining.locked():
            await asyncio.shield(asyncio.ensure_future(self._drain(len(self._queue))))

    async def _drain_all(self) -> None:
        while True:
            await self._drain(len(self._queue))
            self._awake = bool(self._queue)  # also if another call was quicker: the next `send` must wake the loop
            if not self._queue:
                return

    async def _drain(self, count: int) -> None:
        """Hand queued records to the producer, in their order, one drain at a time."""
        async with self._draining:
            queue, client = self._queue, self._client
            for number in range(min(count, len(queue))):
                delivery = queue.popleft()
                topic, value, key, headers, partition, timestamp, callback = delivery.arguments
                options = {
                    "key": key,
                    "headers": headers,
                    "partition": partition,
                    "timestamp_ms": timestamp,
                    "on_delivery": callback,
                }
                try:
                    sent = client.try_send(topic, value, **options)
                    if sent is None:
                        async with asyncio.timeout(delivery.queued_at + client.max_block_s - monotonic()):
                            sent = await client.send(topic, value, **options)
                        self._wake()
                    delivery.bind(sent)
                except KafkaError as error:
                    self._refuse(delivery, error)
                except TimeoutError:
                    self._refuse(
                        delivery,
                        BufferFullError(f"no room for the record, or no such topic, in {client.max_block_s:g} s"),
                    )
                    self._wake()
                except Exception as error:
                    self._refuse(delivery, error)
                except BaseException:  # the loop ends
                    delivery.refuse(_closed())
                    raise
                if number % WAKE_EVERY == 0:
                    self._wake()
                    await asyncio.sleep(0)
            self._wake()

    def _refuse(self, delivery: BlockingDelivery, error: Exception) -> None:
        """`send` has returned, so whoever commits may not know of it: the transaction must not be without the record.
        What came when none was open, or during its commit, is no part of it."""
        state = self._client.transaction_state
        if state is not None and not isinstance(error, IllegalStateError):
            state.failed(error, from_coordinator=False)
        delivery.refuse(error)

    def _wake(self) -> None:
        with self._taken:
            self._taken.notify_all()

    def _stop(self) -> None:
        self._closing = True
        super()._stop()
        self._wake()

    def wait_for(self, delivery: BlockingDelivery, timeout_s: float | None) -> None:
        """Wait until the record is settled."""

        async def wait() -> None:
            await self._before_call()
            await delivery.settled()

        try:
            self._loop().run(wait(), timeout_s)
        except TimeoutError:
            raise KafkaTimeoutError(f"the record is not acknowledged after {timeout_s:g} s") from None


def _closed() -> ClosedError:
    return ClosedError("this Producer is closed", "Make a new one")


async def _made(function: Callable[[], T]) -> T:
    """What a plain function returns, called in the loop."""
    return function()


class BlockingTransaction(BlockingContext):
    """One transaction of a producer, as `with` has it."""

    def __init__(self, producer: BlockingProducer, transaction: Any) -> None:
        super().__init__(producer, transaction)
        self.send = producer.send
        self.send_many = producer.send_many
        self.send_offsets = producer.send_offsets
