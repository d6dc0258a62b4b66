"""OffsetFetch (9): how far groups have read. From v8 on several groups can be asked for at once."""

from typing import Any

from rookery.broker.coordination.reply import Gather, Part, Reply
from rookery.broker.groups.committing import NO_OFFSET, fetch
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.step import Receiver, Step
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from rookery.core.wire.served import Served

SEVERAL_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERROR_FROM = 2
_ASK_ELSEWHERE = {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_COORDINATOR,
}
"""Consumers take COORDINATOR_NOT_AVAILABLE for fatal here; this makes them look for the coordinator again."""


class OffsetFetchHandler:
    served = Served(OFFSET_FETCH, 1, 10)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: OffsetFetchRequest, call: Call) -> Any:
        asked = request.groups if call.version >= SEVERAL_GROUPS_FROM else [_only_group(request)]
        if call.version >= TOPIC_IDS_FROM:
            for topic in (topic for group in asked for topic in group.topics or ()):
                topic.name = self._groups.topic_name_of(topic.topic_id)
        reply: Reply[OffsetFetchResponse] = Reply(call, lambda code: OffsetFetchResponse(error_code=code))

        def done(fetched: list[OffsetFetchResponseGroup]) -> None:
            if call.version >= SEVERAL_GROUPS_FROM:
                reply.complete(OffsetFetchResponse(groups=fetched))
            else:
                reply.complete(_flat(fetched[0], request, call.version))

        gather = Gather(len(asked), done)
        for index, group in enumerate(asked):
            part = Part(gather, index, call, _refusal(group), _ASK_ELSEWHERE)
            self._fetch(group, part, request.require_stable)
        return reply.outcome()

    def _fetch(self, group: OffsetFetchRequestGroup, to: Receiver, require_stable: bool) -> None:
        topic_id_of = self._groups.topic_id_of

        def decide(state: Any, now: object) -> Step:
            step = Step()
            step.answer(to, fetch(state, group, topic_id_of, require_stable=require_stable))
            return step

        self._groups.run(group.group_id, to, decide)


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _refusal(group: OffsetFetchRequestGroup) -> Any:
    return lambda code: OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=code)


def _flat(group: OffsetFetchResponseGroup, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """The answer as older versions have it; the oldest has no place for an error but each partition."""
    if group.error_code and version < GROUP_ERROR_FROM:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=NO_OFFSET,
                            metadata="",
                            error_code=group.error_code,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
