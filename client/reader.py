"""Reads partitions: offsets for times, single fetches, and a partition from an offset on, through changes of leader."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from rookery.client.aborted import Aborted
from rookery.core.errors import KafkaError, OffsetNotAvailableError, OffsetOutOfRangeError
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster, Node, check
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.fetch import (
    FETCH,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from rookery.core.wire.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from rookery.core.wire.batch import Buffer
from rookery.core.wire.records import Record, batches, read_records, verify

LATEST = -1
EARLIEST = -2
RETRY_TIMEOUT_S = 60.0
CONSUMER = -1
LIST_OFFSETS_VERSION_MAX = 7
FETCH_VERSION_MAX = 16
"""The highest version used; later ones are for followers."""
Place = tuple[str, int]
"""A partition: topic and number."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one fetch: records in order, the next offset and the high watermark."""

    records: Sequence[Record]
    next_offset: int
    high_watermark: int


async def offset_at(
    cluster: Cluster, topic: str, partition: int, timestamp: int, *, read_committed: bool = False
) -> int:
    """`offsets_at` for a partition that must exist."""
    await cluster.partition(topic, partition)
    found = await offsets_at(cluster, {(topic, partition): timestamp}, read_committed=read_committed)
    return found[topic, partition]


async def offsets_at(
    cluster: Cluster,
    wanted: Mapping[Place, int],
    *,
    read_committed: bool = False,
    timeout_s: float = RETRY_TIMEOUT_S,
) -> dict[Place, int]:
    """For each partition the offset at a time (ms; -1 if no record is that new), or LATEST or EARLIEST.

    LATEST is the high watermark, or the last stable offset with `read_committed`.
    """
    found: dict[Place, int] = {}

    async def attempt() -> None:
        missing = {key: time for key, time in wanted.items() if key not in found}
        by_leader: dict[Node, list[Place]] = defaultdict(list)
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
            names = ", ".join(f"{topic}-{index}" for topic, index in sorted(unanswered))
            raise OffsetNotAvailableError(f"the leaders did not return the offsets of {names}")

    await cluster.retrying(attempt, timeout_s, also=UNKNOWN_TOPIC)
    return found


async def _ask(
    cluster: Cluster,
    leader: Node,
    keys: Collection[Place],
    times: Mapping[Place, int],
    read_committed: bool,
) -> dict[Place, int]:
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for name, index in keys:
        topics[name].append(ListOffsetsPartition(partition_index=index, timestamp=times[name, index]))
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = await cluster.ask(leader, LIST_OFFSETS, request, at_most=LIST_OFFSETS_VERSION_MAX)
    found: dict[Place, int] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            found[topic.name, each.partition_index] = each.offset
    return found


async def fetch_partition(
    cluster: Cluster,
    topic: str,
    partition: int,
    offset: int,
    *,
    bytes_max: int,
    wait_ms: int,
    read_committed: bool = False,
    topic_id: UUID | None = None,
    rack: str = "",
    replica: int | None = None,
) -> PartitionData:
    """One fetch from the partition's leader, or from `replica`. With `topic_id` a topic that was recreated under the
    same name is refused. With `rack` the leader may answer with a replica that is closer, and no records."""
    leader = await cluster.leader(topic, partition)
    if replica is not None:
        leader = cluster.view.nodes.get(replica, leader)
    view = await cluster.topic(topic)
    wanted = FetchPartition(
        partition=partition,
        current_leader_epoch=view.partitions[partition].leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=bytes_max,
    )
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=int(read_committed),
        topics=[FetchTopic(topic=topic, topic_id=topic_id or view.id, partitions=[wanted])],
        rack_id=rack,
    )
    answer = await cluster.ask(leader, FETCH, request, at_most=FETCH_VERSION_MAX)
    check(answer.error_code, leader.address)
    data = next((each for found in answer.responses for each in found.partitions), None)
    where = f"{topic}-{partition}"
    if data is None:
        raise OffsetNotAvailableError(f"{where}: the response of {leader.address} does not contain it")
    check(data.error_code, f"{where} at offset {offset}")
    return data


class PartitionReader:
    """Fetches from `position` on; each fetch moves it."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        position: int,
        *,
        bytes_max: int = 1 << 20,
        wait_ms_max: int = 500,
        read_committed: bool = False,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._bytes_max = bytes_max
        self._wait_ms_max = wait_ms_max
        self._read_committed = read_committed
        self.position = position

    async def fetch(self) -> Fetched:
        """The next records, possibly none after waiting for a while."""

        async def attempt() -> PartitionData:
            try:
                return await self._fetch_once()
            except (KafkaError, ConnectionLostError, OSError):
                self._cluster.forget(self._topic)
                raise

        await self._cluster.partition(self._topic, self._partition)
        answer = await self._cluster.retrying(attempt, RETRY_TIMEOUT_S, also=UNKNOWN_TOPIC)
        aborted = Aborted(answer.aborted_transactions or ())
        records, self.position = decode(answer.records or b"", self.position, aborted)
        return Fetched(records, self.position, answer.high_watermark)

    async def _fetch_once(self) -> PartitionData:
        topic, partition = self._topic, self._partition
        try:
            return await fetch_partition(
                self._cluster,
                topic,
                partition,
                self.position,
                bytes_max=self._bytes_max,
                wait_ms=self._wait_ms_max,
                read_committed=self._read_committed,
            )
        except OffsetOutOfRangeError:
            first, end = [await offset_at(self._cluster, topic, partition, time) for time in (EARLIEST, LATEST)]
            held = f"it holds {first} to {end - 1}" if end > first else f"it is empty, {first} is next"
            raise OffsetOutOfRangeError(f"{topic}-{partition} at offset {self.position}: {held}") from None


def decode(data: Buffer, position: int, aborted: Aborted | None = None) -> tuple[list[Record], int]:
    """The records at or after `position`, and the next offset. Control records are skipped, and those of `aborted`
    transactions."""
    records: list[Record] = []
    end = position
    for start, header in batches(data, partial_end=True):
        verify(data, start, header)
        hidden = aborted is not None and aborted.covers(data, start, header)
        if not hidden and not header.control and header.last_offset >= position:
            records.extend(record for record in read_records(data, start) if record.offset >= position)
        end = max(end, header.next_offset)
    return records, end
