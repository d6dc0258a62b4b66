"""What the driver asks the cluster: the partitions that exist, and their offsets."""

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from rookery.client.reader import offsets_at
from rookery.client.spark.options import Selection
from rookery.client.spark.places import EARLIEST, LATEST, Ids, TopicPartition, show
from rookery.core.errors import ErrorCode
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster, ClusterMetadata, Node, check
from rookery.core.wire.apis.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)

TIMEOUT_S = 60.0
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


async def weights_of(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
    """Bytes of an offset, on average over the log as its leader stores it; without partitions that have no records."""
    first = await offsets_at(cluster, dict.fromkeys(partitions, EARLIEST))
    last = await offsets_at(cluster, dict.fromkeys(partitions, LATEST))
    sizes = await cluster.retrying(lambda: _sizes(cluster, partitions), TIMEOUT_S, also=UNKNOWN_TOPIC)
    return {
        key: max(1.0, sizes[key] / (last[key] - first[key]))
        for key in partitions
        if key in sizes and last[key] > first[key]
    }


async def _sizes(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    by_leader: dict[Node, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic, index in sorted(partitions):
        by_leader[await cluster.leader(topic, index)][topic].append(index)
    found: dict[TopicPartition, int] = {}
    for node, topics in by_leader.items():
        wanted = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
        answer = await cluster.ask(node, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=wanted))
        check(answer.error_code, node.address)
        for folder in answer.results:
            for each in folder.topics:
                found.update({(each.name, part.partition_index): part.partition_size for part in each.partitions})
    return found


async def bounds_of(cluster: Cluster, partition: TopicPartition, timeout_s: float = TIMEOUT_S) -> tuple[int, int]:
    """The first offset of a partition and the offset after its last committed record."""
    earliest = await offsets_at(cluster, {partition: EARLIEST}, timeout_s=timeout_s)
    latest = await offsets_at(cluster, {partition: LATEST}, timeout_s=timeout_s)
    return earliest[partition], latest[partition]
