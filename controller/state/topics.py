"""Topics: their names, creation, growth and deletion."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import UUID

from rookery.controller.state.configs import ConfigRules, topic_config_records
from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.placement import candidates, place
from rookery.core.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicDeletionDisabledError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from rookery.core.metadata.image import Image, Partition, Topic, metric_name
from rookery.core.metadata.records import PartitionRecord, Record, RemoveTopicRecord, TopicRecord
from rookery.core.metadata.requests import (
    Assignment,
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreateTopicsReply,
    CreateTopicsRequest,
    DeleteTopicsReply,
    DeleteTopicsRequest,
    NewTopic,
    TopicAnswer,
    TopicGrowth,
    TopicReference,
)
from rookery.core.metadata.topic_names import is_internal, problem_with


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicError unless `name` can be a topic."""
    problem = problem_with(name)
    if problem is not None:
        raise InvalidTopicError(problem)


def check_collision(name: str, other: str | None) -> None:
    """`other` is the topic that metrics would call the same, if there is one."""
    if other is not None and other != name:
        raise InvalidTopicError(f"{name!r} collides with {other!r}: '.' and '_' mean the same in metrics")


Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Growth:
    """What creating partitions needs besides image and request: rules, where the round of placement goes on, and unused
    ids."""

    rules: ConfigRules
    defaults: Defaults
    position: int
    new_id: Callable[[], UUID]


def create_topics(image: Image, request: CreateTopicsRequest, growth: Growth) -> Decision[CreateTopicsReply]:
    """Each topic is created or refused by itself."""
    records: list[Record] = []
    answers = []
    twice = _twice(topic.name for topic in request.topics)
    taken: dict[str, str] = {}
    for topic in request.topics:
        try:
            if topic.name in twice:
                raise InvalidRequestError(f"topic {topic.name!r} is named twice")
            check_collision(topic.name, taken.setdefault(metric_name(topic.name), topic.name))
            made = _created_before(image, topic)
            if made is not None:
                answers.append(made)
                continue
            created = _create(image, topic, growth)
            _check_size(len(records) + len(created), growth.defaults)
        except KafkaError as error:
            answers.append(TopicAnswer(topic.name, error=error.code, message=error.message))
            continue
        records += created
        partitions = [record for record in created if isinstance(record, PartitionRecord)]
        growth = replace(growth, position=growth.position + len(partitions))
        answers.append(_created(topic.name, partitions[0].topic_id, partitions))
    return decided(() if request.validate_only else records, CreateTopicsReply(tuple(answers)))


def delete_topics(
    image: Image, request: DeleteTopicsRequest, defaults: Defaults
) -> Decision[DeleteTopicsReply]:
    records = []
    answers = []
    gone: set[UUID] = set()
    for reference in request.topics:
        try:
            topic = _referred(image, reference)
            if not defaults.delete_topics:
                raise TopicDeletionDisabledError("delete.topic.enable is false")
            if topic.id in gone:
                raise InvalidRequestError(f"topic {topic.name!r} is named twice")
        except KafkaError as error:
            asked = TopicAnswer(reference.name or "", error=error.code, message=error.message)
            answers.append(replace(asked, topic_id=reference.topic_id or asked.topic_id))
            continue
        gone.add(topic.id)
        records.append(RemoveTopicRecord(topic.id))
        answers.append(TopicAnswer(topic.name, topic.id))
    return decided(records, DeleteTopicsReply(tuple(answers)))


def create_partitions(
    image: Image, request: CreatePartitionsRequest, growth: Growth
) -> Decision[CreatePartitionsReply]:
    records: list[Record] = []
    answers = []
    twice = _twice(topic.name for topic in request.topics)
    for wanted in request.topics:
        try:
            if wanted.name in twice:
                raise InvalidRequestError(f"topic {wanted.name!r} is named twice")
            grown = _grow(image, wanted, growth)
            _check_size(len(records) + len(grown), growth.defaults)
        except KafkaError as error:
            answers.append(TopicAnswer(wanted.name, error=error.code, message=error.message))
            continue
        records += grown
        growth = replace(growth, position=growth.position + len(grown))
        answers.append(TopicAnswer(wanted.name, grown[0].topic_id))
    return decided(() if request.validate_only else records, CreatePartitionsReply(tuple(answers)))


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}


def _created(
    name: str, topic_id: UUID, partitions: Sequence[PartitionRecord] | Sequence[Partition]
) -> TopicAnswer:
    factor = len(partitions[0].replicas)
    return TopicAnswer(name, topic_id, partitions=len(partitions), replication_factor=factor)


def _created_before(image: Image, topic: NewTopic) -> TopicAnswer | None:
    """The answer to a repeated request: the first answer was lost, with the controller that created the topic or with a
    connection."""
    known = image.topic(topic.name)
    if known is None or known.id != topic.topic_id:
        return None
    return _created(known.name, known.id, [partition for _, partition in known.in_order()])


def _create(image: Image, topic: NewTopic, growth: Growth) -> list[Record]:
    check_topic_name(topic.name)
    if image.topic(topic.name) is not None:
        raise TopicAlreadyExistsError(f"topic {topic.name!r} exists")
    check_collision(topic.name, image.metric_names.get(metric_name(topic.name)))
    assignment = _assignment(image, topic, growth)
    configs = topic_config_records(topic.name, topic.configs, growth.rules)
    topic_id = growth.new_id() if topic.topic_id is None else topic.topic_id
    if topic_id in image.topics:
        raise InvalidRequestError(f"the id {topic_id} belongs to another topic")
    return [
        TopicRecord(topic.name, topic_id),
        *configs,
        *_partitions(image, topic_id, enumerate(assignment)),
    ]


def _assignment(image: Image, topic: NewTopic, growth: Growth) -> list[Replicas]:
    if topic.assignments:
        if (topic.partitions, topic.replication_factor) != (-1, -1):
            raise InvalidRequestError("replicas are assigned by hand: leave partitions and factor at -1")
        return _manual(image, topic.assignments, first=0)
    partitions = growth.defaults.partitions if topic.partitions == -1 else topic.partitions
    if partitions < 1:
        raise InvalidPartitionsError(f"{partitions} partitions: at least 1 is needed")
    _check_size(partitions, growth.defaults)
    factor = topic.replication_factor
    factor = growth.defaults.replication_factor if factor == -1 else factor
    return place(
        candidates(image), partitions=partitions, replication_factor=factor, position=growth.position
    )


def _grow(image: Image, wanted: TopicGrowth, growth: Growth) -> list[PartitionRecord]:
    topic = image.topic(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {wanted.name!r}")
    if is_internal(topic.name):
        raise InvalidPartitionsError(
            f"{topic.name} cannot grow: its number of partitions determines which broker coordinates what"
        )
    present = len(topic.partitions)
    if wanted.count <= present:
        raise InvalidPartitionsError(
            f"topic {wanted.name!r} has {present} partitions and can only grow, not become {wanted.count}"
        )
    added = wanted.count - present
    _check_size(added, growth.defaults)
    factor = len(topic.partitions[0].replicas) - len(topic.partitions[0].adding_replicas)
    if wanted.assignments:
        if len(wanted.assignments) != added:
            raise InvalidReplicaAssignmentError(f"{added} partitions are added, {len(wanted.assignments)} placed")
        replicas = _manual(image, wanted.assignments, first=present)
        if any(len(placed) != factor for placed in replicas):
            raise InvalidReplicaAssignmentError(f"the topic's partitions have {factor} replicas each")
    else:
        replicas = place(
            candidates(image), partitions=added, replication_factor=factor, position=growth.position
        )
    return _partitions(image, topic.id, enumerate(replicas, present))


def _manual(image: Image, assignments: Sequence[Assignment], first: int) -> list[Replicas]:
    """Replicas as a person placed them, in the order of the partitions."""
    ordered = sorted(assignments, key=lambda assignment: assignment.partition)
    if [assignment.partition for assignment in ordered] != list(range(first, first + len(ordered))):
        raise InvalidReplicaAssignmentError(f"partitions must be numbered without gaps from {first}")
    for assignment in ordered:
        check_replicas(image, assignment.replicas)
        if not any(image.active(broker) for broker in assignment.replicas):
            raise InvalidReplicaAssignmentError(
                f"partition {assignment.partition}: none of its brokers {list(assignment.replicas)} is active"
            )
    if any(len(one.replicas) != len(other.replicas) for one, other in pairwise(ordered)):
        raise InvalidReplicaAssignmentError("all partitions need the same number of replicas")
    return [assignment.replicas for assignment in ordered]


def check_replicas(image: Image, replicas: Replicas) -> None:
    """Raises InvalidReplicaAssignmentError unless `replicas` are distinct registered brokers."""
    if not replicas:
        raise InvalidReplicaAssignmentError("a partition needs at least one replica")
    if len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignmentError(f"a broker is named twice in {list(replicas)}")
    unknown = [broker for broker in replicas if broker not in image.brokers]
    if unknown:
        raise InvalidReplicaAssignmentError(f"brokers {unknown} are not registered")


def _partitions(
    image: Image, topic_id: UUID, placed: Iterable[tuple[int, Replicas]]
) -> list[PartitionRecord]:
    """New partitions: all active replicas are in sync, the first of them leads."""
    records = []
    for index, replicas in placed:
        isr = tuple(broker for broker in replicas if image.active(broker))
        records.append(PartitionRecord(topic_id, index, replicas, isr, leader=isr[0]))
    return records


def _referred(image: Image, reference: TopicReference) -> Topic:
    if (reference.name is None) == (reference.topic_id is None):
        raise InvalidRequestError("a topic is referred to by its name or by its id")
    if reference.topic_id is not None:
        topic = image.topics.get(reference.topic_id)
        if topic is None:
            raise UnknownTopicIdError(f"there is no topic with id {reference.topic_id}")
        return topic
    topic = image.topic(reference.name or "")
    if topic is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {reference.name!r}")
    return topic


def _check_size(records: int, defaults: Defaults) -> None:
    if records > defaults.records_per_request_max:
        raise PolicyViolationError(
            f"{records} records in one request, {defaults.records_per_request_max} are allowed: ask in parts"
        )
