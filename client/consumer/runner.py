"""Runs a handler for every record, several at once, in order where order matters.

The runner polls all the time, so a slow handler never costs the membership. It takes no more records than it can soon
handle: the others stay with the brokers.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any

from rookery.client.consumer.commits import Commits
from rookery.client.consumer.ordering import AnyRecord, Order, by_key, by_partition
from rookery.client.errors import ClosedError, CommitFailedError, ConfigurationError, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.types import TopicPartition

if TYPE_CHECKING:
    from rookery.client.consumer.consumer import Consumer

log = get_logger("client.consumer")

Handler = Callable[[AnyRecord], Awaitable[Any]]
WAITING_PER_HANDLER = 16
"""Records taken in advance for each call that may run."""
POLL_MS = 200
COMMIT_S = 1.0
REVOKE_S = 20.0
"""Longest wait for handlers of partitions that go to others."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Runner:
    def __init__(
        self,
        consumer: "Consumer",
        commits: Commits,
        handler: Handler,
        concurrency: int,
        order_by: str | Callable[[AnyRecord], Hashable] | None,
        shutdown_timeout_s: float,
    ) -> None:
        if concurrency < 1:
            raise ConfigurationError(f"run: concurrency={concurrency} cannot be used: at least 1 is needed")
        lanes: dict[str, Callable[[AnyRecord], Hashable]] = {"key": by_key, "partition": by_partition}
        if isinstance(order_by, str) and order_by not in lanes:
            raise ConfigurationError(f"run: order_by={order_by!r} is not key, partition, a function or None")
        self._consumer = consumer
        self._commits = commits
        self._handler = handler
        self._concurrency = concurrency
        self._order = Order(lanes[order_by] if isinstance(order_by, str) else order_by)
        self._shutdown_timeout_s = shutdown_timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._committed: dict[TopicPartition, int] = {}
        self._committing: asyncio.Task[None] | None = None
        self._commit_at = 0.0

    async def run(self, *, handle_signals: bool) -> None:
        consumer, commits = self._consumer, self._commits
        if commits.managed is not None:
            raise ConfigurationError("run: this Consumer is being run already")
        commits.managed = self._before_revoke
        before, commits.lost = commits.lost, self._forget
        undo = self._take_signals() if handle_signals else []
        try:
            while not self._stopping.is_set() and not consumer.closed:
                await self._turn()
        finally:
            for restore in undo:
                restore()
            try:
                await self._finish()
            finally:
                commits.managed = None
                commits.lost = before
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Take no more records; `run` returns when those under way are handled and committed."""
        self._stopping.set()
        self._ended.set()

    # --- the loop -------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Take records as far as there is room, start what may start, and commit now and then."""
        room = self._concurrency * (WAITING_PER_HANDLER + 1) - self._order.unfinished
        self._ended.clear()
        try:
            # Even without room the consumer is polled: rebalances happen there.
            records = await self._consumer.getmany(
                timeout_ms=POLL_MS if room > 0 else 0, max_records=max(0, room)
            )
        except ClosedError:
            self._stopping.set()
            return
        for record in records:
            self._order.add(record)
        self._start()
        self._commit_if_due()
        if room <= 0 or (not records and self._order.unfinished):
            try:
                async with asyncio.timeout(POLL_MS / 1000):
                    await self._ended.wait()
            except TimeoutError:
                pass

    def _start(self) -> None:
        while self._order.running < self._concurrency and (record := self._order.next()) is not None:
            task = asyncio.create_task(self._handle(record))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(self, record: AnyRecord) -> None:
        try:
            await self._handler(record)
        except BaseException as error:
            self._order.failed(record)
            if not isinstance(error, asyncio.CancelledError):
                if self._failure is None:
                    self._failure = error
                self.stop()
            elif not self._stopping.is_set():
                raise
        else:
            self._order.handled(record)
            if not self._stopping.is_set():
                self._start()
        finally:
            self._ended.set()

    # --- commits --------------------------------------------------------------------------------------------

    def _commit_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        idle = self._committing is None or self._committing.done()
        if self._commits.possible and now >= self._commit_at and idle:
            self._commit_at = now + COMMIT_S
            self._committing = asyncio.create_task(
                self._commit(None), name="consumer: commit of finished records"
            )

    async def _commit(self, places: Collection[TopicPartition] | None) -> None:
        finished = {
            tp: each
            for tp, each in self._order.finished(places).items()
            if self._committed.get(tp) != each.offset
        }
        if not finished:
            return
        try:
            await self._consumer.commit(finished)
            self._committed.update({tp: each.offset for tp, each in finished.items()})
        except CommitFailedError as error:
            log.warning("runner.commit_refused", error=str(error))
        except KafkaError as error:
            log.warning("runner.commit_failed", error=str(error))

    async def _before_revoke(self, places: Collection[TopicPartition]) -> None:
        """Partitions go to others: let what runs for them end, drop what has not begun, and commit."""
        self._order.drop_waiting(places)
        busy = {id(task): task for task in self._tasks}
        if busy:
            await asyncio.wait(busy.values(), timeout=min(REVOKE_S, self._shutdown_timeout_s))
        if self._committing is not None and not self._committing.done():
            await asyncio.wait((self._committing,))
        if self._commits.possible:
            await self._commit(places)
        self._forget(places)

    def _forget(self, places: Collection[TopicPartition]) -> None:
        """Others have these partitions: what has not begun is not handled here, and nothing is committed for them."""
        self._order.drop_waiting(places)
        self._order.forget(places)
        for tp in places:
            self._committed.pop(tp, None)

    async def _finish(self) -> None:
        """Wait for handlers that run, then cancel them; commit what is finished."""
        self._stopping.set()
        self._order.drop_waiting()
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=self._shutdown_timeout_s)
            for task in late:
                task.cancel()
            if late:
                log.warning(
                    "runner.handlers_cancelled", handlers=len(late), timeout_s=self._shutdown_timeout_s
                )
                await asyncio.wait(late)
        if self._committing is not None and not self._committing.done():
            await asyncio.wait((self._committing,))
        if self._consumer.closed:
            return
        if self._commits.possible:
            await self._commit(None)
        for tp, offset in self._order.unfinished_from().items():
            if tp in self._consumer.assignment:
                self._consumer.seek(tp, offset)  # what was taken and not handled is still to be read

    # --- signals --------------------------------------------------------------------------------------------

    def _take_signals(self) -> list[Callable[[], None]]:
        """The first signal ends the run gracefully; the second one does what it did before."""
        if threading.current_thread() is not threading.main_thread():
            return []
        loop = asyncio.get_running_loop()
        undo: list[Callable[[], None]] = []

        def restore(number: int, before: Any) -> None:
            loop.remove_signal_handler(number)
            signal.signal(number, before)

        def received(number: int, before: Any) -> None:
            log.info("runner.stopping", signal=signal.Signals(number).name)
            restore(number, before)
            self.stop()

        for number in SIGNALS:
            before = signal.getsignal(number)
            try:
                loop.add_signal_handler(number, received, number, before)
            except (NotImplementedError, RuntimeError):
                continue
            undo.append(lambda number=number, before=before: restore(number, before))  # type: ignore[misc]
        return undo
