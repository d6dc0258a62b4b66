"""OffsetCommit (8): store how far a group has read; answered when all in-sync replicas have it."""

from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.groups.committing import commit
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from rookery.core.wire.served import Served

_TOO_LARGE = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}

TOPIC_IDS_FROM = 10


class OffsetCommitHandler:
    served = Served(OFFSET_COMMIT, 2, 10)

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def handle(self, request: OffsetCommitRequest, call: Call) -> Any:
        groups = self._groups
        if call.version >= TOPIC_IDS_FROM:
            for topic in request.topics:
                topic.name = groups.topic_name_of(topic.topic_id)
        reply: Reply[OffsetCommitResponse] = Reply(call, lambda code: _refusal(request, code), _TOO_LARGE)
        groups.run(
            request.group_id,
            reply,
            lambda state, now: commit(state, request, reply, now, groups.topic_id_of, version=call.version),
        )
        return reply.outcome(blocks=False)


def _refusal(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
