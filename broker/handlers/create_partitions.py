"""CreatePartitions (37): decided by the controller, answered once this broker's image has the partitions."""

from collections.abc import Callable

from rookery.broker.handlers.admin_request import decide, until_led
from rookery.broker.handlers.authorize import ALTER, split_topics, topic_denied
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.quotas.charges import Mutations
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import Assignment, CreatePartitionsReply, TopicAnswer, TopicGrowth
from rookery.core.metadata.requests import CreatePartitionsRequest as AskController
from rookery.core.wire.apis.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from rookery.core.wire.served import Served

STRICT_FROM = 3


class CreatePartitionsHandler:
    served = Served(CREATE_PARTITIONS, 0, 3)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort, quotas: ClientQuotas) -> None:
        self._cluster = cluster
        self._controller = controller
        self._quotas = quotas

    async def handle(self, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
        image = self._cluster.image
        counts = {topic.name: topic.count for topic in request.topics}

        def new(name: str) -> int:
            return max(0, counts[name] - _partitions(image, name))

        mutations = Mutations(self._quotas, call, strict_from=STRICT_FROM, free=request.validate_only)
        allowed, denied = split_topics(call, ALTER, request.topics)
        growths = [_growth(topic, image) for topic in allowed]
        asked, held = mutations.split(growths, lambda topic: new(topic.name))

        def visible(reply: CreatePartitionsReply) -> Callable[[Image], bool] | None:
            grown = [topic.name for topic in reply.topics if not topic.error]
            if request.validate_only:
                return None
            return lambda image: all(_partitions(image, name) >= counts[name] for name in grown)

        try:
            ask = self._controller.ask(AskController(asked, request.validate_only))
            reply = await decide(ask, request.timeout_ms, self._cluster, visible)
        except KafkaError as error:
            topics = [TopicAnswer(topic.name, error=error.code, message=error.message) for topic in asked]
            reply = CreatePartitionsReply(tuple(topics))
        if not request.validate_only:
            await until_led(self._cluster, reply.topics)
        mutations.settle(sum(new(topic.name) for topic in reply.topics if not topic.error))
        refusal = topic_denied(ALTER)
        refused = (TopicAnswer(topic.name, error=refusal.code, message=refusal.message) for topic in denied)
        answered = [*reply.topics, *(mutations.refusal(topic.name) for topic in held), *refused]
        return CreatePartitionsResponse(
            throttle_time_ms=mutations.delay_ms, results=[_result(topic, call) for topic in answered]
        )


def _growth(topic: CreatePartitionsTopic, image: Image) -> TopicGrowth:
    first = _partitions(image, topic.name)
    assignments = topic.assignments or ()
    return TopicGrowth(
        topic.name,
        topic.count,
        tuple(Assignment(first + n, tuple(one.broker_ids)) for n, one in enumerate(assignments)),
    )


def _partitions(image: Image, name: str) -> int:
    topic = image.topic(name)
    return len(topic.partitions) if topic is not None else 0


def _result(topic: TopicAnswer, call: Call) -> CreatePartitionsTopicResult:
    if topic.error:
        call.error(ErrorCode(topic.error))
    return CreatePartitionsTopicResult(
        name=topic.name, error_code=topic.error, error_message=topic.message
    )
