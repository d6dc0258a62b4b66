"""What the driver asks the cluster: the partitions that exist, and their offsets."""

import re
from dataclasses import dataclass

from rookery.client.reader import offsets_at
from rookery.client.spark.options import Selection
from rookery.client.spark.places import EARLIEST, LATEST, Ids, TopicPartition, show
from rookery.core.errors import ErrorCode
from rookery.core.net.cluster import Cluster, ClusterMetadata, check

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


async def bounds_of(cluster: Cluster, partition: TopicPartition, timeout_s: float = TIMEOUT_S) -> tuple[int, int]:
    """The first offset of a partition and the offset after its last committed record."""
    earliest = await offsets_at(cluster, {partition: EARLIEST}, timeout_s=timeout_s)
    latest = await offsets_at(cluster, {partition: LATEST}, timeout_s=timeout_s)
    return earliest[partition], latest[partition]
