"""Clients outside the containers, in short."""

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.local import wait_for


def round_trip(bootstrap: str, topic: str) -> None:
    """One record in and out again."""
    results: list[tuple[object, int | None, int | None]] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 120_000})
    producer.produce(
        topic, b"value", on_delivery=lambda error, sent: results.append((error, sent.partition(), sent.offset()))
    )
    producer.flush(130)
    ((error, partition, offset),) = results
    assert error is None
    assert partition is not None
    assert offset is not None
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, offset)])
    assert wait_for(lambda: consumer.poll(1), "the record").value() == b"value"
    consumer.close()
