"""Metadata (3): brokers, topics, partitions, leaders and replicas, as this broker's image has them.

No topics means all of them: an empty list in v0, null from v1 on. A topic that does not exist is created if the broker
and the client allow it; the answer to the request that causes it still says that it does not exist, and the client asks
again. A leader is named once it has reported its replica: a client that gets it here can write to it, whichever broker
learned of the partition first. Any broker passes admin requests on, so this broker names itself as the controller.

The answer for a topic is kept as long as the topic is the same. Where those of many partitions have to be built at once
(all topics, after a broker was lost), this is done in slices, between which others are served.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from rookery.broker.handlers.authorize import CREATE, DESCRIBE, cluster_shows
from rookery.broker.handlers.auto_creation import AutoCreation
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.access import CLUSTER, TOPIC, Access
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import StartTask
from rookery.broker.server.pending import Pending
from rookery.core.errors import ErrorCode
from rookery.core.metadata.acl_codes import CLUSTER_NAME
from rookery.core.metadata.image import BrokerRegistration, Image, Partition, Topic
from rookery.core.metadata.topic_names import is_internal, is_valid
from rookery.core.security.authorizer import OPERATIONS_OF
from rookery.core.wire.apis.metadata import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rookery.core.wire.primitives import NO_UUID
from rookery.core.wire.served import Served

NOT_ASKED_FOR = -(2**31)
LISTENER_ERRORS_FROM = 6
BY_ID_FROM = 12
SLICE = 500
"""Partitions whose answers are built in one pass of the loop: a few milliseconds."""


class MetadataHandler:
    served = Served(METADATA, 0, 13)

    def __init__(self, cluster: ClusterPort, auto_creation: AutoCreation, start_task: StartTask) -> None:
        self._cluster = cluster
        self._start_task = start_task
        self._auto_creation = auto_creation
        self._answers: dict[_Look, _Answers] = {}

    def handle(self, request: MetadataRequest, call: Call) -> MetadataResponse | Pending[Any]:
        image = self._cluster.image
        access = call.access
        view = _View(image, self._answers_for(request, call))
        if request.topics is None or (call.version == 0 and not request.topics):
            seen = sorted(_by_name(image))
            if access.restricted:
                seen = [each for each in seen if access.shows(DESCRIBE, TOPIC, each[0])]
            if view.unbuilt(topic for _, topic in seen) > SLICE:
                return self._start_task(self._in_slices(request, access, view, seen), METADATA.name)
            topics = [view.topic(topic) for _, topic in seen]
        else:
            topics = self._asked_for(request, call, view)
        return self._response(request, access, view, topics)

    async def _in_slices(
        self, request: MetadataRequest, access: Access, view: "_View", seen: Sequence[tuple[str, Topic]]
    ) -> MetadataResponse:
        """All topics, as they were when they were asked for."""
        topics, left = [], SLICE
        for _, topic in seen:
            answer = view.built(topic)
            if answer is None:
                partitions = []
                for index, partition in topic.in_order():
                    if not left:
                        left = SLICE
                        await asyncio.sleep(0)
                    partitions.append(view.partition(index, partition))
                    left -= 1
                answer = view.keep(topic, partitions)
            topics.append(answer)
        return self._response(request, access, view, topics)

    def _response(
        self, request: MetadataRequest, access: Access, view: "_View", topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        if access.restricted and request.include_topic_authorized_operations:
            topics = [_with_operations(topic, access) for topic in topics]
        return MetadataResponse(
            brokers=view.brokers(),
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.node_id if view.is_alive(self._cluster.node_id) else view.any_broker(),
            topics=topics,
            cluster_authorized_operations=(
                cluster_operations(access) if request.include_cluster_authorized_operations else NOT_ASKED_FOR
            ),
        )

    def _answers_for(self, request: MetadataRequest, call: Call) -> "_Answers":
        look = _Look(
            call.client.listener,
            call.version >= LISTENER_ERRORS_FROM,
            OPERATIONS_OF[TOPIC] if request.include_topic_authorized_operations else NOT_ASKED_FOR,
        )
        answers = self._answers.get(look)
        if answers is None:
            answers = self._answers[look] = _Answers(look)
        return answers

    def _asked_for(self, request: MetadataRequest, call: Call, view: "_View") -> list[MetadataResponseTopic]:
        answers = []
        missing = []
        access = call.access
        creates = request.allow_auto_topic_creation and self._auto_creation.enabled
        creates_all = cluster_shows(access, CREATE)
        by_id = call.version >= BY_ID_FROM
        for topic_id, name in dict.fromkeys(_asked(topic, by_id) for topic in request.topics or ()):
            if name is None:
                topic = view.image.topics.get(topic_id)
                if topic is not None and not access.topic(DESCRIBE, topic.name):
                    answers.append(_refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
                    continue
                answers.append(view.topic(topic) if topic else _refusal(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
                continue
            if not access.topic(DESCRIBE, name):
                answers.append(_denied(name))
                continue
            topic = view.image.topic(name)
            if topic is not None:
                answers.append(view.topic(topic))
            elif not is_valid(name):
                answers.append(_refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, name))
            elif creates and not creates_all and not access.topic(CREATE, name):
                answers.append(_refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
            else:
                missing.append(name)
                answers.append(_refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name))
        if missing and request.allow_auto_topic_creation:
            coming = self._auto_creation.create(missing, call)
            for answer in answers:
                if answer.name in coming:  # all clients ask again on this error, and some on no other
                    answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        return answers


class _Look(NamedTuple):
    """What answers depend on besides the image. There are few of them: listeners are configured."""

    listener: str
    knows_missing_listener: bool
    operations: int


class _Answers:
    """The answers for topics as they are now. Topics and brokers are immutable values, so one that is the
    same object has the same answer; a request for all topics then costs little."""

    def __init__(self, look: _Look) -> None:
        self.look = look
        self._brokers: object = None
        self._kept: dict[UUID, tuple[Topic, MetadataResponseTopic]] = {}

    def begin(self, image: Image) -> None:
        """Forget what does not hold for `image`."""
        if image.brokers is not self._brokers or len(self._kept) > 2 * len(image.topics):
            self._brokers = image.brokers
            self._kept.clear()

    def get(self, topic: Topic) -> MetadataResponseTopic | None:
        kept = self._kept.get(topic.id)
        return kept[1] if kept is not None and kept[0] is topic else None

    def keep(self, topic: Topic, answer: MetadataResponseTopic, image: Image) -> MetadataResponseTopic:
        """`answer` holds for `image`, which need not be the newest any more."""
        if image.brokers is self._brokers:
            self._kept[topic.id] = topic, answer
        return answer


class _View:
    """One image as one client sees it: through its listener."""

    def __init__(self, image: Image, answers: _Answers) -> None:
        self.image = image
        self._answers = answers
        self._listener, knows_missing_listener, self._operations = answers.look
        self._no_listener = ErrorCode.LEADER_NOT_AVAILABLE
        if knows_missing_listener:
            self._no_listener = ErrorCode.LISTENER_NOT_FOUND
        self._alive = {id: broker for id, broker in sorted(image.brokers.items()) if not broker.fenced}
        answers.begin(image)

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._alive

    def any_broker(self) -> int:
        return next(iter(self._alive), -1)

    def brokers(self) -> list[MetadataResponseBroker]:
        return [answer for broker in self._alive.values() if (answer := self._broker(broker)) is not None]

    def _broker(self, broker: BrokerRegistration) -> MetadataResponseBroker | None:
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            return None
        return MetadataResponseBroker(
            node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )

    def topic(self, topic: Topic) -> MetadataResponseTopic:
        answer = self._answers.get(topic)
        if answer is None:
            answer = self.keep(topic, [self.partition(index, partition) for index, partition in topic.in_order()])
        return answer

    def built(self, topic: Topic) -> MetadataResponseTopic | None:
        """Its answer, if it is there already."""
        return self._answers.get(topic)

    def unbuilt(self, topics: Iterable[Topic]) -> int:
        """How many partitions have to be looked at."""
        return sum(len(topic.partitions) for topic in topics if self._answers.get(topic) is None)

    def keep(self, topic: Topic, partitions: list[MetadataResponsePartition]) -> MetadataResponseTopic:
        answer = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=partitions,
            topic_authorized_operations=self._operations,
        )
        return self._answers.keep(topic, answer, self.image)

    def partition(self, index: int, partition: Partition) -> MetadataResponsePartition:
        leader = self._alive.get(partition.leader)
        error = ErrorCode.NONE
        if leader is None or not partition.leader_reported:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        elif leader.endpoint(self._listener) is None:
            error = self._no_listener
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader.id if leader is not None and error is ErrorCode.NONE else -1,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=[id for id in partition.replicas if self._is_offline(id, partition)],
        )

    def _is_offline(self, broker_id: int, partition: Partition) -> bool:
        broker = self._alive.get(broker_id)
        return broker is None or not broker.has_online_directory(partition.directory(broker_id))


def _by_name(image: Image) -> Iterable[tuple[str, Topic]]:
    return ((topic.name, topic) for topic in image.topics.values())


def _asked(topic: MetadataRequestTopic, by_id: bool) -> tuple[UUID, str | None]:
    """How a topic is asked for: by its id, without a name, or by its name. The Java client sends an empty name beside
    an id."""
    if topic.name is None or (by_id and topic.topic_id != NO_UUID):
        return topic.topic_id, None
    return NO_UUID, topic.name


def _refusal(error: ErrorCode, name: str | None, topic_id: UUID = NO_UUID) -> MetadataResponseTopic:
    internal = name is not None and is_internal(name)
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, is_internal=internal, partitions=()
    )


def _denied(name: str) -> MetadataResponseTopic:
    """Says nothing of the topic, not even by its name, whether it is there or not."""
    return MetadataResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=NO_UUID, is_internal=False, partitions=()
    )


def _with_operations(topic: MetadataResponseTopic, access: Access) -> MetadataResponseTopic:
    if topic.error_code or topic.name is None:
        return topic
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=topic.partitions,
        topic_authorized_operations=access.operations(TOPIC, topic.name),
    )


def cluster_operations(access: Access) -> int:
    """The bits of what the client may do with the cluster; none if it may not see it."""
    return access.operations(CLUSTER, CLUSTER_NAME) if cluster_shows(access, DESCRIBE) else 0
