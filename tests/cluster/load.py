"""A producer and a consumer that go on while nodes come and go, in threads of their own."""

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from rookery.testing.history import History
from tests.cluster.ends import Reachable, ends
from tests.cluster.local import wait_for

PACE_S = 0.002
BATCH = 5
DRAIN_S = 300.0
STANDSTILL_S = 60.0
CLOSE_S = 60.0


class Load:
    """Idempotent acks=all producer to all partitions of a topic, and a consumer that follows."""

    def __init__(
        self,
        cluster: Reachable,
        topic: str,
        partitions: int,
        options: Mapping[str, str | int] | None = None,
        unread_max: int | None = None,
    ) -> None:
        """`options` are librdkafka's, for both clients. Where records are deleted, `unread_max` makes the producer
        wait for the consumer, so that a slow machine does not look like a loss."""
        self.history = History()
        self.ack_times: list[float] = []
        self.errors: list[str] = []
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._options = dict(options or {})
        self._unread_max = unread_max
        self._stop = threading.Event()
        self._number = 0
        self._starts = self._ends_now()
        self._threads = [
            threading.Thread(target=self._produce, name="producer"),
            threading.Thread(target=self._consume, name="consumer"),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def acked(self) -> int:
        return len(self.ack_times)

    def go_on(self, more: int) -> None:
        """Wait until the cluster acknowledges again."""
        goal = self.acked + more
        wait_for(lambda: self.acked >= goal, f"{more} more acknowledgements", 120)

    def go_on_everywhere(self, more: int) -> None:
        """Wait until every partition acknowledges again."""
        goals = {partition: len(self.history.acked[partition]) + more for partition in range(self._partitions)}
        wait_for(
            lambda: all(len(self.history.acked[partition]) >= goal for partition, goal in goals.items()),
            f"{more} more acknowledgements in each partition",
            120,
        )

    def longest_gap_s(self, since: float) -> float:
        """The longest time without any acknowledgement after a moment."""
        times = [at for at in self.ack_times if at >= since]
        return max((b - a for a, b in zip([since, *times], times, strict=False)), default=float("inf"))

    def _ends_now(self) -> list[int]:
        """Where the partitions end before anything is sent: what others left there is not looked at."""
        return [ends(self._cluster, self._topic, index)[1] for index in range(self._partitions)]

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 300_000,
                "socket.timeout.ms": 10_000,
                **self._options,
            }
        )
        while not self._stop.is_set():
            for _ in range(BATCH):
                partition = self._number % self._partitions
                value = b"%d" % self._number
                self._number += 1
                self.history.on_sent(partition, value)
                self._send(producer, value, partition)
            producer.poll(0)
            time.sleep(PACE_S)
            while self._too_far_ahead() and not self._stop.is_set():
                producer.poll(0.01)
        producer.flush(DRAIN_S)

    def _too_far_ahead(self) -> bool:
        if self._unread_max is None:
            return False
        return self.acked - sum(map(len, self.history.read.values())) > self._unread_max

    def _send(self, producer: Producer, value: bytes, partition: int) -> None:
        while True:
            try:
                producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                return
            except BufferError:
                producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is not None:
            self.errors.append(str(error))
        elif partition is not None and offset is not None and isinstance(value, bytes):
            self.history.on_acked(partition, offset, value)
            self.ack_times.append(time.monotonic())

    def _consume(self) -> None:
        """Read all along, then until everything that was acknowledged has been seen or nothing more comes."""
        while not self._follow():
            print("librdkafka has locked itself up; another consumer goes on where that one was")

    def _follow(self) -> bool:
        """Read with one consumer; whether that is all there is to be read."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                **self._options,
            }
        )
        consumer.assign([TopicPartition(self._topic, index, self._next(index)) for index in range(self._partitions)])
        moved = time.monotonic()
        while not self._all_read() and time.monotonic() < moved + STANDSTILL_S:
            if self._read(consumer) or self._threads[0].is_alive():
                moved = time.monotonic()
        return closes(consumer) or self._all_read()

    def _next(self, partition: int) -> int:
        reads = self.history.read[partition]
        return reads[-1][0] + 1 if reads else self._starts[partition]

    def _read(self, consumer: Consumer) -> int:
        messages = consumer.consume(500, timeout=0.1)
        for message in messages:
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is None and isinstance(value, bytes) and offset is not None and partition is not None:
                self.history.on_read(partition, offset, value)
        return len(messages)

    def _all_read(self) -> bool:
        """Whether the producer has ended and all that it knows to be stored has been read."""
        if self._threads[0].is_alive():
            return False
        for partition, acked in self.history.acked.items():
            reads = self.history.read[partition]
            if acked and (not reads or reads[-1][0] < max(acked)):
                return False
        return True


def closes(consumer: Consumer) -> bool:
    """Whether it can be closed. It cannot, and reads nothing any more, where a node was lost while librdkafka asked it
    for the end of an epoch: two of its threads take two locks in different order (its issue 5476)."""
    closing = threading.Thread(target=consumer.close, name="close", daemon=True)
    closing.start()
    closing.join(CLOSE_S)
    return not closing.is_alive()
