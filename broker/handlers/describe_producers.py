"""DescribeProducers (61): the producers that a replica of a partition remembers, whether it leads or follows."""

from rookery.broker.handlers.authorize import READ, check_topic
from rookery.broker.handlers.locate import Locator
from rookery.broker.log.producer_state import ProducerEntry
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError
from rookery.core.wire.apis.describe_producers import (
    DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from rookery.core.wire.served import Served


class DescribeProducersHandler:
    served = Served(DESCRIBE_PRODUCERS, 0, 0)

    def __init__(self, locator: Locator) -> None:
        self._locator = locator

    def handle(self, request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[self._describe(topic.name, index, call) for index in topic.partition_indexes],
                )
                for topic in request.topics
            ]
        )

    def _describe(self, topic: str, index: int, call: Call) -> PartitionResponse:
        try:
            check_topic(call, READ, topic)
            partition = self._locator.named(topic, index)
            partition.check_replica()
        except KafkaError as error:
            call.error(error.code)
            return PartitionResponse(
                partition_index=index,
                error_code=error.code,
                error_message=error.message,
                active_producers=(),
            )
        producers = partition.log.store.state.entries
        return PartitionResponse(
            partition_index=index, active_producers=[_state(producers[id]) for id in sorted(producers)]
        )


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )
