"""Writes records and waits until the cluster has them: one batch per partition, retried where that helps.

This is the plain sender: no background thread, no lingering. With acks=all a batch that is retried, because
its response was lost, is stored once; with other acks a retry can store records twice.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rookery.client.identity import LOST_PRODUCER_STATE, Identity, NoIdentity, ProducerId, Stamp
from rookery.client.partitioner import partition_for_key
from rookery.core.clock import Clock, SystemClock
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.net.cluster import UNKNOWN_TOPIC, Cluster, check
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from rookery.core.wire.compression import compress
from rookery.core.wire.primitives import Buffer
from rookery.core.wire.records import BatchHeader, Codec, Record, RecordHeader, encode_records, frame_batch

ALL = -1
DELIVERY_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_MS = 30_000


class Outgoing(NamedTuple):
    """A record to be written. Without a partition the key decides; without a key the sender chooses one."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[RecordHeader] = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded records: offsets relative to 0, timestamps relative to the first record."""

    records: Buffer
    count: int
    first_time: int
    newest_time: int


@dataclass(frozen=True, slots=True)
class Written:
    """Partition and offset of a written record."""

    partition: int
    offset: int


class Sender:
    """Writes to one topic. An identity can be shared by the senders of one cluster; without one it gets its own."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        acks: int = ALL,
        codec: Codec = Codec.NONE,
        clock: Clock | None = None,
        create: bool = True,
        identity: Identity | None = None,
        timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._clock = clock or SystemClock()
        self._create = create
        self._identity = (identity or ProducerId(cluster)) if acks == ALL else NoIdentity()
        self._timeout_s = timeout_s
        self._turn = 0

    async def send(self, records: Sequence[Outgoing]) -> list[Written]:
        """Write all records; returns partition and offset of each, in the order given. Offsets are -1 with acks=0."""
        view = await self._cluster.topic(self._topic, create=self._create)
        places: dict[int, list[int]] = defaultdict(list)
        keyless = self._turn % len(view.partitions)
        self._turn += 1
        for number, record in enumerate(records):
            places[self._partition(record, len(view.partitions), keyless)].append(number)
        written: dict[int, Written] = {}
        for partition in places:
            await self._cluster.partition(self._topic, partition)
        for partition, numbers in sorted(places.items()):
            base = await self.write(partition, [records[number] for number in numbers])
            for step, number in enumerate(numbers):
                written[number] = Written(partition, base + step if base >= 0 else -1)
        return [written[number] for number in range(len(records))]

    @staticmethod
    def _partition(record: Outgoing, partitions: int, keyless: int) -> int:
        if record.partition is not None:
            return record.partition
        return keyless if record.key is None else partition_for_key(record.key, partitions)

    async def write(self, partition: int, records: Sequence[Outgoing]) -> int:
        """Write one batch to a partition, ignoring the records' own partitions; returns the first offset."""
        now = self._clock.wall_ms()
        times = [now if record.timestamp is None else record.timestamp for record in records]
        placed = [
            Record(place, time, record.key, record.value, record.headers)
            for place, (time, record) in enumerate(zip(times, records, strict=True))
        ]
        encoded = encode_records(placed, 0, times[0])
        return await self.deliver(partition, Encoded(encoded, len(records), times[0], max(times)))

    async def deliver(self, partition: int, records: Encoded) -> int:
        """Write one batch of encoded records, after batches of this partition that are in flight."""
        packed = compress(self._codec, records.records)
        async with self._identity.turn((self._topic, partition), records.count) as turn:

            async def attempt() -> int:
                batch = frame_batch(packed, _header(records, self._codec, turn.stamp))
                try:
                    return await self._produce(partition, batch)
                except LOST_PRODUCER_STATE:
                    await turn.renew()
                    raise
                except (KafkaError, ConnectionLostError, OSError):
                    self._cluster.forget(self._topic)
                    raise

            return await self._cluster.retrying(attempt, self._timeout_s, also=(*UNKNOWN_TOPIC, *LOST_PRODUCER_STATE))

    async def _produce(self, partition: int, batch: bytearray) -> int:
        leader = await self._cluster.leader(self._topic, partition)
        view = await self._cluster.topic(self._topic)
        data = TopicProduceData(
            name=self._topic,
            topic_id=view.id,
            partition_data=[PartitionProduceData(index=partition, records=batch)],
        )
        request = ProduceRequest(acks=self._acks, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=[data])
        if self._acks == 0:
            connection = await self._cluster.peers.connection(leader.endpoint)
            timeout_s = self._cluster.request_timeout_s
            await connection.send(PRODUCE, connection.version_for(PRODUCE), request, timeout_s)
            return -1
        answer = await self._cluster.ask(leader, PRODUCE, request)
        return _base_offset(answer.responses[0].partition_responses[0], f"{self._topic}-{partition}")


def _base_offset(answer: PartitionProduceResponse, where: str) -> int:
    if answer.error_code != ErrorCode.NONE:
        reasons = [f"record {e.batch_index}: {e.batch_index_error_message}" for e in answer.record_errors]
        check(answer.error_code, where, "; ".join(filter(None, [answer.error_message, *reasons])))
    return answer.base_offset


def _header(records: Encoded, codec: Codec, stamp: Stamp) -> BatchHeader:
    return BatchHeader.to_write(
        attributes=codec,
        last_offset_delta=records.count - 1,
        base_timestamp=records.first_time,
        max_timestamp=records.newest_time,
        producer_id=stamp.producer_id,
        producer_epoch=stamp.epoch,
        base_sequence=stamp.sequence,
        record_count=records.count,
    )
