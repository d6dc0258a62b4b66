"""A cluster of one node that answers writes from a script."""

from collections import defaultdict
from itertools import count
from typing import Any

from rookery.core.errors import ErrorCode
from rookery.core.net.cluster import Cluster
from rookery.core.net.connection import ConnectionLostError
from rookery.core.wire.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdResponse
from rookery.core.wire.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from rookery.core.wire.apis.produce import (
    PRODUCE,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from rookery.core.wire.records import read_header, read_records


class Scripted(Cluster):
    """One node that leads the partitions of every topic, two at first, and answers writes with what is given, error
    codes or exceptions, then with success. It tells where a batch is that it had before, but counts it once."""

    def __init__(self, *outcomes: ErrorCode | Exception) -> None:
        super().__init__("node:1")
        self._outcomes = list(outcomes)
        self._ids = count(100)
        self._had: set[tuple[str, int, int, int]] = set()
        self.written: list[tuple[int, list[bytes | None]]] = []
        self.topics: dict[str, list[bytes | None]] = defaultdict(list)
        self.stamps: list[tuple[int, int, int]] = []
        self.partitions = 2
        self.batch_bytes_max = 1 << 30
        self.refused = 0

    async def ask_any(
        self, api: Any, request: Any, *, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        if api is INIT_PRODUCER_ID:
            assert request.transactional_id is None
            return InitProducerIdResponse(producer_id=next(self._ids), producer_epoch=0)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for index in range(self.partitions)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="node", port=1)],
            topics=[MetadataResponseTopic(name=each.name, partitions=partitions) for each in request.topics],
        )

    async def ask(self, node: Any, api: Any, request: Any, **_: Any) -> Any:
        assert api is PRODUCE
        answers = [
            TopicProduceResponse(
                name=topic.name, partition_responses=[self._append(topic.name, data) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=answers)

    def _append(self, topic: str, data: Any) -> PartitionProduceResponse:
        header = read_header(data.records)
        outcome = self._outcomes.pop(0) if self._outcomes else ErrorCode.NONE
        if len(data.records) > self.batch_bytes_max:
            outcome = ErrorCode.MESSAGE_TOO_LARGE
            self.refused += 1
        stored = outcome == ErrorCode.NONE or isinstance(outcome, ConnectionLostError)
        stamp = (header.producer_id, data.index, header.base_sequence)
        if stored and (topic, *stamp) not in self._had:
            self._had |= {(topic, *stamp)} if header.producer_id >= 0 else set()
            values = [record.value for record in read_records(data.records, 0)]
            self.written.append((data.index, values))
            self.topics[topic] += values
        self.stamps.append(stamp)
        if isinstance(outcome, Exception):
            raise outcome
        return PartitionProduceResponse(index=data.index, error_code=outcome, base_offset=10)
