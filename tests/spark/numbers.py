"""A producer that goes on while nodes, executors and drivers come and go: numbered records, each written once."""

import threading
from types import TracebackType

from confluent_kafka import KafkaError, Message, Producer

from tests.cluster.local import LocalCluster, wait_for

PACE_S = 0.02
AT_ONCE = 5
DRAIN_S = 120.0


class Numbers:
    """Idempotent, acks=all. When it has been left, all of `range(sent)` is committed, each number once."""

    def __init__(self, cluster: LocalCluster, topic: str, partitions: int) -> None:
        self._topic = topic
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="numbers")
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": int(DRAIN_S * 1000),
                "log_level": 0,
            }
        )
        self.sent = 0
        self.acked = 0
        self.errors: list[str] = []

    def __enter__(self) -> "Numbers":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None:
            self._producer.flush(DRAIN_S)
            assert (self.acked, self.errors) == (self.sent, [])

    def wait_for_acks(self, more: int) -> None:
        target = self.acked + more
        wait_for(lambda: self.acked >= target, f"{more} more acknowledgements", DRAIN_S)

    def _produce(self) -> None:
        while not self._stop.is_set():
            for number in range(self.sent, self.sent + AT_ONCE):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._delivered
                )
            self.sent += AT_ONCE
            self._producer.poll(PACE_S)
            self._stop.wait(PACE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked += 1
        else:
            self.errors.append(str(error))
