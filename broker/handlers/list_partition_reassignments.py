"""ListPartitionReassignments (46): the moves that are under way, as the active controller knows them.

The timeout of the request is no deadline, as in Kafka: clients send 0, too."""

from collections import defaultdict

from rookery.broker.handlers.ports import ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError
from rookery.core.metadata.requests import ListReassignmentsRequest, NamedPartition
from rookery.core.wire.apis.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from rookery.core.wire.served import Served


class ListPartitionReassignmentsHandler:
    served = Served(LIST_PARTITION_REASSIGNMENTS, 0, 0)

    def __init__(self, controller: ControllerPort) -> None:
        self._controller = controller

    async def handle(
        self, request: ListPartitionReassignmentsRequest, call: Call
    ) -> ListPartitionReassignmentsResponse:
        named = tuple(
            NamedPartition(topic.name, index)
            for topic in request.topics or ()
            for index in topic.partition_indexes
        )
        ask = ListReassignmentsRequest(named, request.topics is None)
        try:
            reply = await self._controller.ask(ask)
        except KafkaError as error:
            call.error(error.code)
            return ListPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.message, topics=()
            )
        by_topic: dict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
        for move in reply.partitions:
            by_topic[move.topic].append(
                OngoingPartitionReassignment(
                    partition_index=move.partition,
                    replicas=move.replicas,
                    adding_replicas=move.adding_replicas,
                    removing_replicas=move.removing_replicas,
                )
            )
        return ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name=name, partitions=found) for name, found in by_topic.items()]
        )
