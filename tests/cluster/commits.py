"""Commits of a consumer that may be the first to ask for its coordinator, or asks while that one moves."""

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.local import wait_for


def commit(asking: Consumer, *places: TopicPartition) -> None:
    """librdkafka tries a few times within a second; a coordinator may take longer to move or to get its replicas."""

    def taken() -> bool:
        try:
            told = asking.commit(offsets=list(places), asynchronous=False)
        except KafkaException:
            return False
        return all(place.error is None for place in told or ())

    wait_for(taken, "a commit", 60)
