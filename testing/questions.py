"""What a test asks of a cluster: over the wire, as any client would."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from rookery.broker.groups.records import OffsetRecord, decode
from rookery.client.admin import NewTopic, create_topic
from rookery.client.reader import EARLIEST, LATEST, PartitionReader, offsets_at
from rookery.core.errors import KafkaError
from rookery.core.net.cluster import (
    Cluster,
    ClusterMetadata,
    CoordinatorKind,
    PartitionView,
    TopicView,
    check,
    metadata_of,
    parse_bootstrap,
)
from rookery.core.net.connection import ConnectionLostError
from rookery.core.net.network import Address
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from rookery.core.wire.apis.offset_fetch import (
    OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from rookery.core.wire.records import Record

T = TypeVar("T")
FIND_S = 30.0
OFFSETS_TOPIC = "__consumer_offsets"
OFFSET_FETCH_VERSION_MAX = 9


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as it stands in the log."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """That a group has read a partition up to `offset`, and the place in the offsets topic where it says so."""

    group: str
    offset: int
    timestamp_ms: int
    place: tuple[int, int]


async def known_to(address: str, topic: str) -> bool:
    """Whether this very node knows a topic. Asked of others, a client that knows them would be content with any."""
    async with Cluster(address, client_id="rookery-testing", request_timeout_s=10.0) as cluster:
        return topic in (await cluster.refresh([topic])).topics


def newest_view(answers: list[tuple[int, TopicView]]) -> TopicView:
    """A topic, from what several nodes (by id) answered. One that was paused or cut off goes on naming the leader and
    the ISR of before: of each partition the latest leader epoch counts, and for that the word of the leader itself.
    Of a topic that was recreated, the one that most nodes know."""
    ids = Counter(view.id for _, view in answers)
    latest = max(ids, key=lambda topic_id: ids[topic_id])
    newest: dict[int, tuple[tuple[int, bool], PartitionView]] = {}
    for node_id, view in answers:
        for index, each in view.partitions.items() if view.id == latest else ():
            rank = (each.leader_epoch, each.leader == node_id)
            if index not in newest or rank > newest[index][0]:
                newest[index] = (rank, each)
    view = next(view for _, view in answers if view.id == latest)
    return replace(view, partitions={index: each for index, (_, each) in sorted(newest.items())})


class Questions:
    """Every question opens a connection of its own: a node that was killed since the last one is not waited for."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap

    async def _ask(self, question: Callable[[Cluster], Awaitable[T]]) -> T:
        async with Cluster(self._bootstrap(), client_id="rookery-testing", request_timeout_s=10.0) as cluster:
            return await question(cluster)

    async def _topic(self, cluster: Cluster, name: str) -> TopicView:
        """A topic as the nodes together know it; waits while none of them knows it. `cluster` then knows it so, too."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

        async def ask(address: Address) -> tuple[Address, ClusterMetadata] | None:
            try:
                answer = await cluster.peers.ask(address, METADATA, request, timeout_s=cluster.request_timeout_s)
            except (OSError, ConnectionLostError):
                return None
            return address, metadata_of(answer)

        received = await asyncio.gather(*map(ask, parse_bootstrap(self._bootstrap())))
        answers, nodes = [], dict(cluster.view.nodes)
        for address, metadata in filter(None, received):
            nodes.update(metadata.nodes)
            node_id = next((node.id for node in metadata.nodes.values() if node.endpoint == address), -1)
            if name in metadata.topics:
                answers.append((node_id, metadata.topics[name]))
        if not answers:
            return await cluster.topic(name, timeout_s=FIND_S)
        view = newest_view(answers)
        cluster.view = replace(cluster.view, nodes=nodes, topics={**cluster.view.topics, name: view})
        return view

    async def create_topic(self, name: str, partitions: int, replicas: int, config: dict[str, str]) -> None:
        await self._ask(lambda c: create_topic(c, NewTopic(name, partitions, replicas, config or None)))

    async def topic(self, name: str) -> TopicView:
        return await self._ask(lambda c: self._topic(c, name))

    async def topics(self) -> list[str]:
        async def ask(cluster: Cluster) -> list[str]:
            view = await cluster.refresh(None)
            return sorted(name for name, topic in view.topics.items() if not topic.internal)

        return await self._ask(ask)

    async def partition(self, topic: str, index: int) -> PartitionView:
        async def ask(cluster: Cluster) -> PartitionView:
            await self._topic(cluster, topic)
            return await cluster.partition(topic, index)

        return await self._ask(ask)

    async def ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """For each partition the log start and the high watermark."""

        async def ask(cluster: Cluster) -> dict[int, tuple[int, int]]:
            places = [(topic, index) for index in (await self._topic(cluster, topic)).partitions]
            starts = await offsets_at(cluster, dict.fromkeys(places, EARLIEST))
            ends = await offsets_at(cluster, dict.fromkeys(places, LATEST))
            return {place[1]: (starts[place], ends[place]) for place in places}

        return await self._ask(ask)

    async def records(self, topic: str, *, read_committed: bool) -> list[StoredRecord]:
        """All that is below the high watermarks now, partition by partition."""
        ends = await self.ends(topic)

        async def ask(cluster: Cluster) -> list[StoredRecord]:
            await self._topic(cluster, topic)
            found: list[StoredRecord] = []
            for partition, (start, end) in sorted(ends.items()):
                reader = PartitionReader(cluster, topic, partition, start, read_committed=read_committed)
                last = end
                if read_committed:
                    stable = await offsets_at(cluster, {(topic, partition): LATEST}, read_committed=True)
                    last = stable[topic, partition]
                while reader.position < min(end, last):
                    fetched = await reader.fetch()
                    found += [_stored(topic, partition, record) for record in fetched.records]
            return found

        return await self._ask(ask)

    async def record(self, topic: str, partition: int, offset: int) -> StoredRecord | None:
        """The record at an offset below the high watermark; None if there is none: a marker, or compacted away."""

        async def ask(cluster: Cluster) -> StoredRecord | None:
            await self._topic(cluster, topic)
            fetched = await PartitionReader(cluster, topic, partition, offset, bytes_max=1).fetch()
            found = next((record for record in fetched.records if record.offset == offset), None)
            return None if found is None else _stored(topic, partition, found)

        return await self._ask(ask)

    async def commits(self, topic: str, partition: int) -> list[OffsetCommit]:
        """Every offset that was committed of a partition and has not been compacted away, by time."""
        found = []
        for record in await self.records(OFFSETS_TOPIC, read_committed=True):
            stored = decode(record.key, record.value)
            if not isinstance(stored, OffsetRecord):
                continue
            if (stored.topic, stored.partition) == (topic, partition) and stored.value:
                place = (record.partition, record.offset)
                found.append(OffsetCommit(stored.group, stored.value.offset, stored.value.commit_timestamp, place))
        return sorted(found, key=lambda commit: (commit.timestamp_ms, commit.place))

    async def committed(self) -> dict[str, dict[tuple[str, int], int]]:
        """The committed offsets of every group."""

        async def ask(cluster: Cluster) -> dict[str, dict[tuple[str, int], int]]:
            await cluster.refresh()
            names: set[str] = set()
            for node in list(cluster.view.nodes.values()):
                try:
                    listed = await cluster.ask(node, LIST_GROUPS, ListGroupsRequest())
                except (OSError, KafkaError, ConnectionLostError):
                    continue
                names |= {group.group_id for group in listed.groups}
            found: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
            for name in sorted(names):
                node = await cluster.coordinator(CoordinatorKind.GROUP, name)
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None)])
                answer = await cluster.ask(node, OFFSET_FETCH, request, at_most=OFFSET_FETCH_VERSION_MAX)
                for group in answer.groups:
                    check(group.error_code, f"group {name!r}")
                    for topic in group.topics:
                        for each in topic.partitions:
                            found[name][topic.name or "", each.partition_index] = each.committed_offset
            return found

        return await self._ask(ask)


def _stored(topic: str, partition: int, record: Record) -> StoredRecord:
    return StoredRecord(
        topic,
        partition,
        record.offset,
        record.timestamp,
        None if record.key is None else bytes(record.key),
        None if record.value is None else bytes(record.value),
        tuple((name, None if value is None else bytes(value)) for name, value in record.headers),
    )
