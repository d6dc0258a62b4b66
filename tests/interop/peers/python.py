"""kafka-python."""

import time
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.interop.peers.peer import CODECS, PATIENCE_S, RECORDS, Seen, key, timestamp, value


class KafkaPython:
    name = "kafka-python"
    sets_timestamps = True
    deletes = True

    def create(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.create_topics([NewTopic(topic, partitions, 1)])
        admin.close()

    def delete(self, bootstrap: str, topic: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.delete_topics([topic])
        admin.close()

    def write(self, bootstrap: str, topic: str) -> None:
        for partition, codec in enumerate(CODECS):
            producer = KafkaProducer(
                bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec, linger_ms=20
            )
            sent = [
                producer.send(
                    topic,
                    value(number),
                    key(number),
                    [("from", self.name.encode())],
                    partition=partition,
                    timestamp_ms=timestamp(number),
                )
                for number in range(RECORDS)
            ]
            for one in sent:
                one.get(PATIENCE_S)
            producer.close()

    def read(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Seen]:
        place = TopicPartition(topic, partition)
        consumer = _consumer(bootstrap, place)
        consumer.seek(place, offset)
        return _read(consumer, count)

    def since(self, bootstrap: str, topic: str, partition: int, timestamp: int, count: int) -> list[Seen]:
        place = TopicPartition(topic, partition)
        consumer = _consumer(bootstrap, place)
        consumer.seek(place, consumer.offsets_for_times({place: timestamp})[place].offset)
        return _read(consumer, count)


def _consumer(bootstrap: str, place: TopicPartition) -> Any:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, check_crcs=True)
    consumer.assign([place])
    return consumer


def _read(consumer: Any, count: int) -> list[Seen]:
    found: list[Seen] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end:
        for messages in consumer.poll(500, max_records=count - len(found)).values():
            found += [
                Seen(m.topic, m.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers)) for m in messages
            ]
    consumer.close()
    return found
