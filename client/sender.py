"""Writes records and waits until the cluster has them: one batch per partition, retried where that helps.

This is the plain sender: no background thread, no lingering, no producer id. A retry after a lost answer can
therefore store a record twice.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rookery.client.cluster import NOT_HEARD, Cluster, check
from rookery.client.partitioner import partition_for_key
from rookery.core.clock import Clock, SystemClock
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from rookery.core.wire.records import Codec, Record, RecordHeader, build_batch

DELIVERY_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_MS = 30_000


class Outgoing(NamedTuple):
    """A record to be written. Without a partition the key decides, without a key the sender."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[RecordHeader] = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """Where a record landed."""

    partition: int
    offset: int


class Sender:
    """Writes to one topic."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        acks: int = -1,
        codec: Codec = Codec.NONE,
        clock: Clock | None = None,
        create: bool = True,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._clock = clock or SystemClock()
        self._create = create
        self._turn = 0

    async def send(self, records: Sequence[Outgoing]) -> list[Written]:
        """Write all records; returns where each landed, in the order given. Offsets are -1 with acks=0."""
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
        """Write one batch to a partition, whatever the records say of theirs; returns the first one's offset."""
        now = self._clock.wall_ms()
        batch = build_batch(
            [
                Record(
                    offset=place,
                    timestamp=now if record.timestamp is None else record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                )
                for place, record in enumerate(records)
            ],
            codec=self._codec,
        )

        async def attempt() -> int:
            try:
                return await self._produce(partition, batch)
            except (KafkaError, ConnectionLostError, OSError):
                self._cluster.forget(self._topic)
                raise

        return await self._cluster.retrying(attempt, DELIVERY_TIMEOUT_S, also=NOT_HEARD)

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
            connection = await self._cluster.connection(leader.host, leader.port)
            connection.send(PRODUCE, connection.version_for(PRODUCE), request)
            return -1
        answer = await self._cluster.ask(leader, PRODUCE, request)
        return _base_offset(answer.responses[0].partition_responses[0], f"{self._topic}-{partition}")


def _base_offset(answer: PartitionProduceResponse, where: str) -> int:
    if answer.error_code != ErrorCode.NONE:
        reasons = [f"record {e.batch_index}: {e.batch_index_error_message}" for e in answer.record_errors]
        check(answer.error_code, where, "; ".join(filter(None, [answer.error_message, *reasons])))
    return answer.base_offset
