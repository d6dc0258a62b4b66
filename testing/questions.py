"""What a test asks of a cluster: over the wire, as any client would."""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rookery.broker.groups.records import OffsetRecord, decode
from rookery.client.admin import NewTopic, create_topic
from rookery.client.reader import EARLIEST, LATEST, PartitionReader, offsets_at
from rookery.core.errors import KafkaError
from rookery.core.net.cluster import Cluster, CoordinatorKind, PartitionView, TopicView, check
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.list_groups import LIST_GROUPS, ListGroupsRequest
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


class Questions:
    """Every question opens a connection of its own: a node that was killed since the last one is not waited for."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap

    async def _ask(self, question: Callable[[Cluster], Awaitable[T]]) -> T:
        async with Cluster(self._bootstrap(), client_id="rookery-testing", request_timeout_s=10.0) as cluster:
            return await question(cluster)

    async def create_topic(self, name: str, partitions: int, replicas: int, config: dict[str, str]) -> None:
        await self._ask(lambda c: create_topic(c, NewTopic(name, partitions, replicas, config or None)))

    async def topic(self, name: str) -> TopicView:
        return await self._ask(lambda c: c.topic(name, timeout_s=FIND_S))

    async def topics(self) -> list[str]:
        async def ask(cluster: Cluster) -> list[str]:
            view = await cluster.refresh(None)
            return sorted(name for name, topic in view.topics.items() if not topic.internal)

        return await self._ask(ask)

    async def partition(self, topic: str, index: int) -> PartitionView:
        return await self._ask(lambda c: c.partition(topic, index))

    async def ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """For each partition the log start and the high watermark."""

        async def ask(cluster: Cluster) -> dict[int, tuple[int, int]]:
            places = [(topic, index) for index in (await cluster.topic(topic)).partitions]
            starts = await offsets_at(cluster, dict.fromkeys(places, EARLIEST))
            ends = await offsets_at(cluster, dict.fromkeys(places, LATEST))
            return {place[1]: (starts[place], ends[place]) for place in places}

        return await self._ask(ask)

    async def records(self, topic: str, *, read_committed: bool) -> list[StoredRecord]:
        """All that is below the high watermarks now, partition by partition."""
        ends = await self.ends(topic)

        async def ask(cluster: Cluster) -> list[StoredRecord]:
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
