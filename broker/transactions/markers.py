"""Has the leaders of a transaction's partitions write its end.

Markers come here when their decision is committed. They are sorted by the leader of each partition; one request at a
time goes to a leader, with all that has gathered for it. A partition that has no leader, or whose leader does not
answer or cannot write now, is looked up and tried again, for as long as this coordinator is in charge; one whose topic
was deleted is done. When the last partition has answered, the transaction is complete.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from typing import Any, Protocol

from rookery.broker.coordination.reply import coordinator_error
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.transactions.state import Step
from rookery.broker.transactions.transaction import Markers
from rookery.core.clock import Scheduler
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
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

    def run(self, step: Step) -> None: ...


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


class _Lane:
    """What waits for one leader."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[_Sending, list[TopicPartition]] = {}
        self.busy = False


class MarkerSender:
    """`completion` makes the step that completes a transaction, in the shard that is in charge of it."""

    def __init__(
        self,
        cluster: ClusterPort,
        peers: Peers,
        scheduler: Scheduler,
        rng: Random,
        completion: Callable[[Any, Markers], Step],
        *,
        listener: str,
        timeout_s: float,
    ) -> None:
        """`listener` is where brokers reach each other."""
        self._cluster = cluster
        self._peers = peers
        self._scheduler = scheduler
        self._rng = rng
        self._completion = completion
        self._listener = listener
        self._timeout_s = timeout_s
        self._lanes: dict[int, _Lane] = {}
        self._group: asyncio.TaskGroup | None = None
        self.leaderless = 0
        """Partitions that wait for a leader."""
        self.not_appended = 0
        """Transactions whose completion could not be written, and is tried again."""

    @property
    def waiting(self) -> int:
        """Transactions that wait for their turn at a leader, counted for each leader."""
        return sum(len(lane.waiting) for lane in self._lanes.values())

    def send(self, shard: MarkedShard, markers: Markers) -> None:
        """Take over what has been decided and is committed."""
        sending = _Sending(shard, markers, Backoff(PAUSE, self._rng))
        self._route(sending, list(sending.left))

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for leader, lane in list(self._lanes.items()):
                self._start(leader, lane)
            await asyncio.Event().wait()

    # --- who is to write it -----------------------------------------------------------------------------------

    def _route(self, sending: _Sending, partitions: Iterable[TopicPartition]) -> None:
        if sending.over:
            return
        image = self._cluster.image
        leaderless = []
        for each in partitions:
            topic = image.topic(each.topic)
            found = topic.partitions.get(each.partition) if topic is not None else None
            if found is None:
                sending.left.discard(each)
                _log.info("transaction.partition.gone", partition=str(each), id=sending.markers.transactional_id)
            elif found.has_leader:
                self._put(found.leader, sending, each)
            else:
                leaderless.append(each)
        if leaderless:
            self.leaderless += len(leaderless)
            self._scheduler.call_later(sending.backoff.failed(), self._look_again, sending, leaderless)
        if not sending.left:
            self._scheduler.call_soon(self._complete, sending)

    def _look_again(self, sending: _Sending, partitions: list[TopicPartition]) -> None:
        self.leaderless -= len(partitions)
        self._route(sending, partitions)

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
            current = {sending: partitions for sending, partitions in taken.items() if not sending.over}
            if current:
                answer = await self._ask(leader, list(current.items()))
                self._answered(leader, current, answer)
        del self._lanes[leader]

    async def _ask(
        self, leader: int, asked: list[tuple[_Sending, list[TopicPartition]]]
    ) -> WriteTxnMarkersResponse | None:
        """None where the leader could not be asked."""
        broker = self._cluster.image.brokers.get(leader)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        if endpoint is None:
            return None
        request = WriteTxnMarkersRequest(markers=[_marker(sending.markers, parts) for sending, parts in asked])
        address = (endpoint.host, endpoint.port)
        try:
            return await self._peers.ask(address, WRITE_TXN_MARKERS, request, timeout_s=self._timeout_s)
        except (OSError, ConnectionLostError, KafkaError) as error:
            _log.info("transaction.markers.not.sent", leader=leader, transactions=len(asked), reason=str(error))
        except Exception as error:
            _log.exception("transaction.markers.failed", error, leader=leader, transactions=len(asked))
        return None

    def _answered(
        self,
        leader: int,
        asked: dict[_Sending, list[TopicPartition]],
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
                self._scheduler.call_later(sending.backoff.failed(), self._route, sending, again)
            elif not sending.left:
                self._complete(sending)

    # --- the end ----------------------------------------------------------------------------------------------

    def _complete(self, sending: _Sending) -> None:
        """Written once: by the old rules the next transaction may look the same as this one. Where it could not be
        written the decision stands, and the note that it is carried out is written later."""
        if sending.over:
            return
        step = self._completion(sending.shard, sending.markers)
        heard = Heard()
        step.answer(heard, None)
        sending.shard.run(step)
        if heard.refusal is None or coordinator_error(heard.refusal) is ErrorCode.NOT_COORDINATOR:
            sending.ended = True
        else:
            self.not_appended += 1
            self._scheduler.call_later(sending.backoff.failed(), self._complete_again, sending)

    def _complete_again(self, sending: _Sending) -> None:
        self.not_appended -= 1
        self._complete(sending)


class Heard:
    """Whether a step was refused at once, because it could not be written. That it is committed need not be awaited."""

    def __init__(self) -> None:
        self.refusal: KafkaError | None = None

    def complete(self, response: object) -> None:
        pass

    def refuse(self, error: KafkaError) -> None:
        self.refusal = error


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
