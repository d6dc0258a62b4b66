"""librdkafka as the client of tests of the kit: what was sent and acknowledged, as a history."""

from typing import Any

from confluent_kafka import Producer

from rookery.testing import Cluster, History

QUICK = {"acks": "all", "enable.idempotence": True, "log_level": 0, "socket.timeout.ms": 3000}


class Sender:
    """Sends values to partition 0 of one topic and notes what became of each."""

    def __init__(self, cluster: Cluster, topic: str, **options: Any) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, **QUICK, "request.timeout.ms": 3000, **options}
        self._producer = Producer(settings)
        self._topic = topic
        self.history = History()
        self._sent = 0

    def send(self, count: int = 10, timeout_s: float = 40.0) -> int:
        """How many of them were acknowledged."""
        before = len(self.history.acked[0])
        for _ in range(count):
            value = str(self._sent).encode()
            self._sent += 1
            self.history.on_sent(0, value)
            self._producer.produce(self._topic, value, partition=0, on_delivery=self._delivered)
        self._producer.flush(timeout_s)
        return len(self.history.acked[0]) - before

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.history.on_acked(message.partition(), message.offset(), message.value())
