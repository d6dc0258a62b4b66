"""DeleteRecords (21): let partitions begin later; -1 stands for the high watermark. Answered when the logs of all
in-sync replicas begin there: whichever replica leads next, nothing that was deleted comes back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rookery.broker.handlers.authorize import DELETE, check_topic
from rookery.broker.handlers.locate import Locator
from rookery.broker.log.partition_log import HIGH_WATERMARK
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.core.errors import ErrorCode, KafkaError, PolicyViolationError
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from rookery.core.wire.served import Served


class Deleted(NamedTuple):
    """Records that are gone from this broker's log, and the answer that says so once no replica has them."""

    answer: DeleteRecordsPartitionResult
    partition: Partition
    start: int
    leader_epoch: int


class DeleteRecordsHandler:
    served = Served(DELETE_RECORDS, 0, 2)

    def __init__(self, locator: Locator, waiters: Waiters[Partition]) -> None:
        self._locator = locator
        self._waiters = waiters

    def handle(self, request: DeleteRecordsRequest, call: Call) -> Pending[Any]:
        waiting: list[Deleted] = []
        topics = []
        for topic in request.topics:
            answers = [self._delete(topic.name, asked, waiting, call) for asked in topic.partitions]
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
        delayed = DelayedDeleteRecords(waiting, DeleteRecordsResponse(topics=topics), call)
        parked = self._waiters.park(delayed, (one.partition for one in waiting), request.timeout_ms / 1000)
        delayed.pending.on_abandon = lambda: self._waiters.forget(parked)
        return delayed.pending

    def _delete(
        self, topic: str, asked: DeleteRecordsPartition, waiting: list[Deleted], call: Call
    ) -> DeleteRecordsPartitionResult:
        answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
        try:
            check_topic(call, DELETE, topic)
            partition = self._locator.named(topic, asked.partition_index)
            partition.check_leader()
            config = partition.log.config
            if config.compact and not config.retention.delete:
                raise PolicyViolationError(f"{topic} is compacted: records leave it only for newer ones")
            start = partition.log.delete_records(asked.offset)
            wanted = start if asked.offset == HIGH_WATERMARK else asked.offset
            waiting.append(Deleted(answer, partition, wanted, partition.state.leader_epoch))
        except KafkaError as error:
            _refuse(answer, error.code, call)
        return answer


class DelayedDeleteRecords:
    """Done when every partition begins late enough on all its in-sync replicas, or is led by another broker."""

    kind = "DeleteRecords"

    def __init__(self, waiting: Sequence[Deleted], response: DeleteRecordsResponse, call: Call) -> None:
        self.pending: Pending[Any] = Pending(blocks=False)
        self._waiting = list(waiting)
        self._response = response
        self._call = call

    def try_complete(self, changed: Sequence[Partition]) -> bool:
        self._waiting = [deleted for deleted in self._waiting if not self._settled(deleted)]
        if self._waiting:
            return False
        self.pending.complete(self._response)
        return True

    def expire(self) -> None:
        for deleted in self._waiting:
            _refuse(deleted.answer, ErrorCode.REQUEST_TIMED_OUT, self._call)
        self.pending.complete(self._response)

    def fail(self, error: Exception) -> None:
        self.pending.fail(error)

    def _settled(self, deleted: Deleted) -> bool:
        partition = deleted.partition
        if partition.offline:
            _refuse(deleted.answer, ErrorCode.KAFKA_STORAGE_ERROR, self._call)
            return True
        leading = partition.leading
        if leading is None or partition.state.leader_epoch != deleted.leader_epoch:
            _refuse(deleted.answer, ErrorCode.NOT_LEADER_OR_FOLLOWER, self._call)
            return True
        low_watermark = leading.low_watermark(partition.log.start_offset)
        if low_watermark < deleted.start:
            return False
        deleted.answer.low_watermark = low_watermark
        return True


def _refuse(answer: DeleteRecordsPartitionResult, code: ErrorCode, call: Call) -> None:
    call.error(code)
    answer.error_code = code
