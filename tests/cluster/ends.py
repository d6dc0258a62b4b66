"""Where a partition begins and ends, as a new consumer is told."""

from typing import Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.local import wait_for


class Reachable(Protocol):
    """A cluster, as far as clients care."""

    @property
    def bootstrap(self) -> str: ...


def ends(cluster: Reachable, topic: str, partition: int = 0) -> tuple[int, int]:
    """librdkafka asks once: it hands to its caller that a leader moves, or that a node has yet to hear of it."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "log_level": 0})

    def answer() -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        except KafkaException:
            return None

    try:
        low, high = wait_for(answer, f"the ends of {topic}-{partition}")
        return low, high
    finally:
        consumer.close()
