"""Committing and fetching offsets."""

from collections.abc import Sequence
from uuid import UUID

from rookery.broker.groups.group import Group
from rookery.broker.groups.members import Identity
from rookery.broker.groups.offsets import TopicIdOf, is_current
from rookery.broker.groups.records import NO_TIMESTAMP, OffsetCommitValue, OffsetRecord
from rookery.broker.groups.state import GroupsState
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
from rookery.core.wire.primitives import NO_UUID

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
        raise missing(f"there is no group {request.group_id!r}, let alone generation {generation}")
    group = group or state.find_or_make(request.group_id)
    group.check_commit(Identity(request.member_id, request.group_instance_id), generation, now)
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
            if topic_id is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif error is ErrorCode.NONE:
                value = _value(partition, topic_id, now.wall_ms, expires)
                step.records.append(OffsetRecord(group.id, topic.name, partition.partition_index, value))
            answers.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
    step.answer(to, OffsetCommitResponse(topics=topics))
    return step


def _refusal(partition: OffsetCommitRequestPartition, metadata_max_bytes: int) -> ErrorCode:
    metadata = partition.committed_metadata
    if metadata is not None and len(metadata.encode()) > metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _value(
    partition: OffsetCommitRequestPartition, topic_id: UUID, now_ms: int, expires: int
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
    error."""
    group = state.groups.get(request.group_id)
    asked: dict[str, Sequence[int]]
    if request.topics is None:
        asked = _all_topics(group, topic_id_of)
    else:
        asked = {topic.name: topic.partition_indexes for topic in request.topics}
    return OffsetFetchResponseGroup(
        group_id=request.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[
                    _fetched(group, TopicPartition(topic, index), topic_id_of, require_stable) for index in indexes
                ],
            )
            for topic, indexes in asked.items()
        ],
    )


def _all_topics(group: Group | None, topic_id_of: TopicIdOf) -> dict[str, Sequence[int]]:
    topics: dict[str, list[int]] = {}
    for partition, value in group.offsets if group is not None else ():
        if is_current(value, topic_id_of(*partition)):
            topics.setdefault(partition.topic, []).append(partition.partition)
    return {topic: sorted(indexes) for topic, indexes in topics.items()}


def _fetched(
    group: Group | None, partition: TopicPartition, topic_id_of: TopicIdOf, require_stable: bool
) -> OffsetFetchResponsePartitions:
    index = partition.partition
    if group is not None and require_stable and group.offsets.is_unstable(partition):
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    value = group.offsets.get(partition) if group is not None else None
    if value is None or not is_current(value, topic_id_of(*partition)):
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )
