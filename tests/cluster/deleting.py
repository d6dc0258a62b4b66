"""Deletes the first records of a partition, as a user of librdkafka's admin client does."""

from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cluster.local import wait_for


class Administered(Protocol):
    def admin(self) -> AdminClient: ...


def delete_records(cluster: Administered, topic: str, partition: int, before: int) -> None:
    """librdkafka asks the leader it knows, and leaves the retry to its caller if that one does not lead. Retention
    may have moved the log's start further until then."""

    def is_deleted() -> bool:
        (deleted,) = cluster.admin().delete_records([TopicPartition(topic, partition, before)]).values()
        try:
            return int(deleted.result(30).low_watermark) >= before
        except KafkaException as error:
            print(f"{topic}-{partition} is not deleted up to {before} yet: {error}", flush=True)
            return False

    wait_for(is_deleted, f"{topic}-{partition} to begin at {before} or later")
