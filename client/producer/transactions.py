"""The requests of transactions: to the coordinator of the transactional id and to those of groups.

Two versions of the protocol. In version 1 the producer adds partitions and groups before it writes to them. In
version 2 (KIP-890) the first write adds its partition, and each end of a transaction brings a new epoch.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple, TypeVar

from rookery.client.producer.transaction_state import TransactionState
from rookery.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from rookery.core.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    NotCoordinatorError,
    error_for,
)
from rookery.core.net.backoff import Backoff, BackoffSettings
from rookery.core.net.cluster import UNKNOWN_TOPIC, BootstrapError, Cluster, CoordinatorKind, check, retriable
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.add_offsets_to_txn import ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest
from rookery.core.wire.apis.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.end_txn import END_TXN, EndTxnRequest
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from rookery.core.wire.apis.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

FEATURE = "transaction.version"
SOFTWARE = "rookery"
ADD_PARTITIONS_VERSION_MAX = 3
"""Later versions are for brokers."""
END_TXN_V1 = 4
OFFSET_COMMIT_V1 = 4
PRODUCE_V1 = 11
CONCURRENT_PAUSE_S = 0.02
"""The previous transaction ends soon."""

Offsets = Mapping[TopicPartition, int | OffsetAndMetadata]
T = TypeVar("T")


class LeftOpen(NamedTuple):
    """A transaction that its producer delivered and left for another to end."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    wrote: bool
    """Whether the coordinator knows of it: otherwise there is nothing to end."""


class Transactions:
    """Speaks to the coordinators for one producer. Errors come out typed; those that pass are repeated."""

    def __init__(
        self,
        cluster: Cluster,
        state: TransactionState,
        timeout_ms: int,
        backoff: Callable[[], Backoff],
        limit_s: float,
    ) -> None:
        self._cluster = cluster
        self._state = state
        self._timeout_ms = timeout_ms
        self._backoff = backoff
        self._limit_s = limit_s
        self.producer_id = -1
        self.epoch = -1
        self.version = 1

    async def initialize(self) -> None:
        """Take the transactional id over: earlier producers are fenced, and their open transaction is aborted."""
        self.version = await self._until_done(self._feature)
        await self._new_epoch(-1, -1)

    async def renew(self) -> None:
        """A new epoch for the same producer, after a transaction whose batches were lost."""
        await self._new_epoch(self.producer_id, self.epoch)

    async def _new_epoch(self, producer_id: int, epoch: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._state.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

        async def attempt() -> tuple[int, int]:
            answer = await self._ask(INIT_PRODUCER_ID, request)
            return answer.producer_id, answer.producer_epoch

        self.producer_id, self.epoch = await self._until_done(attempt)

    async def _feature(self) -> int:
        request = ApiVersionsRequest(client_software_name=SOFTWARE, client_software_version="1")
        answer = await self._cluster.ask_any(API_VERSIONS, request)
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        return 2 if levels.get(FEATURE, 1) >= 2 else 1

    async def add_partitions(self, places: Iterable[TopicPartition]) -> None:
        """Version 1: before the first batch for each of them."""
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in places:
            topics[topic].append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._state.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()
            ],
        )

        async def attempt() -> None:
            answer = await self._ask(ADD_PARTITIONS_TO_TXN, request, at_most=ADD_PARTITIONS_VERSION_MAX)
            codes = {
                (topic.name, each.partition_index): each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            for (name, index), code in codes.items():
                check(code, f"{name}-{index} in transaction {self._state.transactional_id!r}")

        self._state.started = True
        await self._until_done(attempt, UNKNOWN_TOPIC)

    async def commit_offsets(self, offsets: Offsets, group: GroupMetadata) -> None:
        """Offsets of a group as part of the transaction."""
        self._state.started = True
        if self.version == 1:
            add = AddOffsetsToTxnRequest(
                transactional_id=self._state.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group.group_id,
            )
            await self._until_done(lambda: self._ask(ADD_OFFSETS_TO_TXN, add))
        request = _offset_commit(self._state.transactional_id, self.producer_id, self.epoch, offsets, group)

        async def attempt() -> None:
            node = await self._cluster.coordinator(
                CoordinatorKind.GROUP, group.group_id, timeout_s=self._limit_s
            )
            at_most = OFFSET_COMMIT_V1 if self.version == 1 else None
            try:
                answer = await self._cluster.ask(node, TXN_OFFSET_COMMIT, request, at_most=at_most)
                for topic in answer.topics:
                    for each in topic.partitions:
                        check(
                            each.error_code,
                            f"offset of {topic.name}-{each.partition_index} for {group.group_id!r}",
                        )
            except (NotCoordinatorError, CoordinatorNotAvailableError, ConnectionLostError, OSError):
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, group.group_id)
                raise

        await self._until_done(attempt)

    async def end(self, commit: bool) -> None:
        """Commit or abort. In version 2 the producer has another epoch afterwards."""
        request = EndTxnRequest(
            transactional_id=self._state.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

        async def attempt() -> tuple[int, int]:
            answer = await self._ask(END_TXN, request, at_most=END_TXN_V1 if self.version == 1 else None)
            return answer.producer_id, answer.producer_epoch

        producer_id, epoch = await self._until_done(attempt)
        if producer_id >= 0:
            self.producer_id, self.epoch = producer_id, epoch

    async def _ask(self, api: Any, request: Any, at_most: int | None = None) -> Any:
        """Ask the coordinator of the transactional id, and raise its error."""
        name = self._state.transactional_id
        node = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, name, timeout_s=self._limit_s)
        try:
            answer = await self._cluster.ask(node, api, request, at_most=at_most)
            code = getattr(answer, "error_code", 0)
            if code:
                raise error_for(code, f"{api.name} of transactional id {name!r}")
        except (
            NotCoordinatorError,
            CoordinatorNotAvailableError,
            CoordinatorLoadInProgressError,
            ConnectionLostError,
            OSError,
        ):
            self._cluster.forget_coordinator(CoordinatorKind.TRANSACTION, name)
            raise
        return answer

    async def _until_done(
        self, attempt: Callable[[], Awaitable[T]], also: tuple[type[KafkaError], ...] = ()
    ) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limit_s
        backoff = self._backoff()
        while True:
            try:
                return await attempt()
            except (KafkaError, ConnectionLostError, BootstrapError, OSError) as error:
                if isinstance(error, KafkaError) and not retriable(error) and not isinstance(error, also):
                    raise
                concurrent = isinstance(error, ConcurrentTransactionsError)
                pause_s = CONCURRENT_PAUSE_S if concurrent else backoff.failed()
                if loop.time() + pause_s > deadline:
                    raise
            await asyncio.sleep(pause_s)


async def end_left_open(cluster: Cluster, left: LeftOpen, *, commit: bool, limit_s: float) -> None:
    """Commit or abort a transaction that its producer left open. Raises the coordinator's error if there is a newer
    producer under the transactional id, or if the transaction timed out."""
    if not left.wrote:
        return
    rng = Random()
    state = TransactionState(left.transactional_id)
    transactions = Transactions(cluster, state, 0, lambda: Backoff(BackoffSettings(0.1, 1.0), rng), limit_s)
    transactions.producer_id, transactions.epoch = left.producer_id, left.epoch
    transactions.version = left.version
    await transactions.end(commit)


def _offset_commit(
    name: str, producer_id: int, epoch: int, offsets: Offsets, group: GroupMetadata
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), value in offsets.items():
        offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        topics[topic].append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=group.group_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in topics.items()],
    )
