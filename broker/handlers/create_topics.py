"""CreateTopics (19): decided by the controller, answered once the topics are in this broker's image."""

from collections.abc import Callable

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.config_entries import ConfigView
from rookery.broker.handlers.ports import ClusterView, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import (
    Assignment,
    ConfigEntry,
    CreateTopicsReply,
    NewTopic,
    TopicAnswer,
)
from rookery.core.metadata.requests import CreateTopicsRequest as AskController
from rookery.core.wire.apis.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from rookery.core.wire.served import Served

RESULT_FROM = 5


class CreateTopicsHandler:
    served = Served(CREATE_TOPICS, 2, 7)

    def __init__(self, cluster: ClusterView, controller: ControllerPort, configs: ConfigView) -> None:
        self._cluster = cluster
        self._controller = controller
        self._configs = configs

    async def handle(self, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
        asked = AskController(tuple(_new_topic(topic) for topic in request.topics), request.validate_only)
        visible = _nothing if request.validate_only else _created
        try:
            reply = await decide(
                self._controller.create_topics(asked), request.timeout_ms, self._cluster, visible
            )
        except KafkaError as error:
            topics = [TopicAnswer(topic.name, error=error.code, message=error.message) for topic in request.topics]
            reply = CreateTopicsReply(tuple(topics))
        return CreateTopicsResponse(topics=[self._result(topic, call) for topic in reply.topics])

    def _result(self, topic: TopicAnswer, call: Call) -> CreatableTopicResult:
        if topic.error:
            call.error(ErrorCode(topic.error))
            return CreatableTopicResult(
                name=topic.name, error_code=topic.error, error_message=topic.message, configs=None
            )
        configs = []
        if call.version >= RESULT_FROM:
            configs = [
                CreatableTopicConfigs(
                    name=entry.option.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.option.sensitive,
                )
                for entry in self._configs.topic(self._cluster.image, topic.name)
            ]
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=configs,
        )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(Assignment(one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
        tuple(ConfigEntry(config.name, config.value) for config in topic.configs),
    )


def _created(reply: CreateTopicsReply) -> Callable[[Image], bool]:
    ids = [topic.topic_id for topic in reply.topics if not topic.error]
    return lambda image: all(topic_id in image.topics for topic_id in ids)


def _nothing(reply: CreateTopicsReply) -> None:
    return None
