"""TxnOffsetCommit (28): offsets that become visible when a transaction commits.

The partition of the group is one more that the transaction writes to: like the first batch of a Produce, the first of
these offsets waits until the transaction's coordinator has confirmed it, or from v5 on has added it.
"""

from typing import Any

from rookery.broker.coordination.reply import Reply
from rookery.broker.coordination.shard import Within
from rookery.broker.groups.committing import commit_in_transaction
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.shard import GroupShard
from rookery.broker.log.producer_state import NOT_VERIFIED, Guard
from rookery.broker.server.client import Call
from rookery.broker.server.dispatch import StartTask
from rookery.broker.transactions.verification import (
    ADDING_COMMIT_FROM,
    Transaction,
    Verification,
    told_to_committer,
)
from rookery.core.errors import CoordinatorNotAvailableError, ErrorCode, InvalidGroupIdError, KafkaError
from rookery.core.wire.apis.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
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
        reply: Reply[TxnOffsetCommitResponse] = Reply(call, lambda code: _refusal(request, code), otherwise)
        try:
            if not request.group_id:
                raise InvalidGroupIdError("the group id is empty")
            shard = self._groups.shard_of(request.group_id)
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
            reply.refuse(told_to_committer(refused[place], call.version))
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
            Within(request.producer_id, request.producer_epoch, guard),
            reply,
            lambda state, now: commit_in_transaction(state, request, reply, now, groups.topic_id_of),
        )


def _not_asked(broken: BaseException) -> KafkaError:
    return CoordinatorNotAvailableError(f"the transaction could not be looked up: {broken}")


def _refusal(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
