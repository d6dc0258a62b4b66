"""Traffic by topic, under the names that Kafka's dashboards query."""

from collections.abc import Callable, Iterator
from operator import attrgetter

from rookery.core.metrics import Metrics, Sample

KAFKA = "kafka_server_brokertopicmetrics_"
COUNTED = {
    "messages_in": (KAFKA + "messagesin", "Records appended."),
    "bytes_in": (KAFKA + "bytesin", "Bytes appended."),
    "bytes_out": (KAFKA + "bytesout", "Bytes read by consumers."),
    "produce_requests": (KAFKA + "totalproducerequests", "Partitions in produce requests."),
    "fetch_requests": (KAFKA + "totalfetchrequests", "Partitions in fetch requests."),
    "failed_produces": (KAFKA + "failedproducerequests", "Partitions in produce requests that were refused."),
    "failed_fetches": (KAFKA + "failedfetchrequests", "Partitions in fetch requests that were refused."),
    "acked": ("rookery_acked", "Records acknowledged with acks=1 or acks=all, repeated batches included."),
}


class Traffic:
    """One topic's counters."""

    __slots__ = tuple(COUNTED)

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0
        self.produce_requests = self.fetch_requests = 0
        self.failed_produces = self.failed_fetches = 0
        self.acked = 0


class TopicMetrics(dict[str, Traffic]):
    """Counters by topic, made when first asked for. What is asked of topics that do not exist counts for the
    topic ''."""

    def __missing__(self, topic: str) -> Traffic:
        self[topic] = traffic = Traffic()
        return traffic

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self.pop(topic, None)

    def publish(self, metrics: Metrics) -> None:
        for field, (name, text) in COUNTED.items():
            metrics.read(name, text, self._samples(field), labels=("topic",), kind="counter")

    def _samples(self, field: str) -> Callable[[], Iterator[Sample]]:
        read = attrgetter(field)
        return lambda: (((topic,), read(traffic)) for topic, traffic in self.items())
