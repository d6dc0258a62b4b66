"""Collects rows into batches and writes them to all partitions in parallel."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pyarrow as pa
import pyarrow.compute as pc

from rookery.client.producer.batch import Batch
from rookery.client.producer.delivery import settled
from rookery.client.producer.encoded import Encoded, send_encoded
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.encoder import encode, parts, rows_of, sizes_of
from rookery.client.spark.options import SinkOptions
from rookery.client.spark.places import TopicPartition
from rookery.client.spark.routing import grouped, route
from rookery.core.clock import Clock, SystemClock
from rookery.core.errors import UnknownTopicOrPartitionError
from rookery.core.net.cluster import UNKNOWN_TOPIC
from rookery.core.wire.batch import HEADER_SIZE

BUFFERED_BYTES_MAX = 16 << 20
"""Bytes that a task collects, over all partitions, before it writes; as many again may be in flight."""

METADATA_WAIT_S = 10.0
"""How long to retry if a row names a new partition that is not in a node's metadata yet."""


class Outbox:
    """Collects rows by partition; the next rows are collected while a write is in flight.

    Rows without key and partition go to one partition, which changes with every flush.
    """

    def __init__(
        self, blocking: BlockingCluster, options: SinkOptions, turn: int = 0, clock: Clock | None = None
    ) -> None:
        self._blocking = blocking
        self._options = options
        self._turn = turn
        self._clock = clock or SystemClock()
        self._producer = blocking.producer(options.producing)
        self._partitions: dict[str, int] = {}
        self._waiting: dict[TopicPartition, list[pa.RecordBatch]] = defaultdict(list)
        self._sizes: dict[TopicPartition, int] = defaultdict(int)
        self._sending: Future[None] | None = None
        self.written = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; may start a write."""
        if not batch.num_rows:
            return
        for topic, there in self._by_topic(batch):
            partitions = self._partitions.get(topic) or self._open(topic)
            rows = rows_of(there)
            given = there.column("partition") if "partition" in there.schema.names else None
            where = route(rows.column("key"), given, partitions, self._turn)
            self._check(topic, where)
            for partition, chosen in grouped(rows, where):
                self._gather((topic, partition), chosen)
        most = max(self._sizes.values())
        if most >= self._options.producing.request_bytes_max or sum(self._sizes.values()) >= BUFFERED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Start to write the collected rows, after the last write has finished."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._sizes.clear()
        self._turn += 1
        batches = [(*place, list(self._packed(place[0], rows))) for place, rows in waiting.items()]
        self._wait()
        self._sending = self._blocking.submit(self._write(batches))

    def finish(self) -> None:
        """Write the remaining rows; returns when the cluster has everything."""
        self.flush()
        self._wait()

    def abandon(self) -> None:
        """Drop rows that are not written yet."""
        if self._sending is not None:
            self._sending.cancel()

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows for each topic. The option overrides the column."""
        if self._options.topic is not None:
            yield self._options.topic, batch
            return
        column = batch.column("topic")
        if column.null_count:
            raise ValueError("a row has no topic: its column 'topic' is null and there is no option 'topic'")
        topics = pc.dictionary_encode(column)
        names = topics.dictionary.to_pylist()
        for number, there in grouped(batch, topics.indices):
            yield names[number], there

    def _gather(self, place: TopicPartition, rows: pa.RecordBatch) -> None:
        self._waiting[place].append(rows)
        self._sizes[place] += pc.sum(sizes_of(rows)).as_py()

    def _bytes_max(self, topic: str) -> int:
        most = self._options.producing.request_bytes_max
        return min(most, self._blocking.batch_bytes_max.get(topic, most))

    def _packed(self, topic: str, gathered: Sequence[pa.RecordBatch]) -> Iterator[Encoded]:
        now = self._clock.wall_ms()
        for rows in parts(pa.concat_batches(gathered), self._bytes_max(topic) - HEADER_SIZE):
            yield Encoded(encode(rows), rows.num_rows, now)

    async def _write(self, work: Sequence[tuple[str, int, list[Encoded]]]) -> None:
        sent: list[tuple[str, Batch]] = []
        for topic, partition, batches in work:
            sent += [(topic, await send_encoded(self._producer, topic, partition, each)) for each in batches]
        for topic, batch in sent:
            await settled(batch)
            for part in batch.parts():
                if part.error is not None:
                    raise part.error
            if batch.children:
                largest = max(part.size for part in batch.parts())
                self._blocking.batch_bytes_max[topic] = min(self._bytes_max(topic), largest)
            self.written += batch.count

    def _wait(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def _open(self, topic: str) -> int:
        """The number of partitions when the task begins to write: it may have grown since the last task."""
        self._partitions[topic] = self._blocking.run(self._count(topic))
        return self._partitions[topic]

    async def _count(self, topic: str) -> int:
        """The number of partitions now, without the cached metadata."""
        self._blocking.cluster.forget(topic)
        return len((await self._blocking.cluster.topic(topic, create=True)).partitions)

    def _check(self, topic: str, where: pa.Array) -> None:
        """Check that the partitions named by rows exist."""
        least, most = (each.as_py() for each in pc.min_max(where).values())
        if least < 0 or (most >= self._partitions[topic] and not self._grew(topic, most)):
            wrong = least if least < 0 else most
            raise ValueError(f"a row names partition {wrong}, which {topic!r} does not have")

    def _grew(self, topic: str, partition: int) -> bool:
        """Whether the topic has got this partition meanwhile."""

        async def attempt() -> int:
            count = await self._count(topic)
            if partition >= count:
                raise UnknownTopicOrPartitionError(f"{topic!r} has {count} partitions")
            return count

        try:
            asking = self._blocking.cluster.retrying(attempt, METADATA_WAIT_S, also=UNKNOWN_TOPIC)
            self._partitions[topic] = self._blocking.run(asking)
        except UNKNOWN_TOPIC:
            return False
        return True
