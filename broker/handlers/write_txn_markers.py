"""WriteTxnMarkers (27): a transaction coordinator has this broker end transactions on the partitions it leads.

Answered when the markers are committed; those for groups, when the group state has them too, so that a client that
fetches offsets after the end of a transaction sees what it committed (KAFKA-17507).
"""

from collections.abc import Callable
from typing import Any

from rookery.broker.coordination.reply import Gather, Reply
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.handlers.authorize import ALTER, CLUSTER_ACTION, cluster_denied
from rookery.broker.handlers.delayed_produce import DelayedProduce, Written
from rookery.broker.handlers.locate import Locator
from rookery.broker.replication.partition import ACKS_ALL, Partition
from rookery.broker.replication.waiters import FOR_COMMITTED, Waiters
from rookery.broker.server.client import Call
from rookery.broker.server.request_metrics import Traffic
from rookery.core.clock import Clock
from rookery.core.errors import ErrorCode, KafkaError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.write_txn_markers import (
    WRITE_TXN_MARKERS,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from rookery.core.wire.markers import EndMarker, build_marker
from rookery.core.wire.served import Served

_E = ErrorCode
_AS_LEADER = {
    _E.COORDINATOR_LOAD_IN_PROGRESS: _E.NOT_LEADER_OR_FOLLOWER,
    _E.COORDINATOR_NOT_AVAILABLE: _E.NOT_LEADER_OR_FOLLOWER,
    _E.NOT_COORDINATOR: _E.NOT_LEADER_OR_FOLLOWER,
    _E.FENCED_LEADER_EPOCH: _E.NOT_LEADER_OR_FOLLOWER,
    _E.UNKNOWN_LEADER_EPOCH: _E.NOT_LEADER_OR_FOLLOWER,
}
"""The coordinator of a transaction sends again to the leader of then; it does not know what a group's coordinator
says."""


WAIT_S_MAX = 5.0
"""For a marker to be committed: what else its coordinator has for this broker waits as long. The coordinator sends it
again."""


class WriteTxnMarkersHandler:
    served = Served(WRITE_TXN_MARKERS, 1, 2)

    def __init__(
        self,
        locator: Locator,
        waiters: Waiters[Partition],
        groups: GroupCoordinator,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms` is how long a coordinator waits for the answer. It is given well before that: who gives up
        learns nothing of the partitions that have their markers."""
        self._locator = locator
        self._waiters = waiters
        self._groups = groups
        self._clock = clock
        self._timeout_s = min(WAIT_S_MAX, timeout_ms / 2000)

    def handle(self, request: WriteTxnMarkersRequest, call: Call) -> Any:
        denied = cluster_denied(call, CLUSTER_ACTION, ALTER)
        if denied is not None:
            call.error(denied.code)
            return _denied(request, denied.code)
        results: list[WritableTxnMarkerResult] = []
        written: list[Written] = []
        ended: list[_Ended] = []
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                answers = [WritableTxnMarkerPartitionResult(partition_index=each) for each in topic.partition_indexes]
                topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=answers))
                for answer in answers:
                    place = TopicPartition(topic.name, answer.partition_index)
                    if place.topic == self._groups.topic.name:
                        ended.append(_Ended(answer, marker, place, call))
                    else:
                        self._write(marker, place, answer, written, call)
            results.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        response = WriteTxnMarkersResponse(markers=results)
        reply: Reply[WriteTxnMarkersResponse] = Reply(call, lambda code: response)
        gather: Gather[bool] = Gather(len(ended) + 1, lambda parts: reply.complete(response))
        for number, each in enumerate(ended):
            each.done = _putter(gather, number)
            self._end(each)
        self._await(written, call, _putter(gather, len(ended)))
        return reply.outcome(blocks=False)

    def _write(
        self,
        marker: WritableTxnMarker,
        place: TopicPartition,
        answer: WritableTxnMarkerPartitionResult,
        written: list[Written],
        call: Call,
    ) -> None:
        try:
            partition = self._hosted(place)
            partition.check_leader()
            epoch, now_ms = partition.state.leader_epoch, self._clock.wall_ms()
            batch = build_marker(
                EndMarker(marker.transaction_result, marker.coordinator_epoch),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                timestamp=now_ms,
            )
            appended = partition.append_own(
                batch, epoch, now_ms, transaction_version=marker.transaction_version
            )
        except KafkaError as error:
            _refuse(answer, error, call)
            return
        if not partition.is_acknowledged(appended, ACKS_ALL):
            written.append(Written(answer, place.topic, partition, appended, epoch, Traffic()))

    def _hosted(self, place: TopicPartition) -> Partition:
        """Raises UnknownTopicOrPartitionError for a partition without a replica here, as for one that is not there."""
        partition = self._locator.here(*place)
        if partition is None:
            raise UnknownTopicOrPartitionError(f"{place} has no replica on this broker")
        return partition

    def _end(self, ended: "_Ended") -> None:
        marker = ended.marker
        try:
            self._hosted(ended.place)
            shard = self._groups.shard_at(ended.place.partition)
        except KafkaError as error:
            ended.refuse(error)
            return
        shard.end(
            marker.producer_id,
            marker.producer_epoch,
            EndMarker(marker.transaction_result, marker.coordinator_epoch),
            ended,
            transaction_version=marker.transaction_version,
        )

    def _await(self, written: list[Written], call: Call, done: Callable[[], None]) -> None:
        if not written:
            done()
            return
        delayed = DelayedProduce(
            written, None, ACKS_ALL, lambda each, error: _refuse(each.answer, error, call)
        )

        def settled(response: object, broken: BaseException | None) -> None:
            for each in written if broken is not None else ():
                _refuse(each.answer, NotLeaderOrFollowerError(f"{each.partition.topic_partition}: {broken}"), call)
            done()

        delayed.pending.receive(settled)
        self._waiters.park(delayed, delayed.partitions, self._timeout_s, waits_for=FOR_COMMITTED)


class _Ended:
    """Waits for the end of a transaction that committed offsets."""

    def __init__(
        self,
        answer: WritableTxnMarkerPartitionResult,
        marker: WritableTxnMarker,
        place: TopicPartition,
        call: Call,
    ) -> None:
        self.answer = answer
        self.marker = marker
        self.place = place
        self._call = call
        self.done: Callable[[], None] = lambda: None

    def complete(self, response: object) -> None:
        self.done()

    def refuse(self, error: KafkaError) -> None:
        _refuse(self.answer, error, self._call)
        self.done()


def _denied(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=each, error_code=code)
                            for each in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _putter(gather: Gather[bool], number: int) -> Callable[[], None]:
    return lambda: gather.put(number, True)


def _refuse(answer: WritableTxnMarkerPartitionResult, error: KafkaError, call: Call) -> None:
    code = _AS_LEADER.get(error.code, error.code)
    call.error(code)
    answer.error_code = code
