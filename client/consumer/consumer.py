"""The consumer as users see it.

Background tasks fetch, keep the membership of the group and find positions (`Engine`). Whatever concerns the user's own
code happens within the user's own calls: records are handed out, partitions come and go, listeners run. A record counts
as processed when the user asks for the next one.
"""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any

from rookery.client.consumer import options
from rookery.client.consumer.calls import ConsumerCalls
from rookery.client.consumer.commits import Commits
from rookery.client.consumer.dead_letters import Unreadable
from rookery.client.consumer.deserializing import AnyRecord, Opener
from rookery.client.consumer.engine import Engine, fetch_limits
from rookery.client.consumer.fetches import Fetches
from rookery.client.consumer.listener import RebalanceListener, call
from rookery.client.consumer.membership import Rebalance
from rookery.client.consumer.partition import Chunk, Partition
from rookery.client.consumer.reading import Reading
from rookery.client.consumer.runner import Handler, Runner
from rookery.client.consumer.signal import Signal
from rookery.client.consumer.subscription import NOTHING, Subscription, subscription
from rookery.client.consumer.watch import PollWatch
from rookery.client.errors import ClosedError, ConcurrentUseError, IllegalStateError, WakeupError
from rookery.client.options import DEFAULT_API_TIMEOUT_MS
from rookery.client.serializers import deserializer
from rookery.client.session import Session
from rookery.client.types import Columns, GroupMetadata, TopicPartition
from rookery.core.clock import Clock, SystemClock
from rookery.core.event_logging import get_logger
from rookery.core.net.network import Network

log = get_logger("client.consumer")
POLL_MS = 1000


class Consumer(ConsumerCalls):
    """Reads topics, alone or in a group.

        async with Consumer("t", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            async for record in consumer:
                ...

    Options are Kafka's, as keywords (``max_poll_records=100``) or in a mapping among the arguments
    (``{"max.poll.records": 100}``).
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        listener: RebalanceListener | None = None,
        network: Network | None = None,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> None:
        dotted = {name: value for each in topics if isinstance(each, Mapping) for name, value in each.items()}
        names = [each for each in topics if not isinstance(each, Mapping)]
        self._settings = settings = options.consumer_settings(keywords, dotted)
        self._session = Session("Consumer", settings, network)
        self._clock = clock or SystemClock()
        self._rng = Random()
        self._fetches = Fetches(fetch_limits(settings))
        self._reading = Reading(
            self._fetches,
            Opener(
                deserializer(settings[options.KEY_DESERIALIZER]),
                deserializer(settings[options.VALUE_DESERIALIZER]),
                settings[options.ON_DESERIALIZE_ERROR],
            ),
        )
        self._subscription = NOTHING
        self._listener = listener
        self._engine_or_none: Engine | None = None
        self._commits = Commits(self._fetches, settings)
        self._events = Signal()
        self._attention = False
        self._woken = False
        self._polling = False
        self._thread = threading.get_ident()
        self._rebalancing: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._watch = PollWatch(
            settings[options.MAX_POLL_INTERVAL_MS] / 1000,
            is_busy=self._is_busy,
            progress=lambda: self._reading.progress,
            commit=self._commit_now,
            expire=self._expire,
        )
        self._unreadable = Unreadable(settings)
        if names:
            self.subscribe(names)

    # --- life -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "Consumer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # of the user's code, perhaps about the last record: that must be read again
            self._commits.end_automatic()
        await self.close()

    async def start(self) -> None:
        """Connect; a wrong address or password is raised here. Calls after the first do nothing."""
        if self._engine_or_none is not None:
            self._check()
            return
        await self._session.open()
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._engine_or_none = engine = Engine(
            self._settings,
            self._session.cluster,
            self._fetches,
            self._clock,
            self._rng,
            self._member,
            self._event,
            self._events.notify,
            self._refreshed,
        )
        self._commits.start(engine.offsets)
        engine.start()
        engine.spawn(self._watch.run(), "watch")
        self._apply_subscription()

    async def close(self, timeout_s: float | None = None) -> None:
        """Commit (with auto-commit), leave the group, and close the connections; at most so long. Iterations end.
        Calls after the first wait for its end."""
        if self._engine_or_none is None:
            await self._session.close()
            return
        if self._closing is None:
            limit_s = self._settings[options.CLOSE_TIMEOUT_MS] / 1000 if timeout_s is None else timeout_s
            self._closing = asyncio.create_task(self._close(limit_s), name="consumer: close")
            self._event()
        if asyncio.current_task() is not self._rebalancing:
            await asyncio.shield(self._closing)

    async def _close(self, timeout_s: float) -> None:
        engine = self._engine
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            async with asyncio.timeout_at(deadline):
                await self._give_up_all()
        except TimeoutError:
            log.warning("consumer.close_timed_out", timeout_s=timeout_s)
        except Exception as error:
            log.exception("consumer.listener_failed", error)
        try:
            await engine.stop()
            left = max(0.1, deadline - asyncio.get_running_loop().time())
            if engine.group is not None:
                await engine.group.leave(left)
            if engine.crash is None:
                await engine.fetcher.end_sessions()
            await self._unreadable.close(max(0.1, deadline - asyncio.get_running_loop().time()))
        finally:
            engine.close()
            self._fetches.partitions.clear()
            await self._session.close()

    async def _give_up_all(self) -> None:
        """The last commit and the listener's last call."""
        if self._rebalancing is not None:
            await asyncio.wait((self._rebalancing,))
        await self._commits.commit_before_revoke(list(self._fetches.partitions))
        await self._commits.drain()
        owned = self._owned()
        if owned and self._listener is not None:
            await call(self._listener.on_partitions_revoked, sorted(owned))

    @property
    def _engine(self) -> Engine:
        if self._engine_or_none is None:
            self._session.check_usable()
            raise IllegalStateError(
                "this Consumer is not open", "Use `async with Consumer(...)`, or await `start()` first"
            )
        return self._engine_or_none

    def _check(self) -> None:
        """Raise if the consumer cannot be used now, or not from here."""
        if self.closed and (self._closing is None or asyncio.current_task() is not self._closing):
            raise ClosedError("this Consumer is closed", "Make a new one")
        if threading.get_ident() != self._thread:
            raise ConcurrentUseError(
                "this Consumer was opened by another thread",
                "Use each Consumer from one thread; only wakeup() may be called from others",
            )
        if self._engine_or_none is not None:
            self._session.check_usable()

    # --- what to read ---------------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, or all whose whole name fits a pattern. In a group its members share the partitions; without
        one, this consumer reads all of them."""
        self._check()
        self._refuse_mixing(by_hand=False)
        by_coordinator = (
            bool(self._settings[options.GROUP_ID]) and options.protocols(self._settings)[0] == "consumer"
        )
        self._subscription = subscription(topics, pattern, by_coordinator=by_coordinator)
        self._listener = listener or self._listener
        self._apply_subscription()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's help. What is read already goes on where it is."""
        self._check()
        self._refuse_mixing(by_hand=True)
        wanted = {TopicPartition(*each) for each in partitions}
        self._subscription = Subscription(frozenset(tp.topic for tp in wanted), by_hand=True)
        self._set_partitions(wanted)
        self._apply_subscription()

    async def unsubscribe(self) -> None:
        """Read nothing; leave the group."""
        self._check()
        if asyncio.current_task() is self._rebalancing:
            raise IllegalStateError(
                "a rebalance listener must not unsubscribe", "Return from the listener, and call it then"
            )
        await self._give_up_all()
        if self._engine.group is not None and not self._subscription.by_hand:
            await self._engine.group.leave(self._settings[DEFAULT_API_TIMEOUT_MS] / 1000)
        self._subscription = NOTHING
        self._set_partitions(set())

    def _refuse_mixing(self, *, by_hand: bool) -> None:
        if not self._subscription.empty and self._subscription.by_hand != by_hand:
            raise IllegalStateError("subscribe and assign cannot be mixed", "Call unsubscribe() first")

    def _apply_subscription(self) -> None:
        """Bring group and metadata in line with what is subscribed to."""
        engine = self._engine_or_none
        wanted = self._subscription
        if engine is None or wanted.empty:
            return
        engine.metadata.want(wanted.topics, every=wanted.pattern is not None)
        if wanted.by_hand:
            engine.positions.notify()
            return
        topics = wanted.matching(
            engine.metadata.topics(internal=not self._settings[options.EXCLUDE_INTERNAL_TOPICS])
        )
        if engine.group is None:
            counts = engine.metadata.counts()
            self._set_partitions(
                {TopicPartition(name, index) for name in topics for index in range(counts.get(name, 0))}
            )
        elif topics or wanted.coordinator_pattern:
            engine.group.subscribe(topics, wanted.coordinator_pattern)

    def _set_partitions(self, wanted: Collection[TopicPartition]) -> None:
        """Without a group: read exactly these."""
        held = self._fetches.partitions
        for tp in [tp for tp in held if tp not in wanted]:
            del held[tp]
        for tp in sorted(wanted):
            if tp not in held:
                held[tp] = Partition(tp)
        self._moved()

    def _moved(self) -> None:
        """Partitions or positions were changed from outside."""
        self._attention = True
        if self._engine_or_none is not None:
            self._engine_or_none.positions.notify()
            self._engine_or_none.fetcher.notify()

    def _refreshed(self) -> None:
        """Metadata is new."""
        engine = self._engine
        self._apply_subscription()
        if engine.group is not None:
            engine.group.topics_known()
            engine.metadata.want(
                self._subscription.topics | {tp.topic for tp in self._fetches.partitions},
                every=self._subscription.pattern is not None,
            )
        engine.positions.notify()
        engine.fetcher.notify()
        self._events.notify()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._fetches.partitions)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that were subscribed to by name."""
        return frozenset() if self._subscription.by_hand else self._subscription.topics

    # --- records --------------------------------------------------------------------------------------------

    async def getmany(self, *, timeout_ms: int = POLL_MS, max_records: int | None = None) -> list[AnyRecord]:
        """The next records, as soon as there are some; none after the timeout."""
        return await self._next(self._reading.take, timeout_ms, max_records)

    async def getcolumns(
        self, *, timeout_ms: int = POLL_MS, max_records: int | None = None
    ) -> list[Columns[Any, Any]]:
        """As `getmany`, with the records of each partition in columns: the quickest way to read in bulk."""
        return await self._next(self._reading.take_columns, timeout_ms, max_records)

    async def _next(self, take: Callable[[int], list[Any]], timeout_ms: int, max_records: int | None) -> list[Any]:
        most = self._settings[options.MAX_POLL_RECORDS] if max_records is None else max_records
        self._enter()
        try:
            deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
            while True:
                if await self._attend(deadline):
                    taken = take(most)
                    aside = bool(self._reading.set_aside)
                    if aside:
                        await self._set_aside(taken)
                    if taken:
                        self._engine.fetcher.notify()
                        return taken
                    if aside:
                        continue
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    await asyncio.sleep(0)  # a loop of calls without a timeout must not keep the fetches from running
                    return []
                await self._events.wait(left)
        finally:
            self._leave()

    async def poll(
        self, timeout_ms: int = POLL_MS, max_records: int | None = None
    ) -> dict[TopicPartition, list[AnyRecord]]:
        """As `getmany`, by partition."""
        found: dict[TopicPartition, list[AnyRecord]] = {}
        for record in await self.getmany(timeout_ms=timeout_ms, max_records=max_records):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def getone(self, timeout_ms: int | None = None) -> AnyRecord | None:
        """The next record; None after the timeout. Without one it is waited for."""
        while True:
            records = await self.getmany(
                timeout_ms=POLL_MS if timeout_ms is None else timeout_ms, max_records=1
            )
            if records or timeout_ms is not None:
                return records[0] if records else None

    def __aiter__(self) -> AsyncIterator[AnyRecord]:
        return self._records()

    async def __anext__(self) -> AnyRecord:
        try:
            record = await self.getone()
        except ClosedError:
            raise StopAsyncIteration from None
        assert record is not None
        return record

    async def _records(self) -> AsyncIterator[AnyRecord]:
        """All records, until the consumer is closed."""
        while (chunk := await self._next_chunk()) is not None:
            records, before = chunk.records, chunk.taken
            try:
                for taken in range(before + 1, len(records) + 1):
                    chunk.taken = taken
                    yield records[taken - 1]
                    if self._attention or chunk.taken != taken:
                        break
            finally:
                self._reading.handed_out += chunk.taken - before

    async def _next_chunk(self) -> Chunk | None:
        """The chunk to iterate over next; None when the consumer is closed."""
        if self.closed:
            return None
        self._enter()
        try:
            while True:
                try:
                    await self._attend(float("inf"))
                except ClosedError:
                    return None
                chunk = self._reading.chunk()
                aside = bool(self._reading.set_aside)
                if aside:
                    await self._set_aside()
                if chunk is not None:
                    self._engine.fetcher.notify()
                    return chunk
                if aside:
                    continue
                await self._events.wait()
        finally:
            self._leave()

    def _enter(self) -> None:
        self._check()
        if asyncio.current_task() is self._rebalancing:
            raise IllegalStateError(
                "a rebalance listener must not poll", "Return from the listener; the poll under way goes on"
            )
        if self._polling:
            raise ConcurrentUseError(
                "another task is polling this Consumer",
                "Poll in one task and pass the records on, or use `run`",
            )
        _ = self._engine
        if self._subscription.empty:
            raise IllegalStateError("this Consumer reads nothing yet", "Call subscribe() or assign() first")
        self._polling = True

    def _leave(self) -> None:
        self._polling = False
        self._watch.polled()

    async def _attend(self, deadline: float) -> bool:
        """What is to be done in the user's call before records are handed out; False if the time is over before."""
        engine = self._engine
        self._attention = False
        if self._closing is not None:
            raise ClosedError("this Consumer is closed", "Make a new one")
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")
        if engine.crash is not None:
            raise engine.crash
        self._commits.commit_if_due()
        if engine.group is None:
            return True
        while True:
            if self._rebalancing is None:
                if engine.group.failure is not None:
                    raise engine.group.failure
                pending = engine.group.pending
                if pending is None:
                    return True
                self._watch.polled()
                self._rebalancing = asyncio.create_task(self._rebalance(pending), name="consumer: rebalance")
            left = (
                None if deadline == float("inf") else max(0.0, deadline - asyncio.get_running_loop().time())
            )
            done, _ = await asyncio.wait((self._rebalancing,), timeout=left)
            if not done:
                return False
            task, self._rebalancing = self._rebalancing, None
            task.result()

    async def _rebalance(self, pending: Rebalance) -> None:
        """Take and give partitions. Runs to its end even if the poll that began it is cancelled."""
        assert self._engine.group is not None
        held = self._fetches.partitions
        revoked, assigned = sorted(pending.revoke & held.keys()), sorted(pending.assign)
        log.info(
            "group.rebalanced",
            group=self._engine.group.id,
            revoked=[str(tp) for tp in revoked],
            assigned=[str(tp) for tp in assigned],
            lost=pending.lost,
            reason="" if self._engine.group.membership is None else self._engine.group.membership.reason,
        )
        try:
            if revoked:
                await self._revoke(revoked, lost=pending.lost)
        finally:
            for tp in revoked:
                held.pop(tp, None)
            for tp in assigned:
                held.setdefault(tp, Partition(tp))
            try:
                if assigned and self._listener is not None:
                    await call(self._listener.on_partitions_assigned, assigned)
            finally:
                self._engine.group.rebalanced(pending)
                self._engine.metadata.want(
                    self._subscription.topics | {tp.topic for tp in held},
                    every=self._subscription.pattern is not None,
                )
                self._moved()

    async def _revoke(self, revoked: list[TopicPartition], *, lost: bool) -> None:
        for tp in revoked:
            self._fetches.partitions[tp].revoking = True
        if lost:
            self._commits.lost(revoked)
        else:
            await self._commits.commit_before_revoke(revoked)
        if self._listener is not None:
            method = self._listener.on_partitions_lost if lost else self._listener.on_partitions_revoked
            await call(method, revoked)

    async def _set_aside(self, taken: Collection[AnyRecord | Columns[Any, Any]] = ()) -> None:
        """Records that could not be deserialized are skipped or kept elsewhere. If that fails or is cancelled, they are
        read again, and so are those `taken` by the call, which never reach the user."""
        records, self._reading.set_aside = self._reading.set_aside, []
        try:
            await self._unreadable.put(records)
        except BaseException:
            self._fetches.read_again([*taken, *(record for record, _ in records)])
            self._moved()
            raise

    @property
    def skipped(self) -> int:
        """Records that could not be deserialized and were not handed out."""
        return self._unreadable.count

    def wakeup(self) -> None:
        """End the poll under way, or the next one, with WakeupError. From any thread, and from signal handlers."""
        engine = self._engine_or_none
        if engine is not None and not self.closed:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._woken = True
        self._event()

    def _event(self) -> None:
        self._attention = True
        self._events.notify()

    # --- for the watch, the commits and the group -----------------------------------------------------------

    def _is_busy(self) -> bool:
        """Whether a group waits for this consumer's next poll."""
        engine = self._engine
        if engine.group is None or engine.group.membership is None or self._subscription.by_hand:
            return False
        waiting = self._polling and self._rebalancing is None
        return not waiting and not self.closed and engine.group.membership.state not in ("out", "leaving")

    def _commit_now(self) -> None:
        if self._commits.due:
            self._event()  # an iteration may be waiting: everything it handed out is processed

    def _expire(self) -> None:
        if self._engine.group is not None:
            self._engine.group.expire()

    def _member(self) -> GroupMetadata | None:
        group = self._engine.group
        if group is None:
            return None
        return GroupMetadata(group.id) if self._subscription.by_hand else group.member

    def _owned(self) -> frozenset[TopicPartition]:
        """What the group gave this consumer."""
        group = None if self._engine_or_none is None else self._engine_or_none.group
        return (
            frozenset()
            if group is None or self._subscription.by_hand
            else frozenset(self._fetches.partitions)
        )

    # --- more -----------------------------------------------------------------------------------------------

    async def run(
        self,
        handler: Handler,
        *,
        concurrency: int = 16,
        order_by: str | Callable[[AnyRecord], Hashable] | None = "key",
        shutdown_timeout_s: float = 20.0,
        handle_signals: bool = True,
    ) -> None:
        """Call `handler(record)` for every record until the consumer is closed or stopped by a signal.

        At most `concurrency` calls run at once. Records with the same key (``order_by="key"``) or of the same partition
        (``"partition"``) are handled in their order, one after the other; a function
        names what shares an order; with None there is none. Only what was handled,
        with everything before it, is committed. An error of the handler ends the run after the others have finished.
        """
        runner = Runner(self, self._commits, handler, concurrency, order_by, shutdown_timeout_s)
        await runner.run(handle_signals=handle_signals)

    @property
    def closed(self) -> bool:
        return self._closing is not None or self._session.closed
