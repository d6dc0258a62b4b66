"""DeleteTopics (20): decided by the controller, answered once the topics are gone from this broker's
image."""

from collections.abc import Callable
from uuid import UUID

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.authorize import DELETE, DESCRIBE, cluster_shows, topic_denied
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.quotas.charges import Mutations
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.access import TOPIC
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError, UnknownTopicIdError
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
        denied: dict[TopicReference, TopicAnswer] = {}
        if call.client.access.restricted:
            denied = {one: answer for one in asked if (answer := _denied(one, before, call)) is not None}
        mutations = Mutations(self._quotas, call, strict_from=STRICT_FROM)
        wanted = [one for one in asked if one not in denied]
        topics, held = mutations.split(wanted, lambda one: _partitions(before, one.name, one.topic_id))
        ask = self._controller.ask(AskController(topics))
        try:
            reply = await decide(ask, request.timeout_ms, self._cluster, lambda reply: _gone(reply, before))
        except KafkaError as error:
            code, text = error.code, error.message
            answers = [TopicAnswer(one.name or "", one.topic_id or NO_TOPIC_ID, code, text) for one in topics]
            reply = DeleteTopicsReply(tuple(answers))
        gone = (topic for topic in reply.topics if not topic.error)
        mutations.settle(sum(_partitions(before, topic.name, topic.topic_id) for topic in gone))
        answered = [*reply.topics, *(mutations.refusal(one.name, one.topic_id) for one in held), *denied.values()]
        if denied:
            answered = _in_order(answered, asked)
        return DeleteTopicsResponse(
            throttle_time_ms=mutations.delay_ms, responses=[_result(topic, call) for topic in answered]
        )


def _denied(asked: TopicReference, image: Image, call: Call) -> TopicAnswer | None:
    """The answer to a client that may not delete the topic, or may not know that it is not there. Only one that may see
    a topic learns its name by its id."""
    access = call.access
    topic_id = asked.topic_id or NO_TOPIC_ID
    known = image.topics.get(topic_id) if asked.topic_id is not None else image.topic(asked.name or "")
    if known is None and asked.topic_id is not None:
        if cluster_shows(access, DELETE):
            return None
        # The controller may know it already, and does not ask what the client may do.
        unknown = UnknownTopicIdError(f"there is no topic with id {topic_id}")
        return TopicAnswer("", topic_id, unknown.code, unknown.message)
    name = asked.name or "" if known is None else known.name
    deletes = cluster_shows(access, DELETE) or access.topic(DELETE, name)
    sees = access.shows(DESCRIBE, TOPIC, name)
    if deletes and (sees or known is not None):
        return None
    error = topic_denied(DELETE)
    shown = name if asked.topic_id is None or sees else ""
    return TopicAnswer(shown, topic_id, error.code, error.message)


def _partitions(image: Image, name: str | None, topic_id: UUID | None) -> int:
    """How many a topic has; none if it does not exist."""
    found = image.topic_ids.get(name) if name else topic_id
    topic = image.topics.get(found) if found is not None else None
    return len(topic.partitions) if topic is not None else 0


def _in_order(answers: list[TopicAnswer], asked: list[TopicReference]) -> list[TopicAnswer]:
    """In the order of the request. Any other would reveal which of the topics that a client may not see exist."""
    places = {one.topic_id or one.name: place for place, one in enumerate(asked)}
    return sorted(answers, key=lambda answer: places.get(answer.topic_id, places.get(answer.name, len(places))))


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
