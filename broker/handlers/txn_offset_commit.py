"""TxnOffsetCommit (28): offsets that become visible when a transaction commits.

The partition of the group is one more that the transaction writes to: like the first batch of a Produce, the first of
these offsets waits until the transaction's coordinator has confirmed it, or from v5 on has added it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.coordination.shard import ProducerTransaction
from rookery.broker.groups.committing import commit_in_transaction
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.shard import GroupShard
from rookery.broker.handlers.authorize import READ, WRITE, check_group, check_transactional_id, split_topics
from rookery.broker.log.producer_state import NOT_VERIFIED, Guard
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import StartTask
from rookery.broker.transactions.verification import (
    ADDING_COMMIT_FROM,
    Transaction,
    Verification,
    committer_error,
)
from rookery.core.errors import CoordinatorNotAvailableError, ErrorCode, InvalidGroupIdError, KafkaError
from rookery.core.wire.apis.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from rookery.core.wire.served import Served

LOADING_FROM = 2
_TOO_LARGE = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
_OLD = _TOO_LARGE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
"""Old clients take an error they do not know here for the end of their transaction."""


class TxnOffsetCommitHandler:
    served = Served(TXN_OFFSET_COMMIT, 0, 5)

    def __init__(self, groups: GroupCoordinator, verification: Verification, start_task: StartTask) -> None:
        self._groups = groups
        self._verification = verification
        self._start_task = start_task

    def handle(self, request: TxnOffsetCommitRequest, call: Call) -> Any:
        otherwise = _TOO_LARGE if call.version >= LOADING_FROM else _OLD
        denied: Sequence[TxnOffsetCommitRequestTopic] = ()
        reply: _ReplyWithDenied = _ReplyWithDenied(call, request, otherwise)
        try:
            check_transactional_id(call, WRITE, request.transactional_id)
            check_group(call, READ, request.group_id)
            request.topics, denied = split_topics(call, READ, request.topics)
            if denied:
                reply.add_denied(denied)
            if denied and not request.topics:
                reply.complete(TxnOffsetCommitResponse(topics=()))
                return reply.outcome()
            if not request.group_id:
                raise InvalidGroupIdError("the group id is empty")
            shard = self._groups.shard_of(request.group_id)
            shard.partition.check_commits()
            guard = self._guard(shard, request, call.version)
        except KafkaError as error:
            reply.refuse(error)
            return reply.outcome()
        if guard is None or guard is NOT_VERIFIED:
            self._commit(request, shard, guard, reply)
        else:
            asking = self._start_task(self._ask(request, call, shard, guard, reply), TXN_OFFSET_COMMIT.name)
            asking.receive(lambda _, broken: None if broken is None else reply.refuse(_not_asked(broken)))
        return reply.outcome()

    def _guard(self, shard: GroupShard, request: TxnOffsetCommitRequest, version: int) -> Guard | None:
        adds = version >= ADDING_COMMIT_FROM
        if not adds and not self._verification.enabled:
            return NOT_VERIFIED
        return shard.partition.log.store.state.guard_for(
            request.producer_id,
            request.producer_epoch,
            bumps=adds,
            now_ms=self._groups.now().wall_ms,
        )

    async def _ask(
        self,
        request: TxnOffsetCommitRequest,
        call: Call,
        shard: GroupShard,
        guard: Guard,
        reply: Reply[TxnOffsetCommitResponse],
    ) -> None:
        place = shard.partition.topic_partition
        transaction = Transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            call.version >= ADDING_COMMIT_FROM,
        )
        refused = await self._verification.ask(transaction, [place])
        if place in refused:
            reply.refuse(committer_error(refused[place], call.version))
        else:
            self._commit(request, shard, guard, reply)

    def _commit(
        self,
        request: TxnOffsetCommitRequest,
        shard: GroupShard,
        guard: Guard | None,
        reply: Reply[TxnOffsetCommitResponse],
    ) -> None:
        groups = self._groups
        groups.run_within(
            request.group_id,
            shard,
            ProducerTransaction(request.producer_id, request.producer_epoch, guard),
            reply,
            lambda state, now: commit_in_transaction(state, request, reply, now, groups.topic_id_of),
        )


class _ReplyWithDenied(Reply[TxnOffsetCommitResponse]):
    """The answer, together with that for topics which the client may not read."""

    __slots__ = ("_denied",)

    def __init__(
        self, call: Call, request: TxnOffsetCommitRequest, otherwise: Mapping[ErrorCode, ErrorCode]
    ) -> None:
        super().__init__(call, lambda code: _refusal(request.topics, code), otherwise)
        self._denied: Sequence[TxnOffsetCommitResponseTopic] = ()

    def add_denied(self, denied: Sequence[TxnOffsetCommitRequestTopic]) -> None:
        self._call.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self._denied = _refusal(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED).topics

    def complete(self, response: TxnOffsetCommitResponse) -> None:
        if self._denied:
            response = TxnOffsetCommitResponse(topics=[*response.topics, *self._denied])
        super().complete(response)


def _not_asked(broken: BaseException) -> KafkaError:
    return CoordinatorNotAvailableError(f"the transaction could not be looked up: {broken}")


def _refusal(topics: Sequence[TxnOffsetCommitRequestTopic], code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
