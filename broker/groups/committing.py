"""Committing and fetching offsets."""

from collections.abc import Sequence
from functools import partial
from uuid import UUID

from rookery.broker.groups.consumer.member import TopicIdPartition
from rookery.broker.groups.members import Identity
from rookery.broker.groups.offsets import TopicIdOf, is_current
from rookery.broker.groups.records import NO_TIMESTAMP, OffsetCommitValue, OffsetRecord
from rookery.broker.groups.state import AnyGroup, GroupsState
from rookery.broker.groups.step import Instant, Receiver, Step
from rookery.core.errors import ErrorCode, GroupIdNotFoundError, IllegalGenerationError
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from rookery.core.wire.apis.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from rookery.core.wire.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from rookery.core.wire.primitives import NO_UUID

CommittedPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
NO_OFFSET = -1
NO_GROUP_FROM = 9
"""Older versions know no GROUP_ID_NOT_FOUND."""


def commit(
    state: GroupsState,
    request: OffsetCommitRequest,
    to: Receiver,
    now: Instant,
    topic_id_of: TopicIdOf,
    *,
    version: int,
) -> Step:
    """OffsetCommit: each partition is answered by itself. Raises KafkaError where the group refuses them all.
    Who names a generation belongs to a group: only without one the group is made."""
    generation = request.generation_id_or_member_epoch
    group = state.groups.get(request.group_id)
    if group is None and generation >= 0:
        missing = GroupIdNotFoundError if version >= NO_GROUP_FROM else IllegalGenerationError
        raise missing(f"group {request.group_id!r} does not exist, so it has no generation {generation}")
    group = group or state.find_or_make(request.group_id)
    group.check_commit(
        Identity(request.member_id, request.group_instance_id),
        generation,
        now,
        version=version,
        places=partial(_places, request, topic_id_of),
    )
    step = Step()
    expires = NO_TIMESTAMP
    if request.retention_time_ms >= 0:
        expires = now.wall_ms + request.retention_time_ms
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            error = _refusal(partition, state.options.offset_metadata_max_bytes)
            topic_id = topic_id_of(topic.name, partition.partition_index)
            if topic.topic_id != NO_UUID and not topic.name:
                error = ErrorCode.UNKNOWN_TOPIC_ID
            elif topic_id is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif error is ErrorCode.NONE:
                value = _value(partition, topic_id, now.wall_ms, expires)
                step.records.append(OffsetRecord(group.id, topic.name, partition.partition_index, value))
            answers.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    step.answer(to, OffsetCommitResponse(topics=topics))
    return step


def commit_in_transaction(
    state: GroupsState, request: TxnOffsetCommitRequest, to: Receiver, now: Instant, topic_id_of: TopicIdOf
) -> Step:
    """TxnOffsetCommit: like `commit`, but a request without a member id is always accepted, and so are offsets
    while the group waits for its assignment. Raises KafkaError where the group refuses them all."""
    group = state.groups.get(request.group_id)
    if group is None and request.generation_id >= 0:
        raise IllegalGenerationError(
            f"group {request.group_id!r} does not exist, so it has no generation {request.generation_id}"
        )
    group = group or state.find_or_make(request.group_id)
    who = Identity(request.member_id, request.group_instance_id)
    places = partial(_places, request, topic_id_of)
    group.check_commit(who, request.generation_id, now, transactional=True, places=places)
    step = Step()
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            error = _refusal(partition, state.options.offset_metadata_max_bytes)
            topic_id = topic_id_of(topic.name, partition.partition_index)
            if topic_id is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif error is ErrorCode.NONE:
                value = _value(partition, topic_id, now.wall_ms, NO_TIMESTAMP)
                step.records.append(OffsetRecord(group.id, topic.name, partition.partition_index, value))
            answers.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
    step.answer(to, TxnOffsetCommitResponse(topics=topics))
    return step


def _places(request: OffsetCommitRequest | TxnOffsetCommitRequest, topic_id_of: TopicIdOf) -> list[TopicIdPartition]:
    """The partitions that are there of those to commit."""
    return [
        TopicIdPartition(topic_id, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
        if (topic_id := topic_id_of(topic.name, each.partition_index)) is not None
    ]


def _refusal(partition: CommittedPartition, metadata_max_bytes: int) -> ErrorCode:
    metadata = partition.committed_metadata
    if metadata is not None and len(metadata.encode()) > metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _value(
    partition: CommittedPartition, topic_id: UUID, now_ms: int, expires: int
) -> OffsetCommitValue:
    """The one version that can say when an offset expires has no place for a topic id."""
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expires,
        topic_id=topic_id if expires == NO_TIMESTAMP else NO_UUID,
    )


def fetch(
    state: GroupsState, request: OffsetFetchRequestGroup, topic_id_of: TopicIdOf, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """OffsetFetch for one group: what nobody committed, or was committed for a deleted topic of that name, is -1 and no
    error. Raises KafkaError for a member in another epoch."""
    group = state.groups.get(request.group_id)
    if group is not None:
        group.check_fetch(request.member_id, request.member_epoch)
    asked: dict[tuple[str, UUID], Sequence[int]]
    if request.topics is None:
        asked = _all_topics(group, topic_id_of)
    else:
        asked = {(topic.name, topic.topic_id): topic.partition_indexes for topic in request.topics}
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    _nothing(index, ErrorCode.UNKNOWN_TOPIC_ID)
                    if topic_id != NO_UUID and not topic
                    else _fetched(group, TopicPartition(topic, index), topic_id_of, require_stable)
                    for index in indexes
                ],
            )
            for (topic, topic_id), indexes in asked.items()
        ],
    )


def _all_topics(group: AnyGroup | None, topic_id_of: TopicIdOf) -> dict[tuple[str, UUID], Sequence[int]]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for partition, value in group.offsets if group is not None else ():
        topic_id = topic_id_of(*partition)
        if topic_id is not None and is_current(value, topic_id):
            topics.setdefault((partition.topic, topic_id), []).append(partition.partition)
    return {topic: sorted(indexes) for topic, indexes in topics.items()}


def _nothing(index: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
    )


def _fetched(
    group: AnyGroup | None, partition: TopicPartition, topic_id_of: TopicIdOf, require_stable: bool
) -> OffsetFetchResponsePartitions:
    index = partition.partition
    if group is not None and require_stable and group.offsets.is_unstable(partition):
        return _nothing(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    value = group.offsets.get(partition) if group is not None else None
    if value is None or not is_current(value, topic_id_of(*partition)):
        return _nothing(index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )
