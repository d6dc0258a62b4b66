"""What the driver asks the cluster: the partitions that exist, and their offsets."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rookery.client.spark.options import Selection
from rookery.client.spark.places import EARLIEST, LATEST, Ids, Offsets, TopicPartition, show
from rookery.core.errors import ErrorCode, OffsetNotAvailableError
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster, ClusterMetadata, Node, check
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

TIMEOUT_S = 60.0
CONSUMER = -1
LIST_OFFSETS_VERSION_MAX = 7
NONEXISTENT = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True)
class Found:
    """The partitions that exist, and the names in the options that do not."""

    partitions: frozenset[TopicPartition]
    ids: Ids
    missing: frozenset[str] = frozenset()


async def partitions_of(cluster: Cluster, selection: Selection, *, again: bool = False) -> Found:
    """The partitions that exist now, as reported by one node. Its metadata may be old, so call it with `again` to
    ask another node if something is missing."""
    if again:
        cluster.turn()
    view = await cluster.retrying(lambda: _refreshed(cluster, selection), TIMEOUT_S)
    if selection.pattern is not None:
        pattern = re.compile(selection.pattern)
        names = {name for name, topic in view.topics.items() if pattern.search(name) and not topic.internal}
    else:
        names = set(_named(selection)) & view.topics.keys()
    there = {(name, index) for name in names for index in view.topics[name].partitions}
    missing = set(selection.topics) - names
    if selection.partitions:
        missing = {show([key]) for key in set(selection.partitions) - there}
        there &= set(selection.partitions)
    ids = {name: str(view.topics[name].id) for name in names}
    return Found(frozenset(there), ids, frozenset(missing))


def _named(selection: Selection) -> tuple[str, ...]:
    return selection.topics or tuple({topic for topic, _ in selection.partitions})


async def _refreshed(cluster: Cluster, selection: Selection) -> ClusterMetadata:
    if selection.pattern is not None:
        return await cluster.refresh(None)
    view = await cluster.refresh(_named(selection))
    for name in _named(selection):
        error = view.errors.get(name, 0)
        if error not in NONEXISTENT:
            check(error, f"topic {name!r}")
    return view


async def bounds_of(cluster: Cluster, partition: TopicPartition, timeout_s: float = TIMEOUT_S) -> tuple[int, int]:
    """The first offset of a partition and the offset after its last committed record."""
    earliest = await offsets_at(cluster, {partition: EARLIEST}, timeout_s=timeout_s)
    latest = await offsets_at(cluster, {partition: LATEST}, timeout_s=timeout_s)
    return earliest[partition], latest[partition]


async def offsets_at(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Offsets:
    """For each partition the offset at a time (ms; -1 if no record is that new), or LATEST or EARLIEST.

    LATEST is the high watermark, or the last stable offset with `read_committed`.
    """
    found: Offsets = {}

    async def attempt() -> None:
        missing = {key: time for key, time in wanted.items() if key not in found}
        by_leader: dict[Node, list[TopicPartition]] = defaultdict(list)
        for key in sorted(missing):
            by_leader[await cluster.leader(*key)].append(key)
        asked = (_ask(cluster, node, keys, missing, read_committed) for node, keys in by_leader.items())
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        failure: BaseException | None = None
        for keys, outcome in zip(by_leader.values(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failure = outcome
                for topic, _ in keys:
                    cluster.forget(topic)
            else:
                found.update(outcome)
        if failure is not None:
            raise failure
        unanswered = wanted.keys() - found.keys()
        if unanswered:
            raise OffsetNotAvailableError(f"the leaders did not return the offsets of {show(unanswered)}")

    await cluster.retrying(attempt, timeout_s, also=UNKNOWN_TOPIC)
    return found


async def _ask(
    cluster: Cluster,
    leader: Node,
    keys: Collection[TopicPartition],
    times: Mapping[TopicPartition, int],
    read_committed: bool,
) -> Offsets:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for name, index in keys:
        topics[name].append(ListOffsetsPartition(partition_index=index, timestamp=times[name, index]))
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = await cluster.ask(leader, LIST_OFFSETS, request, at_most=LIST_OFFSETS_VERSION_MAX)
    found: Offsets = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            found[topic.name, each.partition_index] = each.offset
    return found
