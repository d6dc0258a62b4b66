"""Offsets and groups that go: on request, by age, or because their topic is gone. All of it is tombstones, of which
there may be more than fit into one batch."""

from collections.abc import Callable, Iterable

from rookery.broker.groups.consumer.group import ConsumerGroup
from rookery.broker.groups.group_state import GroupState
from rookery.broker.groups.offsets import Since, TopicIdOf
from rookery.broker.groups.records import NO_TIMESTAMP, OffsetRecord
from rookery.broker.groups.state import AnyGroup, GroupsState
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import ErrorCode, GroupIdNotFoundError, NonEmptyGroupError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.delete_groups import DeletableGroupResult
from rookery.core.wire.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from rookery.core.wire.consumer_protocol import CONSUMER


def delete_group(state: GroupsState, group_id: str, to: Receiver) -> Step:
    """One entry of DeleteGroups. Raises KafkaError for a group that is not there or has members."""
    group = state.groups.get(group_id)
    if group is None or group.state is GroupState.DEAD:
        raise GroupIdNotFoundError(f"there is no group {group_id!r}")
    if group.state is not GroupState.EMPTY:
        raise NonEmptyGroupError(f"group {group_id!r} is {group.state.value} with {len(group.members)} members")
    step = _drop(group, group.offsets.partitions())
    step.records += group.tombstones()
    step.answer(to, DeletableGroupResult(group_id=group_id))
    return step


def delete_offsets(state: GroupsState, request: OffsetDeleteRequest, to: Receiver, topic_id_of: TopicIdOf) -> Step:
    """OffsetDelete: offsets of topics that no member subscribes to. Raises KafkaError."""
    group = state.groups.get(request.group_id)
    if group is None or group.state is GroupState.DEAD:
        raise GroupIdNotFoundError(f"there is no group {request.group_id!r}")
    subscribed: frozenset[str] | None = frozenset()
    if group.members:
        subscribed = group.subscribed_topics
        if group.protocol_type != CONSUMER:
            raise NonEmptyGroupError(f"group {group.id!r} has members of type {group.protocol_type!r}")
    step = _drop(group, ())
    topics = []
    for topic in request.topics:
        in_use = subscribed is None or topic.name in subscribed
        topics.append(_delete_of_topic(group, topic, step, in_use, topic_id_of))
    step.answer(to, OffsetDeleteResponse(topics=topics))
    return step


def _delete_of_topic(
    group: AnyGroup, topic: OffsetDeleteRequestTopic, step: Step, in_use: bool, topic_id_of: TopicIdOf
) -> OffsetDeleteResponseTopic:
    answers = []
    for asked in topic.partitions:
        partition = TopicPartition(topic.name, asked.partition_index)
        error = ErrorCode.NONE
        if topic_id_of(*partition) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif in_use:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif group.offsets.has(partition):
            step.records += _tombstones(group, [partition])
        answers.append(OffsetDeleteResponsePartition(partition_index=partition.partition, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=answers)


def expire(state: GroupsState, group: AnyGroup, now: Instant, topic_id_of: TopicIdOf) -> Step:
    """Drop offsets kept for long enough, or whose topic is gone, and with the last of them a group that has no
    members."""
    condition = _retention_of(group)
    expired: list[TopicPartition] = []
    if condition is not None:
        since, keep = condition
        expired = group.offsets.expired(now.wall_ms, state.options.offsets_retention_ms, since, keep)
    expired += group.offsets.stale(topic_id_of)
    step = _drop(group, dict.fromkeys(expired))
    nothing_left = set(group.offsets.partitions()) <= set(expired)
    if group.state is GroupState.EMPTY and nothing_left and not group.expects_members:
        step.records += group.tombstones()
    return step


def _retention_of(group: AnyGroup) -> tuple[Since, frozenset[str]] | None:
    """From when on the retention of a group's offsets counts, and whose topics are in use; None: nothing expires."""
    if isinstance(group, ConsumerGroup):
        return (lambda value: value.commit_timestamp), group.subscribed_topics
    if group.protocol_type is None:
        return (lambda value: value.commit_timestamp), frozenset()
    if group.state is GroupState.EMPTY:
        emptied = group.state_timestamp
        if emptied == NO_TIMESTAMP:
            return (lambda value: value.commit_timestamp), frozenset()
        return (lambda value: emptied), frozenset()
    subscribed = group.subscribed_topics
    if group.state is GroupState.STABLE and subscribed is not None:
        return (lambda value: value.commit_timestamp), subscribed
    return None


def drop_topics(group: AnyGroup, gone: Callable[[str], bool]) -> Step:
    """Forget the offsets of topics that were deleted."""
    return _drop(group, group.offsets.of_topics(gone))


def drop_stale(group: AnyGroup, topic_id_of: TopicIdOf) -> Step:
    """Forget the offsets of topics that are gone, even if another has the name now."""
    return _drop(group, group.offsets.stale(topic_id_of))


def _drop(group: AnyGroup, partitions: Iterable[TopicPartition]) -> Step:
    return Step(list(_tombstones(group, partitions)), atomic=False)


def _tombstones(group: AnyGroup, partitions: Iterable[TopicPartition]) -> list[OffsetRecord]:
    return [OffsetRecord(group.id, partition.topic, partition.partition, None) for partition in partitions]
