"""One partition's share of a produce request: what came, what became of it, what is answered."""

from collections.abc import Iterable

from rookery.broker.log.partition_log import LeaderAppend
from rookery.broker.replication.partition import Partition
from rookery.core.errors import KafkaError
from rookery.core.wire.apis.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from rookery.core.wire.batch import MutableBuffer
from rookery.core.wire.records import InvalidRecordsError


class Entry:
    """Filled step by step; `error` ends it wherever it is."""

    __slots__ = (
        "appended", "batch", "error", "index", "leader", "leader_epoch", "needs_record_work", "partition",
        "topic",
    )  # fmt: skip

    partition: Partition
    appended: LeaderAppend

    def __init__(self, topic: TopicProduceData, index: int, batch: MutableBuffer | None) -> None:
        self.topic = topic
        self.index = index
        self.batch = batch
        self.error: KafkaError | None = None
        self.needs_record_work = False
        self.leader_epoch = -1
        self.leader: LeaderIdAndEpoch | None = None

    def answer(self) -> PartitionProduceResponse:
        if self.error is not None:
            return self._refusal(self.error)
        base_offset, _, append_time, start_offset, _ = self.appended
        return PartitionProduceResponse(
            index=self.index,
            base_offset=base_offset,
            log_append_time_ms=append_time,
            log_start_offset=start_offset,
        )

    def _refusal(self, error: KafkaError) -> PartitionProduceResponse:
        wrong = error.record_errors if isinstance(error, InvalidRecordsError) else ()
        return PartitionProduceResponse(
            index=self.index,
            error_code=error.code,
            base_offset=-1,
            record_errors=[
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
                for index, reason in wrong
            ],
            error_message=error.message,
            current_leader=self.leader,
        )


def topic_answers(entries: Iterable[Entry]) -> list[TopicProduceResponse]:
    """The answers, topic by topic as they were asked."""
    answers: list[TopicProduceResponse] = []
    topic: TopicProduceData | None = None
    partitions: list[PartitionProduceResponse] = []
    for entry in entries:
        if entry.topic is not topic:
            topic, partitions = entry.topic, []
            answers.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=partitions)
            )
        partitions.append(entry.answer())
    return answers
