"""Has the leaders of a transaction's partitions write its end.

Markers come here when their decision is committed. They are sorted by the leader of each partition; one request at a
time goes to a leader, with all that has gathered for it. A partition without a leader waits for the image to name one,
and what was sent to a broker that leads no longer goes to the next leader at once. If a leader does not answer or
cannot write now, it is tried again, for as long as this coordinator is in charge; a partition whose topic was deleted
is done. When the last partition has answered, the transaction is complete.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import count, islice
from random import Random
from typing import Any, Protocol

from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.transactions.transaction import Markers
from rookery.broker.transactions.unreachable import Unreachable
from rookery.core.clock import Scheduler, Timer
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Changes, PartitionChange
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.peers import Peers
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_log = get_logger("broker.transactions")
PER_REQUEST = 500
"""Transactions that one request ends at most."""
PAUSE = BackoffSettings(first_s=0.02, max_s=0.5)

_DONE = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
_STOP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A newer coordinator or producer has been here: what is left is theirs to end."""


class MarkedShard(Protocol):
    """The shard whose transaction is ended."""

    @property
    def closed(self) -> bool: ...


class _Sending:
    """One transaction whose end is being written."""

    __slots__ = ("backoff", "ended", "left", "markers", "shard")

    def __init__(self, shard: MarkedShard, markers: Markers, backoff: Backoff) -> None:
        self.shard = shard
        self.markers = markers
        self.left = set(markers.partitions)
        self.backoff = backoff
        self.ended = False
        """The completion is written, or left to somebody else."""

    @property
    def over(self) -> bool:
        return self.ended or self.shard.closed


_Batch = dict[_Sending, list[TopicPartition]]


class _Lane:
    """What is meant for one leader."""

    __slots__ = ("asked", "busy", "limit", "waiting")

    def __init__(self) -> None:
        self.waiting: _Batch = {}
        self.asked: _Batch = {}
        """In the request under way, as far as its answer still matters."""
        self.limit: asyncio.Timeout | None = None
        """Ends the request under way."""
        self.busy = False

    def give_up(self) -> None:
        if self.limit is not None:
            self.limit.reschedule(asyncio.get_running_loop().time())


def _taken(batch: _Batch, which: Callable[[TopicPartition], bool]) -> _Batch:
    """Take these partitions out of the batch."""
    taken: _Batch = {}
    for sending, partitions in list(batch.items()):
        out = [each for each in partitions if which(each)]
        if not out:
            continue
        taken[sending] = out
        batch[sending] = [each for each in partitions if not which(each)]
        if not batch[sending]:
            del batch[sending]
    return taken


class MarkerSender:
    """`complete` notes in the shard in charge that a transaction is complete; it returns why that could not be
    written."""

    def __init__(
        self,
        cluster: ClusterPort,
        peers: Peers,
        scheduler: Scheduler,
        rng: Random,
        complete: Callable[[Any, Markers], KafkaError | None],
        *,
        listener: str,
        timeout_s: float,
    ) -> None:
        """`listener` is where brokers reach each other."""
        self._cluster = cluster
        self._peers = peers
        self._scheduler = scheduler
        self._rng = rng
        self._note = complete
        self._listener = listener
        self._timeout_s = timeout_s
        self._lanes: dict[int, _Lane] = {}
        self._unreachable = Unreachable()
        self._leaderless: dict[TopicPartition, list[_Sending]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._timers: dict[int, Timer] = {}
        self._timer_numbers = count()
        self.not_appended = 0
        """Transactions whose completion could not be written, and is tried again."""

    @property
    def waiting(self) -> int:
        """Transactions that wait for their turn at a leader, counted for each leader."""
        return sum(len(lane.waiting) for lane in self._lanes.values())

    @property
    def leaderless(self) -> int:
        """Markers that wait for their partition to have a leader."""
        return sum(len(waiting) for waiting in self._leaderless.values())

    def send(self, shard: MarkedShard, markers: Markers) -> None:
        """Take over what has been decided and is committed."""
        sending = _Sending(shard, markers, Backoff(PAUSE, self._rng))
        self._route(sending, sorted(sending.left))

    def publish(self, changes: Changes) -> None:
        """Other brokers lead some partitions now, or these have been deleted."""
        moved = {TopicPartition(each.topic, each.partition) for each in changes.partitions if _has_moved(each)}
        if not moved:
            return
        for each in sorted(moved & self._leaderless.keys()):
            for sending in self._leaderless.pop(each):
                self._route(sending, [each])
        for leader, lane in list(self._lanes.items()):
            elsewhere = {each for each in moved if not self._leads(leader, each)}
            for batch in (lane.asked, lane.waiting):
                for sending, partitions in _taken(batch, elsewhere.__contains__).items():
                    self._route(sending, partitions)
            if not lane.asked:
                lane.give_up()

    def _leads(self, broker: int, partition: TopicPartition) -> bool:
        topic = self._cluster.image.topic(partition.topic)
        found = topic.partitions.get(partition.partition) if topic is not None else None
        return found is not None and found.leader == broker

    def forget_closed(self) -> None:
        """What belongs to shards that are no longer in charge need not wait."""
        for partition, waiting in list(self._leaderless.items()):
            self._leaderless[partition] = left = [sending for sending in waiting if not sending.over]
            if not left:
                del self._leaderless[partition]

    async def serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for leader, lane in list(self._lanes.items()):
                    self._start(leader, lane)
                await asyncio.Event().wait()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def _later(self, sending: _Sending, then: Callable[..., None], *args: object) -> None:
        """Try again after a pause, unless the node stops meanwhile."""
        number = next(self._timer_numbers)

        def ring() -> None:
            del self._timers[number]
            then(sending, *args)

        self._timers[number] = self._scheduler.call_later(sending.backoff.failed(), ring)

    # --- who is to write it -----------------------------------------------------------------------------------

    def _route(self, sending: _Sending, partitions: Iterable[TopicPartition]) -> None:
        if sending.over:
            return
        image = self._cluster.image
        for each in partitions:
            topic = image.topic(each.topic)
            found = topic.partitions.get(each.partition) if topic is not None else None
            if found is None:
                sending.left.discard(each)
                _log.info("transaction.partition.gone", partition=str(each), id=sending.markers.transactional_id)
            elif found.has_leader:
                self._put(found.leader, sending, each)
            else:
                self._leaderless.setdefault(each, []).append(sending)
        if not sending.left:
            self._scheduler.call_soon(self._complete, sending)

    def _put(self, leader: int, sending: _Sending, partition: TopicPartition) -> None:
        lane = self._lanes.get(leader)
        if lane is None:
            lane = self._lanes[leader] = _Lane()
        lane.waiting.setdefault(sending, []).append(partition)
        self._start(leader, lane)

    def _start(self, leader: int, lane: _Lane) -> None:
        if not lane.busy and self._group is not None:
            lane.busy = True
            self._group.create_task(self._empty(leader, lane), name=f"markers for broker {leader}")

    # --- one leader -------------------------------------------------------------------------------------------

    async def _empty(self, leader: int, lane: _Lane) -> None:
        """The supervisor of what goes to one leader: one request after the other until nothing waits."""
        while lane.waiting:
            taken = dict(islice(lane.waiting.items(), PER_REQUEST))
            for sending in taken:
                del lane.waiting[sending]
            lane.asked = {sending: partitions for sending, partitions in taken.items() if not sending.over}
            if lane.asked:
                answer = await self._ask(leader, lane)
                asked, lane.asked = lane.asked, {}
                self._answered(leader, asked, answer)
        del self._lanes[leader]

    async def _ask(self, leader: int, lane: _Lane) -> WriteTxnMarkersResponse | None:
        """None where the leader could not be asked, or is not the leader any more."""
        broker = self._cluster.image.brokers.get(leader)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        if endpoint is None:
            return None
        request = WriteTxnMarkersRequest(
            markers=[_marker(sending.markers, partitions) for sending, partitions in lane.asked.items()]
        )
        address, transactions = (endpoint.host, endpoint.port), len(lane.asked)
        try:
            async with asyncio.timeout(None) as limit:
                lane.limit = limit
                answer = await self._peers.ask(address, WRITE_TXN_MARKERS, request, timeout_s=self._timeout_s)
            self._unreachable.answered(leader)
            return answer
        except (OSError, ConnectionLostError, KafkaError) as error:
            reason = "it leads none of their partitions any more" if limit.expired() else str(error)
            if self._unreachable.is_news(leader, self._scheduler.time()):
                _log.info("transaction.markers.not.sent", leader=leader, transactions=transactions, reason=reason)
        except Exception as error:
            _log.exception("transaction.markers.failed", error, leader=leader, transactions=transactions)
        finally:
            lane.limit = None
        return None

    def _answered(
        self,
        leader: int,
        asked: _Batch,
        answer: WriteTxnMarkersResponse | None,
    ) -> None:
        codes = {
            (each.producer_id, topic.name, partition.partition_index): partition.error_code
            for each in (answer.markers if answer is not None else ())
            for topic in each.topics
            for partition in topic.partitions
        }
        for sending, partitions in asked.items():
            if sending.over:
                continue
            again = []
            for each in partitions:
                code = codes.get((sending.markers.producer.id, *each))
                if code in _DONE:
                    sending.left.discard(each)
                elif code in _STOP:
                    sending.ended = True
                    _log.warning(
                        "transaction.markers.fenced", id=sending.markers.transactional_id, partition=str(each),
                        leader=leader, error=ErrorCode(code).name,
                    )  # fmt: skip
                else:
                    again.append(each)
            if again:
                self._later(sending, self._route, again)
            elif not sending.left:
                self._complete(sending)

    # --- the end ----------------------------------------------------------------------------------------------

    def _complete(self, sending: _Sending) -> None:
        """Written once: by the old rules the next transaction may look the same as this one. Where it could not be
        written the decision stands, and the note that it is carried out is written later."""
        if sending.over:
            return
        refusal = self._note(sending.shard, sending.markers)
        if refusal is None or coordinator_error(refusal) is ErrorCode.NOT_COORDINATOR:
            sending.ended = True
        else:
            self.not_appended += 1
            self._later(sending, self._complete_again)

    def _complete_again(self, sending: _Sending) -> None:
        self.not_appended -= 1
        self._complete(sending)


def _has_moved(change: PartitionChange) -> bool:
    before, after = change.before, change.after
    return before is None or after is None or before.leader != after.leader


def _marker(markers: Markers, partitions: Iterable[TopicPartition]) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=markers.producer.id,
        producer_epoch=markers.producer.epoch,
        transaction_result=markers.commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.version,
    )
