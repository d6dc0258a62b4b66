"""Deletes the first records of a partition, as a user of librdkafka's admin client does."""

from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.local import wait_for


class Administered(Protocol):
    def admin(self) -> AdminClient: ...


def delete_records(cluster: Administered, topic: str, partition: int, before: int) -> None:
    """librdkafka asks the leader in its cache, and leaves it to its caller to ask again if that one does not lead.
    Retention may have moved the log's start further until then."""

    def is_deleted() -> bool:
        (deleted,) = cluster.admin().delete_records([TopicPartition(topic, partition, before)]).values()
        try:
            return int(deleted.result(30).low_watermark) >= before
        except KafkaException:
            cluster.admin().list_topics(topic, timeout=10)  # else the cache stays as it is for minutes
            return False

    wait_for(is_deleted, f"{topic}-{partition} to begin at {before} or later")
