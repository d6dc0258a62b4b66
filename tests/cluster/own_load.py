"""The load of `load.py` by the Python client: what it was told, what it read, and how many requests it made of that."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rookery import Consumer, Producer, RecordMetadata, TopicPartition
from tests.cluster.load import BATCH, DRAIN_S, Load

TICK_S = 0.05
"""Between two batches of sends: at most so often does each partition need a Produce and a Fetch."""
REQUESTS_MAX = 300
"""In a second, by both clients. The load needs 20 of each kind for each partition; without pauses it is thousands."""
REQUEST_TIMEOUT_MS = 4000
"""They do not wait long for a node that says nothing."""


def requests_of(*clients: Producer | Consumer | None) -> int:
    """Produce, Fetch and Metadata so far."""
    counted = ("request-total", "fetch-total", "metadata-refresh-total")
    found = [client.metrics() for client in clients if client is not None]
    return int(sum(metrics.get(name, 0) for metrics in found for name in counted))


@contextmanager
def no_busy_loop(requests: Callable[[], int], most: float) -> Iterator[None]:
    """At most so many requests a second meanwhile, and as many more."""
    before, begun = requests(), time.monotonic()
    yield
    made, seconds = requests() - before, time.monotonic() - begun
    assert made < most * (seconds + 1), f"a busy loop: {made} requests in {seconds:.1f} s"


class OwnLoad(Load):
    _producer: Producer | None = None
    _consumer: Consumer | None = None

    def calm(self) -> AbstractContextManager[None]:
        """No busy loop meanwhile, whatever is cut off."""
        return no_busy_loop(lambda: requests_of(self._producer, self._consumer), REQUESTS_MAX)

    def _produce(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        async with Producer(
            bootstrap_servers=self._cluster.bootstrap,
            linger_ms=1,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=300_000,
        ) as self._producer:
            while not self._stop.is_set():
                for _ in range(BATCH):
                    partition = self._number % self._partitions
                    value = b"%d" % self._number
                    self._number += 1
                    self.history.on_sent(partition, value)
                    sent = await self._producer.send(self._topic, value, partition=partition)
                    sent.add_callback(lambda place, error, value=value: self._ended(value, place, error))  # type: ignore[misc]
                await asyncio.sleep(TICK_S)
            await self._producer.flush(DRAIN_S)

    def _ended(self, value: bytes, place: RecordMetadata | None, error: Exception | None) -> None:
        if place is None:
            self.errors.append(str(error))
        else:
            self.history.on_acked(place.partition, place.offset, value)
            self.ack_times.append(time.monotonic())

    def _consume(self) -> None:
        asyncio.run(self._read_all())

    async def _read_all(self) -> None:
        async with Consumer(
            bootstrap_servers=self._cluster.bootstrap,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            auto_offset_reset="earliest",
        ) as self._consumer:
            self._consumer.assign([TopicPartition(self._topic, index) for index in range(self._partitions)])
            async with asyncio.timeout(None) as patience:
                while not self._all_read():
                    if not self._threads[0].is_alive() and patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + DRAIN_S)
                    for record in await self._consumer.getmany(timeout_ms=100):
                        self.history.on_read(record.partition, record.offset, record.value)
