"""DeleteTopics (20): decided by the controller, answered once the topics are gone from this broker's
image."""

from collections.abc import Callable
from uuid import UUID

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.quotas.charges import Mutations
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import DeleteTopicsReply, TopicAnswer, TopicReference
from rookery.core.metadata.requests import DeleteTopicsRequest as AskController
from rookery.core.types import NO_TOPIC_ID
from rookery.core.wire.apis.delete_topics import (
    DELETE_TOPICS,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from rookery.core.wire.served import Served

STRICT_FROM = 5


class DeleteTopicsHandler:
    served = Served(DELETE_TOPICS, 1, 6)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort, quotas: ClientQuotas) -> None:
        self._cluster = cluster
        self._controller = controller
        self._quotas = quotas

    async def handle(self, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
        asked = [TopicReference(name=name) for name in request.topic_names]
        for topic in request.topics:
            by_id = topic.topic_id != NO_TOPIC_ID
            asked.append(TopicReference(topic.name, topic.topic_id if by_id else None))
        before = self._cluster.image
        mutations = Mutations(self._quotas, call, strict_from=STRICT_FROM)
        topics, held = mutations.split(asked, lambda one: _partitions(before, one.name, one.topic_id))
        ask = self._controller.ask(AskController(topics))
        try:
            reply = await decide(ask, request.timeout_ms, self._cluster, lambda reply: _gone(reply, before))
        except KafkaError as error:
            code, text = error.code, error.message
            answers = [TopicAnswer(one.name or "", one.topic_id or NO_TOPIC_ID, code, text) for one in topics]
            reply = DeleteTopicsReply(tuple(answers))
        gone = (topic for topic in reply.topics if not topic.error)
        mutations.settle(sum(_partitions(before, topic.name, topic.topic_id) for topic in gone))
        answered = [*reply.topics, *(mutations.refusal(one.name, one.topic_id) for one in held)]
        return DeleteTopicsResponse(
            throttle_time_ms=mutations.delay_ms, responses=[_result(topic, call) for topic in answered]
        )


def _partitions(image: Image, name: str | None, topic_id: UUID | None) -> int:
    """How many a topic has; none if it does not exist."""
    found = image.topic_ids.get(name) if name else topic_id
    topic = image.topics.get(found) if found is not None else None
    return len(topic.partitions) if topic is not None else 0


def _gone(reply: DeleteTopicsReply, before: Image) -> Callable[[Image], bool]:
    done = [topic for topic in reply.topics if not topic.error]
    ids = [topic.topic_id for topic in done if topic.topic_id != NO_TOPIC_ID]
    ids += [before.topic_ids[topic.name] for topic in done if topic.name in before.topic_ids]
    return lambda image: all(topic_id not in image.topics for topic_id in ids)


def _result(topic: TopicAnswer, call: Call) -> DeletableTopicResult:
    if topic.error:
        call.error(ErrorCode(topic.error))
    return DeletableTopicResult(
        name=topic.name or None if call.version >= 6 else topic.name,
        topic_id=topic.topic_id,
        error_code=topic.error,
        error_message=topic.message,
    )
