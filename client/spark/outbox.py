"""Rows on their way to partitions: gathered into batches, written to all partitions side by side."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pyarrow as pa
import pyarrow.compute as pc

from rookery.client.identity import Nobody
from rookery.client.sender import Encoded, Sender
from rookery.client.spark.blocking import BlockingCluster
from rookery.client.spark.encoder import encode, parts, rows_of, sizes_of
from rookery.client.spark.places import TopicPartition
from rookery.client.spark.routing import grouped, route
from rookery.client.spark.sink_options import SinkOptions
from rookery.core.clock import Clock, SystemClock

GATHERED_MAX = 16 << 20
"""As much as a task holds back, over all partitions; as much again may be on its way."""


class Outbox:
    """Collects rows by partition; while some are being written the next are gathered.

    Rows without key or partition join the others of their turn, which ends with every flush.
    """

    def __init__(
        self, blocking: BlockingCluster, options: SinkOptions, turn: int = 0, clock: Clock | None = None
    ) -> None:
        self._blocking = blocking
        self._options = options
        self._turn = turn
        self._clock = clock or SystemClock()
        self._senders: dict[str, Sender] = {}
        self._partitions: dict[str, int] = {}
        self._waiting: dict[TopicPartition, list[pa.RecordBatch]] = defaultdict(list)
        self._sizes: dict[TopicPartition, int] = defaultdict(int)
        self._sending: Future[None] | None = None
        self.written = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows in; some may be written."""
        if not batch.num_rows:
            return
        for topic, there in self._by_topic(batch):
            partitions = self._partitions.get(topic) or self._open(topic)
            rows = rows_of(there)
            given = there.column("partition") if "partition" in there.schema.names else None
            where = route(rows.column("key"), given, partitions, self._turn)
            _check(topic, where, partitions)
            for partition, chosen in grouped(rows, where):
                self._gather((topic, partition), chosen)
        most = max(self._sizes.values())
        if most >= self._options.producing.request_bytes_max or sum(self._sizes.values()) >= GATHERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Begin to write what is waiting, when what was being written is there."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._sizes.clear()
        self._turn += 1
        encoded = [(*place, list(self._encoded(rows))) for place, rows in waiting.items()]
        self._wait()
        self._sending = self._blocking.submit(self._write(encoded))

    def finish(self) -> None:
        """Write what is left; returns when the cluster has everything."""
        self.flush()
        self._wait()

    def abandon(self) -> None:
        """Leave what is not written yet."""
        if self._sending is not None:
            self._sending.cancel()

    def _by_topic(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows for each topic. One given as an option goes before the column."""
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

    def _encoded(self, gathered: Sequence[pa.RecordBatch]) -> Iterator[Encoded]:
        now = self._clock.wall_ms()
        for rows in parts(pa.concat_batches(gathered), self._options.producing.request_bytes_max):
            yield Encoded(encode(rows), rows.num_rows, now, now)

    async def _write(self, work: Sequence[tuple[str, int, list[Encoded]]]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for topic, partition, batches in work:
                    group.create_task(self._write_in_turn(self._senders[topic], partition, batches))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None  # the first one ended the others

    async def _write_in_turn(self, sender: Sender, partition: int, batches: Sequence[Encoded]) -> None:
        for each in batches:
            await sender.deliver(partition, each)
            self.written += each.count

    def _wait(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.result()

    def _open(self, topic: str) -> int:
        """How many partitions the topic has; this stays for the life of a task."""
        blocking, producing = self._blocking, self._options.producing
        self._senders[topic] = Sender(
            blocking.cluster,
            topic,
            acks=producing.acks,
            codec=producing.codec,
            identity=blocking.identity if producing.idempotent else Nobody(),
            timeout_s=producing.delivery_timeout_s,
        )
        self._partitions[topic] = len(blocking.run(blocking.cluster.topic(topic, create=True)).partitions)
        return self._partitions[topic]


def _check(topic: str, where: pa.Array, partitions: int) -> None:
    for each in pc.min_max(where).values():
        if not 0 <= each.as_py() < partitions:
            raise ValueError(f"a row names partition {each}, which {topic!r} does not have")
