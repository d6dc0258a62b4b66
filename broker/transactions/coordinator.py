"""The transaction coordinator of a broker: its shards, how a request reaches one of them, timeouts and expiry."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from random import Random
from typing import NamedTuple

from rookery.broker.coordination.commit_queue import CommitQueue
from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.coordination.shard import Shard, instant
from rookery.broker.coordination.shards import Shards
from rookery.broker.coordination.step import Instant, Receiver
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.waiters import Waiters
from rookery.broker.transactions.markers import MarkerSender
from rookery.broker.transactions.producer_ids import ProducerIds
from rookery.broker.transactions.records import TransactionRecord, decode, encode
from rookery.broker.transactions.settings import transaction_options, transactions_topic
from rookery.broker.transactions.state import Refused, Step, TransactionsState
from rookery.broker.transactions.transaction import NEVER_STORED, Markers, State
from rookery.core.clock import Clock, Scheduler, Timer
from rookery.core.config import node, transactions
from rookery.core.config.options import Settings
from rookery.core.errors import ConcurrentTransactionsError, ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.features import TRANSACTION_VERSION
from rookery.core.metadata.image import Changes
from rookery.core.metrics import Metrics, Sample
from rookery.core.net.peers import Peers
from rookery.core.service import Service

_log = get_logger("broker.transactions")
MARKER_METRICS = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
COORDINATOR_METRICS = "kafka_server_transaction_coordinator_metrics_"
PORTION = 100
"""Transactions ended by their timeout before others get their turn."""
ENDING_MS = 50
"""How long after the decision a transaction is expected to be complete. The first request of the next one waits for it
until then: clients that are refused pause for longer than the markers take."""

_TAKES_NOTHING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""What is wrong with a log as a whole, not with one record."""

Decide = Callable[[TransactionsState, Instant], Step]


class TransactionShard(Shard[TransactionRecord]):
    """`transactions` is what the log says; use it to decide, then `run`."""

    transactions: TransactionsState


class _Held(NamedTuple):
    """A request that waits for the end of a transaction."""

    reply: Receiver
    decide: Decide


class _Ending(NamedTuple):
    timer: Timer
    held: list[_Held]


class TransactionCoordinator(Service):
    name = "transaction coordinator"

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterPort,
        controller: ControllerPort,
        partitions: Partitions,
        waiters: Waiters[Partition],
        clock: Clock,
        scheduler: Scheduler,
        random: Random,
        executor: Executor,
        peers: Peers,
        *,
        listener: str,
    ) -> None:
        """`listener` is where brokers reach each other."""
        self.topic = transactions_topic(settings)
        self.ids = ProducerIds(controller)
        self._options = transaction_options(settings)
        self._commit_timeout_s = settings[node.REQUEST_TIMEOUT_MS] / 1000
        self._timeout_interval_s = settings[transactions.ABORT_TIMED_OUT_INTERVAL_MS] / 1000
        self._expiry_interval_s = settings[transactions.REMOVE_EXPIRED_INTERVAL_MS] / 1000
        self._cluster = cluster
        self._waiters = waiters
        self._clock = clock
        self._scheduler = scheduler
        self._peers = peers
        self.sender = MarkerSender(
            cluster,
            peers,
            scheduler,
            random,
            self._complete,
            listener=listener,
            timeout_s=settings[node.REQUEST_TIMEOUT_MS] / 1000,
        )
        self._ending: dict[str, _Ending] = {}
        """Requests that wait for the end of a transaction, by its id."""
        self._shards: Shards[TransactionRecord, TransactionShard] = Shards(
            self,
            cluster,
            partitions,
            clock,
            executor,
            slice_bytes=settings[transactions.STATE_LOG_LOAD_BUFFER_SIZE],
        )

    # --- requests ---------------------------------------------------------------------------------------------

    def run(self, transactional_id: str, reply: Receiver, decide: Decide, *, patient: bool = False) -> None:
        """Decide a request about one transactional id and carry it out; `reply` gets the answer, or the reason why
        there is none. A refusal waits like an answer: what it was decided on could still be lost. Where the last
        transaction has just been decided, a `patient` request is decided when that is complete."""
        try:
            shard = self.shard_of(transactional_id)
        except KafkaError as error:
            reply.refuse(error)
            return
        now = self.now()
        try:
            step = decide(shard.transactions, now)
        except KafkaError as error:
            if patient and isinstance(error, ConcurrentTransactionsError):
                left_ms = ENDING_MS - shard.transactions.ending_for(transactional_id, now)
                if 0 < left_ms <= ENDING_MS:
                    self._wait_for_end(transactional_id, left_ms, _Held(reply, decide))
                    return
            step = Step()
            step.answer(Refused(reply, error), None)
        shard.run(step)

    @property
    def waiting_for_end(self) -> int:
        """Requests that wait for the end of a transaction."""
        return sum(len(ending.held) for ending in self._ending.values())

    def _wait_for_end(self, transactional_id: str, left_ms: int, held: "_Held") -> None:
        ending = self._ending.get(transactional_id)
        if ending is None:
            timer = self._scheduler.call_later(left_ms / 1000, self._ended, transactional_id)
            ending = self._ending[transactional_id] = _Ending(timer, [])
        ending.held.append(held)

    def _ended(self, transactional_id: str) -> None:
        """Decide what has waited, whether the transaction is complete or takes too long. Nothing waits twice."""
        ending = self._ending.pop(transactional_id, None)
        if ending is not None:
            ending.timer.cancel()
            for reply, decide in ending.held:
                self.run(transactional_id, reply, decide)

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """Raises where this broker does not coordinate the id, or not yet."""
        return self._shards.shard_of(transactional_id)

    @property
    def shards(self) -> list[TransactionShard]:
        """Those that serve now."""
        return list(self._shards)

    @property
    def loading(self) -> bool:
        """Whether some of this broker's shards do not serve yet."""
        return self._shards.loading

    @property
    def version(self) -> int:
        """The `transaction.version` that the cluster has agreed on."""
        return self._cluster.image.features.get(TRANSACTION_VERSION, 0)

    def now(self) -> Instant:
        return instant(self._clock)

    def call_later(self, delay_s: float, then: Callable[[], None]) -> Timer:
        return self._scheduler.call_later(delay_s, then)

    def publish(self, changes: Changes) -> None:
        """Lead what the image says, and end transactions where their partitions are led now."""
        self._shards.follow(changes.after)
        self.sender.publish(changes)

    def publish_metrics(self, metrics: Metrics) -> None:
        self._shards.publish_metrics(metrics, COORDINATOR_METRICS)
        metrics.read(
            "rookery_transactions",
            "Transactional ids that this broker coordinates, by state.",
            self._by_state,
            labels=("state",),
        )
        for name, text, value in (
            ("unknowndestination", "Markers that wait for a leader.", lambda: self.sender.leaderless),
            ("logappendretry", "Transactions whose completion has yet to be stored.", lambda: self.sender.not_appended),
        ):
            metrics.read_value(f"{MARKER_METRICS}_{name}queuesize", text, value)

    def _by_state(self) -> Iterable[Sample]:
        count = sum((shard.transactions.by_state for shard in self.shards), Counter[State]())
        return [((state.title,), count[state]) for state in State if state not in NEVER_STORED]

    # --- what makes these shards those of transactions --------------------------------------------------------

    def decode(self, key: bytes | None, value: bytes | None) -> TransactionRecord | None:
        return decode(key, value)

    def shard(self, partition: Partition, epoch: int) -> TransactionShard:
        state = TransactionsState(self._options, epoch, self.ids.take, lambda: self.version)
        commits = CommitQueue(
            self._waiters,
            partition,
            self._commit_timeout_s,
            self._scheduler.time,
            lambda markers: self.sender.send(shard, markers),
        )
        shard = TransactionShard(
            partition,
            epoch,
            state,
            lambda record: encode(record, self.version),
            commits,
            self._clock,
            on_lost=self._shards.lost,
        )
        shard.transactions = state
        return shard

    def activated(self, shard: TransactionShard) -> None:
        """What was under way goes on by the step that loading made."""
        self.sender.forget_closed()

    def _complete(self, shard: TransactionShard, markers: Markers) -> KafkaError | None:
        """All markers of a transaction are written. Returns why that could not be noted."""
        refusal = _write(shard, shard.transactions.markers_written(markers, self.now()))
        if refusal is None:
            self._ended(markers.transactional_id)
        return refusal

    # --- the service ------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.ids.serve(), name="producer ids")
            group.create_task(self._shards.serve(), name=self._shards.name)
            group.create_task(self.sender.serve(), name="transaction markers")
            group.create_task(self._time_out(), name="transaction timeouts")
            group.create_task(self._expire(), name="expiry of transactional ids")

    async def stop(self) -> None:
        await self._shards.stop()
        self._peers.close()

    async def _time_out(self) -> None:
        while True:
            await asyncio.sleep(self._timeout_interval_s)
            for shard in self.shards:
                await self.time_out_in(shard)

    async def time_out_in(self, shard: TransactionShard) -> None:
        """Abort what takes too long in one shard, in portions, as long as its log takes it."""
        for number, transactional_id in enumerate(shard.transactions.overdue(self.now())):
            if shard.closed:
                return
            try:
                step = shard.transactions.time_out(transactional_id, self.now())
            except KafkaError as error:
                _log.warning("transaction.not.timed.out", id=transactional_id, reason=str(error))
                return
            refusal = _write(shard, step)
            if refusal is not None:
                if coordinator_error(refusal) in _TAKES_NOTHING:
                    return  # the others would fare no better: all are looked at again later
            elif step.records:
                _log.info("transaction.timed.out", id=transactional_id)
            if number % PORTION == PORTION - 1:
                await asyncio.sleep(0)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self._expiry_interval_s)
            for shard in self.shards:
                self.expire_in(shard)
                await asyncio.sleep(0)

    def expire_in(self, shard: TransactionShard) -> None:
        """Forget the unused ids of one shard."""
        step = shard.transactions.expire(self.now())
        if step.records and not shard.closed:
            place = str(shard.partition.topic_partition)
            _log.info("transactional.ids.expired", partition=place, ids=len(step.records))
            shard.run(step)


class _Written:
    """Whether a step was refused at once, because it could not be written. That it is committed need not be awaited."""

    def __init__(self) -> None:
        self.refusal: KafkaError | None = None

    def complete(self, response: object) -> None:
        pass

    def refuse(self, error: KafkaError) -> None:
        self.refusal = error


def _write(shard: TransactionShard, step: Step) -> KafkaError | None:
    written = _Written()
    step.answer(written, None)
    shard.run(step)
    return written.refusal
