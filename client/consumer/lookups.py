"""Questions about offsets, each one attempt: what a leader has at a time, where an epoch ended.

All leaders are asked at once. What fails is left out of the answer; the first reason goes with it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from rookery.client.consumer.metadata import UNREACHABLE, Metadata
from rookery.core.errors import KafkaError, LeaderNotAvailableError, error_for
from rookery.core.net.cluster import Cluster, Node
from rookery.core.types import TopicPartition
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

CONSUMER = -1
LIST_OFFSETS_VERSION_MAX = 7
T = TypeVar("T")


class OffsetAtTime(NamedTuple):
    """The first record at or after a time; -1 if there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The largest leader epoch that is not above the one asked for, and the offset after its last record."""

    leader_epoch: int
    end_offset: int


class Lookups:
    def __init__(self, cluster: Cluster, metadata: Metadata, *, read_committed: bool) -> None:
        self._cluster = cluster
        self._metadata = metadata
        self._read_committed = read_committed

    async def at_times(
        self, times: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, OffsetAtTime], Exception | None]:
        """The offsets at times in ms, or EARLIEST or LATEST."""

        async def ask(
            node: Node, places: Collection[TopicPartition]
        ) -> dict[TopicPartition, OffsetAtTime | KafkaError]:
            topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
            for tp in places:
                epoch = self._epoch(tp)
                topics[tp.topic].append(
                    ListOffsetsPartition(
                        partition_index=tp.partition, current_leader_epoch=epoch, timestamp=times[tp]
                    )
                )
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=int(self._read_committed),
                topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
            )
            answer = await self._cluster.ask(node, LIST_OFFSETS, request, at_most=LIST_OFFSETS_VERSION_MAX)
            return {
                TopicPartition(topic.name, each.partition_index): error_for(
                    each.error_code, f"ListOffsets of {topic.name}"
                )
                if each.error_code
                else OffsetAtTime(each.offset, each.timestamp, each.leader_epoch)
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self._ask_leaders(times, ask)

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, EpochEnd], Exception | None]:
        """Where leader epochs ended, as the leaders have it."""

        async def ask(
            node: Node, places: Collection[TopicPartition]
        ) -> dict[TopicPartition, EpochEnd | KafkaError]:
            topics: dict[str, list[OffsetForLeaderPartition]] = defaultdict(list)
            for tp in places:
                topics[tp.topic].append(
                    OffsetForLeaderPartition(
                        partition=tp.partition, current_leader_epoch=self._epoch(tp), leader_epoch=epochs[tp]
                    )
                )
            request = OffsetForLeaderEpochRequest(
                replica_id=CONSUMER,
                topics=[OffsetForLeaderTopic(topic=name, partitions=each) for name, each in topics.items()],
            )
            answer = await self._cluster.ask(node, OFFSET_FOR_LEADER_EPOCH, request)
            return {
                TopicPartition(topic.topic, each.partition): error_for(
                    each.error_code, f"OffsetForLeaderEpoch of {topic.topic}"
                )
                if each.error_code
                else EpochEnd(each.leader_epoch, each.end_offset)
                for topic in answer.topics
                for each in topic.partitions
            }

        return await self._ask_leaders(epochs, ask)

    def _epoch(self, tp: TopicPartition) -> int:
        leader = self._metadata.leader(tp)
        return -1 if leader is None else leader.epoch

    async def _ask_leaders(
        self,
        places: Iterable[TopicPartition],
        ask: Callable[
            [Node, Collection[TopicPartition]], Coroutine[Any, Any, dict[TopicPartition, T | KafkaError]]
        ],
    ) -> tuple[dict[TopicPartition, T], Exception | None]:
        by_node: dict[Node, list[TopicPartition]] = defaultdict(list)
        problem: Exception | None = None
        for tp in places:
            leader = self._metadata.leader(tp)
            node = None if leader is None else self._metadata.node(leader.node)
            if node is None:
                problem = LeaderNotAvailableError(f"{tp} has no known leader")
            else:
                by_node[node].append(tp)
        answers = await asyncio.gather(
            *(ask(node, each) for node, each in by_node.items()), return_exceptions=True
        )
        found: dict[TopicPartition, T] = {}
        for answer in answers:
            if isinstance(answer, BaseException):
                if not isinstance(answer, (KafkaError, *UNREACHABLE)):
                    raise answer
                problem = answer
                continue
            for tp, value in answer.items():
                if isinstance(value, KafkaError):
                    problem = value
                else:
                    found[tp] = value
        if problem is not None:
            self._metadata.request()
        return found, problem
