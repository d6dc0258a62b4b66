"""ListPartitionReassignments (46): the moves that are under way, as the active controller knows them."""

from collections import defaultdict

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.ports import ClusterView, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError
from rookery.core.metadata.requests import ListReassignmentsReply, ListReassignmentsRequest, NamedPartition
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

    def __init__(self, cluster: ClusterView, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(
        self, request: ListPartitionReassignmentsRequest, call: Call
    ) -> ListPartitionReassignmentsResponse:
        named = tuple(
            NamedPartition(topic.name, index)
            for topic in request.topics or ()
            for index in topic.partition_indexes
        )
        ask = self._controller.list_reassignments(ListReassignmentsRequest(named, request.topics is None))
        try:
            reply = await decide(ask, request.timeout_ms, self._cluster, _at_once)
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


def _at_once(reply: ListReassignmentsReply) -> None:
    return None
