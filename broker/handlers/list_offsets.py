"""ListOffsets (2): the offset for a timestamp, or for one of the special timestamps."""

from collections import Counter

from rookery.broker.handlers.locate import Locator
from rookery.broker.log.partition_log import Isolation
from rookery.broker.server.client import Call
from rookery.core.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    UnsupportedVersionError,
)
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from rookery.core.wire.served import Served

SPECIAL_FROM = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}
"""The version each special timestamp came with."""
OFFSET_NOT_AVAILABLE_FROM = 5
READ_COMMITTED = 1


class ListOffsetsHandler:
    served = Served(LIST_OFFSETS, 1, 10)

    def __init__(self, locator: Locator) -> None:
        self._locator = locator

    def handle(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
        isolation = _isolation(request)
        seen = Counter(
            (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
        )
        twice = {key for key, count in seen.items() if count > 1}
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._answer(topic.name, partition, isolation, twice, call)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _answer(
        self,
        topic: str,
        asked: ListOffsetsPartition,
        isolation: Isolation,
        twice: set[tuple[str, int]],
        call: Call,
    ) -> ListOffsetsPartitionResponse:
        index = asked.partition_index
        try:
            if (topic, index) in twice:
                raise InvalidRequestError(f"{topic}-{index} is asked for twice")
            if asked.timestamp < 0 and call.version < SPECIAL_FROM.get(asked.timestamp, 2**15):
                raise UnsupportedVersionError(f"timestamp {asked.timestamp} in version {call.version}")
            partition = self._locator.named(topic, index)
            partition.check_leader(asked.current_leader_epoch)
            found = partition.list_offset(asked.timestamp, isolation)
        except KafkaError as error:
            call.error(error.code)
            return ListOffsetsPartitionResponse(partition_index=index, error_code=_code(error, call.version))
        if found is None:
            return ListOffsetsPartitionResponse(partition_index=index)
        return ListOffsetsPartitionResponse(
            partition_index=index,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch,
        )


def _isolation(request: ListOffsetsRequest) -> Isolation:
    if request.replica_id >= 0:
        return Isolation.LOG_END
    return Isolation.LAST_STABLE if request.isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK


def _code(error: KafkaError, version: int) -> ErrorCode:
    if error.code == ErrorCode.OFFSET_NOT_AVAILABLE and version < OFFSET_NOT_AVAILABLE_FROM:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code
