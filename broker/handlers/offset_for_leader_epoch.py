"""OffsetForLeaderEpoch (23): where a leader epoch ended, for consumers and followers that check their
position."""

from rookery.broker.handlers.authorize import CLUSTER_ACTION, DESCRIBE, check_topic, cluster_shows
from rookery.broker.handlers.locate import Locator
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError
from rookery.core.wire.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from rookery.core.wire.served import Served


class OffsetForLeaderEpochHandler:
    served = Served(OFFSET_FOR_LEADER_EPOCH, 2, 4)

    def __init__(self, locator: Locator) -> None:
        self._locator = locator

    def handle(self, request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
        is_broker = cluster_shows(call.access, CLUSTER_ACTION)
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[self._answer(topic.topic, asked, call, is_broker) for asked in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _answer(self, topic: str, asked: OffsetForLeaderPartition, call: Call, is_broker: bool) -> EpochEndOffset:
        try:
            if not is_broker:
                check_topic(call, DESCRIBE, topic)
            partition = self._locator.named(topic, asked.partition)
            partition.check_leader(asked.current_leader_epoch)
            epoch, end = partition.end_offset_for_epoch(asked.leader_epoch)
        except KafkaError as error:
            call.error(error.code)
            return EpochEndOffset(error_code=error.code, partition=asked.partition)
        return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
