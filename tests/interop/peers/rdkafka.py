"""librdkafka, by confluent-kafka."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Seen, key, timestamp, value


class LibRdKafka:
    name = "librdkafka"
    sets_timestamps = True
    deletes = True

    def create(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin = AdminClient(_conf(bootstrap))  # it forgets what it was asked when it is dropped
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)

    def delete(self, bootstrap: str, topic: str) -> None:
        admin = AdminClient(_conf(bootstrap))
        admin.delete_topics([topic])[topic].result(PATIENCE_S)

    def write(self, bootstrap: str, topic: str) -> None:
        for partition, codec in enumerate(CODECS):
            producer = Producer({**_conf(bootstrap), "compression.type": codec, "enable.idempotence": True})
            for number in range(RECORDS):
                producer.produce(
                    topic,
                    value(number),
                    key(number),
                    partition,
                    timestamp=timestamp(number),
                    headers=[("from", self.name.encode())],
                    on_delivery=_delivered,
                )
            if producer.flush(PATIENCE_S):
                raise TimeoutError("not all was delivered in time")

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        consumer = _consumer(bootstrap)
        try:
            return _read(consumer, TopicPartition(topic, partition, offset), count)
        finally:
            consumer.close()

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        consumer = _consumer(bootstrap)
        try:
            (start,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], PATIENCE_S)
            return _read(consumer, start, count)
        finally:
            consumer.close()


def _conf(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def _delivered(error: Any, _: Any) -> None:
    if error is not None:
        raise KafkaException(error)


def _consumer(bootstrap: str) -> Consumer:
    return Consumer({**_conf(bootstrap), "group.id": "none", "enable.auto.commit": False, "check.crcs": True})


def _read(consumer: Consumer, start: TopicPartition, count: int) -> list[Seen]:
    consumer.assign([start])
    found: list[Seen] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        message: Any = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        found.append(
            Seen(
                message.topic(),
                message.partition(),
                message.offset(),
                message.timestamp()[1],
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
            )
        )
    return found
