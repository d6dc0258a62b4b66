"""What a real node tells when it is scraped, after some traffic."""

import re

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cluster.commits import commit
from tests.cluster.local import local_cluster, wait_for

TOPIC = "scraped"
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{[^ ]*\})? \S+$", re.MULTILINE)


@pytest.fixture(scope="session")
def scrape() -> str:
    """/metrics of a node that has led, written, served and lost track of nothing."""
    with local_cluster(1, rookery__group__lag__interval__ms="200") as cluster:
        cluster.create_topic(TOPIC, partitions=2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce(TOPIC, b"value", partition=0)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "scraper"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert wait_for(lambda: consumer.poll(1), "the record").value() == b"value"
        commit(consumer, TopicPartition(TOPIC, 0, 1))
        consumer.close()
        found = wait_for(lambda: _complete(cluster.http(1, "/metrics")), "a scrape with everything")
    return str(found)


def _complete(text: str) -> str | None:
    late = ("rookery_log_directory_free_bytes{", "kafka_consumergroup_lag{")
    return text if all(name in text for name in late) else None


@pytest.fixture(scope="session")
def scraped_names(scrape: str) -> set[str]:
    return {found[0] for found in SAMPLE.findall(scrape)}
