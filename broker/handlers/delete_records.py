"""DeleteRecords (21): let partitions begin later; -1 stands for the high watermark."""

from rookery.broker.handlers.locate import Locator
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError, PolicyViolationError
from rookery.core.wire.apis.delete_records import (
    DELETE_RECORDS,
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from rookery.core.wire.served import Served


class DeleteRecordsHandler:
    served = Served(DELETE_RECORDS, 0, 2)

    def __init__(self, locator: Locator) -> None:
        self._locator = locator

    def handle(self, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[self._delete(topic.name, asked, call) for asked in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _delete(self, topic: str, asked: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
        index = asked.partition_index
        try:
            partition = self._locator.named(topic, index)
            partition.check_leader()
            config = partition.log.config
            if config.compact and not config.retention.delete:
                raise PolicyViolationError(f"{topic} is compacted: records leave it only for newer ones")
            low_watermark = partition.log.delete_records(asked.offset)
        except KafkaError as error:
            call.error(error.code)
            return DeleteRecordsPartitionResult(
                partition_index=index, low_watermark=-1, error_code=error.code
            )
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
