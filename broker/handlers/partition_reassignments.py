"""Moves of partitions: AlterPartitionReassignments (45), ListPartitionReassignments (46)."""

from collections import defaultdict

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.authorize import ALTER, DESCRIBE, check_cluster
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.requests import (
    ListReassignmentsRequest,
    NamedPartition,
    Reassignment,
    ReassignPartitionsReply,
    ReassignPartitionsRequest,
)
from rookery.core.wire.apis.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from rookery.core.wire.apis.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from rookery.core.wire.served import Served


class AlterPartitionReassignmentsHandler:
    """Move partitions to other brokers, or (null replicas) call a move off."""

    served = Served(ALTER_PARTITION_REASSIGNMENTS, 0, 1)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(
        self, request: AlterPartitionReassignmentsRequest, call: Call
    ) -> AlterPartitionReassignmentsResponse:
        move = ReassignPartitionsRequest(_moves(request), request.allow_replication_factor_change)
        try:
            check_cluster(call, ALTER)
            ask = self._controller.ask(move)
            reply = await decide(ask, request.timeout_ms, self._cluster, _begun)
        except KafkaError as error:
            call.error(error.code)
            return AlterPartitionReassignmentsResponse(
                error_code=error.code, error_message=error.message, responses=()
            )
        by_topic: dict[str, list[ReassignablePartitionResponse]] = defaultdict(list)
        for answer in reply.partitions:
            if answer.error:
                call.error(ErrorCode(answer.error))
            by_topic[answer.topic].append(
                ReassignablePartitionResponse(
                    partition_index=answer.partition, error_code=answer.error, error_message=answer.message
                )
            )
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            responses=[ReassignableTopicResponse(name=name, partitions=found) for name, found in by_topic.items()],
        )


def _moves(request: AlterPartitionReassignmentsRequest) -> tuple[Reassignment, ...]:
    return tuple(
        Reassignment(
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    )


def _begun(reply: ReassignPartitionsReply) -> None:
    """A move may be over before this broker learns that it began, so there is nothing to wait for."""


class ListPartitionReassignmentsHandler:
    """The moves that are under way, as the active controller knows them. The timeout of the request is no deadline, as
    in Kafka: clients send 0, too."""

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
            check_cluster(call, DESCRIBE)
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
