"""Deletes the first records of a partition, as a user of librdkafka's admin client does."""

from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.local import wait_for


class Administered(Protocol):
    def admin(self) -> AdminClient: ...


def delete_records(cluster: Administered, topic: str, partition: int, before: int) -> None:
    """librdkafka asks the leader it knows, and leaves it to its caller to ask again if that one does not lead."""

    def first() -> int | None:
        (deleted,) = cluster.admin().delete_records([TopicPartition(topic, partition, before)]).values()
        try:
            return int(deleted.result(30).low_watermark)
        except KafkaException:
            return None

    wait_for(lambda: first() == before, f"{topic}-{partition} to begin at {before}")
