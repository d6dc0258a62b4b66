"""CreateTopics (19): decided by the controller, answered once the topics are in this broker's image."""

from collections.abc import Callable, Sequence

from rookery.broker.handlers.admin_request import decide, until_led
from rookery.broker.handlers.authorize import (
    CREATE,
    DESCRIBE_CONFIGS,
    cluster_shows,
    split_topics,
    topic_denied,
)
from rookery.broker.handlers.describe_configs import ConfigView
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.quotas.charges import Mutations
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.server.access import TOPIC
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
STRICT_FROM = 6


class CreateTopicsHandler:
    served = Served(CREATE_TOPICS, 2, 7)

    def __init__(
        self,
        cluster: ClusterPort,
        controller: ControllerPort,
        configs: ConfigView,
        quotas: ClientQuotas,
        partitions: int,
    ) -> None:
        """`partitions` is how many a topic has unless it is said."""
        self._cluster = cluster
        self._controller = controller
        self._configs = configs
        self._quotas = quotas
        self._partitions = partitions

    async def handle(self, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
        mutations = Mutations(self._quotas, call, strict_from=STRICT_FROM, free=request.validate_only)
        creatable, denied = _split(request.topics, call)
        topics, held = mutations.split(tuple(map(_new_topic, creatable)), self._size)
        visible = _nothing if request.validate_only else _created
        ask = self._controller.ask(AskController(topics, request.validate_only))
        try:
            reply = await decide(ask, request.timeout_ms, self._cluster, visible)
        except KafkaError as error:
            answers = [TopicAnswer(topic.name, error=error.code, message=error.message) for topic in topics]
            reply = CreateTopicsReply(tuple(answers))
        if not request.validate_only:
            await until_led(self._cluster, reply.topics)
        mutations.settle(sum(topic.partitions for topic in reply.topics if not topic.error))
        answered = [*reply.topics, *(mutations.refusal(topic.name) for topic in held), *denied]
        return CreateTopicsResponse(
            throttle_time_ms=mutations.delay_ms, topics=[self._result(topic, call) for topic in answered]
        )

    def _size(self, topic: NewTopic) -> int:
        return len(topic.assignments) or (topic.partitions if topic.partitions > 0 else self._partitions)

    def _result(self, topic: TopicAnswer, call: Call) -> CreatableTopicResult:
        if topic.error:
            call.error(ErrorCode(topic.error))
            return CreatableTopicResult(
                name=topic.name, error_code=topic.error, error_message=topic.message, configs=None
            )
        configs = []
        if call.version >= RESULT_FROM and not call.access.shows(DESCRIBE_CONFIGS, TOPIC, topic.name):
            return CreatableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                configs=(),
            )
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


def _split(
    topics: Sequence[CreatableTopic], call: Call
) -> tuple[Sequence[CreatableTopic], Sequence[TopicAnswer]]:
    """What the client may create, by a right on the cluster or on the topic, and the answers to the rest."""
    if not call.client.access.restricted or cluster_shows(call.access, CREATE):
        return topics, ()
    allowed, denied = split_topics(call, CREATE, topics)
    refusal = topic_denied(CREATE)
    return allowed, [TopicAnswer(topic.name, error=refusal.code, message=refusal.message) for topic in denied]


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
