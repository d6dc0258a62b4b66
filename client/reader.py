"""Reads one partition from an offset on; follows changes of its leader."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop

from rookery.core.errors import KafkaError, OffsetOutOfRangeError
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster, check
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.fetch import (
    FETCH,
    AbortedTransaction,
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
from rookery.core.wire.batch import BatchHeader, Buffer
from rookery.core.wire.markers import read_marker
from rookery.core.wire.records import Record, batches, read_records, verify

LATEST = -1
EARLIEST = -2
RETRY_TIMEOUT_S = 60.0
CONSUMER = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one fetch: records in order, the next offset and the high watermark."""

    records: Sequence[Record]
    next_offset: int
    high_watermark: int


class Aborted:
    """Finds the batches of aborted transactions among those of one read_committed response, read in order. An aborted
    transaction adds its producer, the marker removes it."""


    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._coming = [(each.first_offset, each.producer_id) for each in transactions]
        heapify(self._coming)
        self._producers: set[int] = set()

    def covers(self, data: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the batch's records were aborted; call it for every batch, control batches too."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._producers.add(heappop(self._coming)[1])
        if header.control:
            marker = read_marker(data, position)
            if marker is not None and not marker.commit:
                self._producers.discard(header.producer_id)
            return False
        return header.transactional and header.producer_id in self._producers


async def offset_at(
    cluster: Cluster, topic: str, partition: int, timestamp: int, *, read_committed: bool = False
) -> int:
    """The first offset whose record is at or after `timestamp` (-1: none), or LATEST or EARLIEST. With
    `read_committed` the partition ends before its oldest open transaction."""

    async def attempt() -> int:
        leader = await cluster.leader(topic, partition)
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(read_committed),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)],
                )
            ],
        )
        answer = (await cluster.ask(leader, LIST_OFFSETS, request, at_most=7)).topics[0].partitions[0]
        try:
            check(answer.error_code, f"{topic}-{partition}")
        except KafkaError:
            cluster.forget(topic)
            raise
        return answer.offset

    await cluster.partition(topic, partition)
    return await cluster.retrying(attempt, RETRY_TIMEOUT_S, also=UNKNOWN_TOPIC)


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
        leader = await self._cluster.leader(self._topic, self._partition)
        topic = await self._cluster.topic(self._topic)
        partition = FetchPartition(
            partition=self._partition,
            current_leader_epoch=topic.partitions[self._partition].leader_epoch,
            fetch_offset=self.position,
            partition_max_bytes=self._bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=self._wait_ms_max,
            min_bytes=1,
            max_bytes=self._bytes_max,
            isolation_level=int(self._read_committed),
            topics=[FetchTopic(topic=self._topic, topic_id=topic.id, partitions=[partition])],
        )
        answer = await self._cluster.ask(leader, FETCH, request, at_most=16)
        check(answer.error_code, leader.address)
        data = answer.responses[0].partitions[0]
        where = f"{self._topic}-{self._partition} at offset {self.position}"
        if data.error_code == OffsetOutOfRangeError.code:
            first, next_offset = [
                await offset_at(self._cluster, self._topic, self._partition, time) for time in (EARLIEST, LATEST)
            ]
            held = f"it holds {first} to {next_offset - 1}" if next_offset > first else f"it is empty, {first} is next"
            raise OffsetOutOfRangeError(f"{where}: {held}")
        check(data.error_code, where)
        return data


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
