"""OffsetCommit (8): store how far a group has read; answered when all in-sync replicas have it."""

from collections.abc import Sequence
from typing import Any

from rookery.broker.coordination.reply import Converted, Reply
from rookery.broker.coordination.step import Receiver
from rookery.broker.groups.committing import commit
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.handlers.authorize import READ, group_denied, split_topics
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
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
        reply: Reply[OffsetCommitResponse]
        if not call.access.group(READ, request.group_id):
            reply = Reply(call, lambda code: _answer(request.topics, code))
            reply.refuse(group_denied(READ))
            return reply.outcome()
        request.topics, denied = split_topics(call, READ, request.topics)
        hidden = _answer(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if denied and not request.topics:
            call.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return hidden
        reply = Reply(call, lambda code: _joined(_answer(request.topics, code), hidden), _TOO_LARGE)
        to: Receiver = Converted(reply, lambda response: _joined(response, hidden)) if denied else reply
        groups.run(
            request.group_id,
            to,
            lambda state, now: commit(state, request, to, now, groups.topic_id_of, version=call.version),
        )
        return reply.outcome(blocks=False)


def _answer(topics: Sequence[OffsetCommitRequestTopic], code: ErrorCode) -> OffsetCommitResponse:
    """The same code for all of their partitions."""
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
            for topic in topics
        ]
    )


def _joined(response: OffsetCommitResponse, hidden: OffsetCommitResponse) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[*response.topics, *hidden.topics])
