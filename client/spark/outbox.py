"""Rows on their way to partitions: gathered into batches, written to all partitions side by side."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from rookery.client.cluster import Cluster
from rookery.client.partitioner import partition_for_key
from rookery.client.sender import Outgoing, Sender
from rookery.client.spark.places import TopicPartition
from rookery.client.spark.sink_options import SinkOptions
from rookery.core.wire.records import RecordHeader

OVERHEAD = 70  # bytes of a record beside its key, value and headers, at most
GATHERED_MAX = 32 << 20
"""As much as a task holds back, over all partitions."""


def outgoing(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, Outgoing]]:
    """The rows of an Arrow batch as records, each with its topic. A topic given goes before the column."""

    def column(name: str, kind: pa.DataType) -> list[Any]:
        if name not in batch.schema.names:
            return [None] * batch.num_rows
        return list(batch.column(name).cast(kind).to_pylist())

    keys, values = column("key", pa.binary()), column("value", pa.binary())
    topics = [topic] * batch.num_rows if topic is not None else column("topic", pa.string())
    partitions = column("partition", pa.int32())
    has_headers = "headers" in batch.schema.names
    headers = batch.column("headers").to_pylist() if has_headers else [None] * batch.num_rows
    if None in topics:
        raise ValueError("a row has no topic: its column 'topic' is null and there is no option 'topic'")
    for key, value, name, partition, each in zip(keys, values, topics, partitions, headers, strict=True):
        yield name, Outgoing(value, key, _headers(each) if each else (), partition)


def _headers(headers: Iterable[dict[str, Any]]) -> tuple[RecordHeader, ...]:
    return tuple(RecordHeader(each["key"], each["value"]) for each in headers)


def size_of(record: Outgoing) -> int:
    size = OVERHEAD + len(record.key or b"") + len(record.value or b"")
    if record.headers:
        size += sum(len(each.key) + len(each.value or b"") + 10 for each in record.headers)
    return size


class Outbox:
    """Collects records by partition. A record without key or partition joins the others of its turn."""

    def __init__(self, cluster: Cluster, options: SinkOptions, turn: int = 0) -> None:
        self._cluster = cluster
        self._options = options
        self._turn = turn
        self._senders: dict[str, Sender] = {}
        self._partitions: dict[str, int] = {}
        self._waiting: dict[TopicPartition, list[Outgoing]] = defaultdict(list)
        self._sizes: dict[TopicPartition, int] = defaultdict(int)
        self._gathered = 0
        self.written = 0

    async def add_all(self, records: Iterable[tuple[str, Outgoing]]) -> None:
        for topic, record in records:
            partitions = self._partitions.get(topic) or await self._open(topic)
            place = (topic, self._partition(topic, record, partitions))
            size = size_of(record)
            if self._sizes[place] + size > self._options.producing.request_bytes_max:
                await self.flush()
            self._waiting[place].append(record)
            self._sizes[place] += size
            self._gathered += size
            if self._gathered > GATHERED_MAX:
                await self.flush()

    async def flush(self) -> None:
        """Write what is waiting; returns when the cluster has it."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._sizes.clear()
        self._gathered = 0
        self._turn += 1
        async with asyncio.TaskGroup() as group:
            for (topic, partition), records in waiting.items():
                group.create_task(self._senders[topic].write(partition, records))
        self.written += sum(map(len, waiting.values()))

    async def _open(self, topic: str) -> int:
        """How many partitions the topic has; this stays for the life of a task."""
        producing = self._options.producing
        self._senders[topic] = Sender(self._cluster, topic, acks=producing.acks, codec=producing.codec)
        self._partitions[topic] = len((await self._cluster.topic(topic, create=True)).partitions)
        return self._partitions[topic]

    def _partition(self, topic: str, record: Outgoing, partitions: int) -> int:
        if record.partition is not None:
            if not 0 <= record.partition < partitions:
                raise ValueError(f"a row names partition {record.partition}, which {topic!r} does not have")
            return record.partition
        return self._turn % partitions if record.key is None else partition_for_key(record.key, partitions)
