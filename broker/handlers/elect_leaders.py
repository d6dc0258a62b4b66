"""ElectLeaders (43): give partitions back to their preferred leaders, or force an unclean election."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.authorize import ALTER, check_cluster
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, InvalidRequestError, KafkaError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import (
    ElectionType,
    ElectLeadersReply,
    NamedPartition,
    NamedPartitionAnswer,
)
from rookery.core.metadata.requests import ElectLeadersRequest as AskController
from rookery.core.wire.apis.elect_leaders import (
    ELECT_LEADERS,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from rookery.core.wire.served import Served

_TYPES = frozenset(ElectionType)


class ElectLeadersHandler:
    served = Served(ELECT_LEADERS, 0, 2)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(self, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
        before = self._cluster.image

        def visible(reply: ElectLeadersReply) -> Callable[[Image], bool]:
            elected = [one for one in reply.partitions if not one.error]
            return lambda image: all(_epoch(image, one) != _epoch(before, one) for one in elected)

        try:
            check_cluster(call, ALTER)
            ask = self._controller.ask(_asked(request))
            reply = await decide(ask, request.timeout_ms, self._cluster, visible)
        except KafkaError as error:
            call.error(error.code)
            answers = [NamedPartitionAnswer(*one, error.code, error.message) for one in _named(request)]
            return ElectLeadersResponse(error_code=error.code, replica_election_results=_results(answers))
        for answer in reply.partitions:
            if answer.error:
                call.error(ErrorCode(answer.error))
        return ElectLeadersResponse(replica_election_results=_results(reply.partitions))


def _asked(request: ElectLeadersRequest) -> AskController:
    if request.election_type not in _TYPES:
        raise InvalidRequestError(f"there is no election of type {request.election_type}")
    partitions = tuple(NamedPartition(*one) for one in _named(request))
    return AskController(ElectionType(request.election_type), partitions, request.topic_partitions is None)


def _named(request: ElectLeadersRequest) -> list[tuple[str, int]]:
    return [(topic.topic, index) for topic in request.topic_partitions or () for index in topic.partitions]


def _epoch(image: Image, named: NamedPartitionAnswer) -> int:
    topic = image.topic(named.topic)
    partition = topic.partitions.get(named.partition) if topic is not None else None
    return -1 if partition is None else partition.leader_epoch


def _results(answers: Iterable[NamedPartitionAnswer]) -> list[ReplicaElectionResult]:
    by_topic: dict[str, list[PartitionResult]] = defaultdict(list)
    for answer in answers:
        by_topic[answer.topic].append(
            PartitionResult(
                partition_id=answer.partition, error_code=answer.error, error_message=answer.message
            )
        )
    return [ReplicaElectionResult(topic=name, partition_result=found) for name, found in by_topic.items()]
