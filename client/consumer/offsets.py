"""Committed offsets: look them up, and commit.

Commits of one consumer are sent one after the other, so an older one can never overwrite a newer one. A failure that
passes by itself is waited out; one that says that the group went on without this member is a CommitFailedError.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import TypeVar

from rookery.client.consumer.membership import LATER, LOOK_ELSEWHERE
from rookery.client.consumer.metadata import UNREACHABLE
from rookery.client.errors import ClientError, CommitFailedError, KafkaTimeoutError
from rookery.client.session import explained
from rookery.client.types import GroupMetadata, OffsetAndMetadata
from rookery.core.errors import ErrorCode, KafkaError, error_for
from rookery.core.event_logging import get_logger
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.cluster import Cluster, CoordinatorKind, Node
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

log = get_logger("client.consumer")

WITH_NAMES = 9
"""The last version that names topics by name."""
LOST_MEMBERSHIP = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)
WAIT_FOR_MEMBERSHIP = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
"""The member's own heartbeat or join, which goes on in the background, ends this."""
PASSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT})
REMEDIES = (
    "Either (1) make max_poll_records smaller, (2) make max_poll_interval_ms larger, (3) make processing faster or run "
    "it beside the polls with `consumer.run(handler)`, or (4) commit more often and in on_partitions_revoked. The "
    "records after the last commit are read again by the partition's new owner"
)

T = TypeVar("T")


def commit_failed(group: str, why: str) -> CommitFailedError:
    return CommitFailedError(
        f"the commit to group {group!r} failed because {why}: its partitions may belong to other members now",
        REMEDIES,
    )


class GroupOffsets:
    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        *,
        member: Callable[[], GroupMetadata | None],
        backoff: BackoffSettings,
        rng: Random,
        timeout_s: float,
        require_stable: bool,
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._member = member
        self._backoff = backoff
        self._rng = rng
        self._timeout_s = timeout_s
        self._require_stable = require_stable
        self._turns = asyncio.Lock()
        self.commits = 0

    # --- commit ---------------------------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_s: float | None = None,
        *,
        retry: bool = True,
    ) -> None:
        """Commit as the member that this consumer is now. Without `retry` the first failure is raised."""
        if not offsets:
            return
        left = dict(offsets)

        async def attempt() -> None:
            member = self._member()
            if member is None:
                raise commit_failed(self._group_id, "the member left the group or was removed from it")
            node = await self._coordinator()
            answer = await self._ask(node, member, left)
            first: int = 0
            for tp, code in answer.items():
                if not code:
                    left.pop(tp, None)
                else:
                    first = code
            if first:
                self._raise(first, member)

        loop = asyncio.get_running_loop()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = loop.time() + limit_s
        try:
            async with asyncio.timeout_at(deadline):
                await self._turns.acquire()
        except TimeoutError:
            raise KafkaTimeoutError(
                f"commit to group {self._group_id!r} waited longer than {limit_s:g} s for the one before it"
            ) from None
        try:
            await self._retrying(attempt, limit_s, "commit", retry, deadline)
        finally:
            self._turns.release()
        self.commits += 1

    async def _ask(
        self, node: Node, member: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, int]:
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for tp, each in offsets.items():
            topics[tp.topic].append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    committed_metadata=each.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        answer = await self._cluster.ask(node, OFFSET_COMMIT, request, at_most=WITH_NAMES)
        return {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }

    def _raise(self, code: int, member: GroupMetadata) -> None:
        if code in LOST_MEMBERSHIP and not member.member_id:
            raise CommitFailedError(
                f"the commit to group {self._group_id!r} was refused: the group has members, and this consumer, whose "
                "partitions were assigned by hand, is none of them",
                "Use subscribe() to become a member, or another group_id",
            )
        if code in LOST_MEMBERSHIP:
            raise commit_failed(self._group_id, f"the coordinator answered {ErrorCode(code).name}")
        raise error_for(code, f"commit to group {self._group_id!r}")

    # --- look up --------------------------------------------------------------------------------------------

    async def committed(
        self, places: Iterable[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed; None where it committed nothing."""
        wanted = list(places)
        if not wanted:
            return {}

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            node = await self._coordinator()
            return self._read(
                await self._cluster.ask(node, OFFSET_FETCH, self._fetch_request(wanted), at_most=WITH_NAMES)
            )

        found = await self._retrying(
            attempt, self._timeout_s if timeout_s is None else timeout_s, "committed"
        )
        return {tp: found.get(tp) for tp in wanted}

    def _fetch_request(self, places: Iterable[TopicPartition]) -> OffsetFetchRequest:
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in places:
            topics[tp.topic].append(tp.partition)
        group = OffsetFetchRequestGroup(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in topics.items()
            ],
        )
        return OffsetFetchRequest(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in topics.items()
            ],
            groups=[group],
            require_stable=self._require_stable,
        )

    def _read(self, answer: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata | None]:
        where = f"committed offsets of group {self._group_id!r}"
        if answer.groups:
            code, topics = answer.groups[0].error_code, answer.groups[0].topics
            parts = [(topic.name, each) for topic in topics for each in topic.partitions]
        else:
            code = answer.error_code
            parts = [(topic.name, each) for topic in answer.topics for each in topic.partitions]  # type: ignore[misc]
        if code:
            raise error_for(code, where)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for name, each in parts:
            if each.error_code:
                raise error_for(each.error_code, where)
            committed = None
            if each.committed_offset >= 0:
                committed = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
            found[TopicPartition(name, each.partition_index)] = committed
        return found

    # --- retries --------------------------------------------------------------------------------------------

    async def _coordinator(self) -> Node:
        return await self._cluster.coordinator(
            CoordinatorKind.GROUP, self._group_id, timeout_s=self._timeout_s
        )

    async def _retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        timeout_s: float,
        what: str,
        retry: bool = True,
        deadline: float | None = None,
    ) -> T:
        backoff = Backoff(self._backoff, self._rng)
        loop = asyncio.get_running_loop()
        if deadline is None:
            deadline = loop.time() + timeout_s
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"{what} of group {self._group_id!r} took longer than {timeout_s:g} s"
                ) from None
            except (KafkaError, *UNREACHABLE) as error:
                if not self._passes(error) or not retry or loop.time() >= deadline:
                    raise explained(error) from error.__cause__
                log.debug("offsets.retried", what=what, error=str(error))
            await asyncio.sleep(min(backoff.failed(), max(0.0, deadline - loop.time())))

    def _passes(self, error: Exception) -> bool:
        if isinstance(error, ClientError):
            return False
        code = error.code if isinstance(error, KafkaError) else None
        if code is None or code in LOOK_ELSEWHERE:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._group_id)
            return True
        return code in LATER or code in WAIT_FOR_MEMBERSHIP or code in PASSING
