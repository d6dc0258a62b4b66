"""A real Prometheus watches the containers: its series tell what happened, alerts fire and clear, dashboards resolve.

Grafana itself is not run here: its queries are, one by one, against the scrape.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cluster import commits
from tests.cluster.deleting import delete_records
from tests.cluster.load import Load
from tests.cluster.local import wait_for
from tests.containers.cluster import ContainerCluster
from tests.containers.prometheus import Prometheus, prometheus
from tests.unit.deploy.promql import dashboard_queries

pytestmark = pytest.mark.alone

TOPIC = "watched"
PARTITIONS = 6
GROUP = "watcher"
QUIET = {
    "cluster: Errors answered per second",
}
"""Queries that rightly find nothing while all is well."""


@pytest.fixture(scope="module")
def server(cluster: ContainerCluster) -> Iterator[Prometheus]:
    with prometheus(cluster.targets()) as running:
        yield running


def settled(server: Prometheus, expression: str, expected: float) -> None:
    wait_for(lambda: server.value(expression) == expected, f"{expression} to be {expected}")


def commit(cluster: ContainerCluster, offset: int) -> None:
    """What a group has read of partition 0."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    commits.commit(consumer, TopicPartition(TOPIC, 0, offset))
    consumer.close()


@pytest.mark.row(75, 152)
def test_every_node_is_scraped_and_every_query_of_every_dashboard_resolves(
    cluster: ContainerCluster, server: Prometheus
) -> None:
    cluster.create_topic(TOPIC, PARTITIONS)
    cluster.wait_in_sync(TOPIC, PARTITIONS)
    wait_for(lambda: server.targets_up() == 3, "three targets")
    commit(cluster, 0)
    with Load(cluster, TOPIC, PARTITIONS):
        busy = f'rookery:messages_in:rate1m{{topic="{TOPIC}"}} > 0'
        wait_for(lambda: server.query(busy), "the topic's rate")
        for where, query in dashboard_queries():
            written_out = query.replace("$topic", ".*")
            if where in QUIET:
                server.query(written_out)
            else:
                wait_for(lambda written_out=written_out: server.query(written_out), f"{where}: {query}")  # type: ignore[misc]
    settled(server, "sum(kafka_controller_kafkacontroller_activecontrollercount)", 1)
    settled(server, "max(kafka_brokers)", 3)
    settled(server, f'sum(kafka_topic_partitions{{topic="{TOPIC}"}})', PARTITIONS)
    settled(server, f'count(kafka_topic_partition_leader{{topic="{TOPIC}"}})', PARTITIONS)
    settled(server, "rookery:under_replicated_partitions", 0)


@pytest.mark.row(75, 152)
def test_series_and_alerts_follow_a_kill_and_the_return(mended: ContainerCluster, server: Prometheus) -> None:
    victim = mended.active_controller()
    mended.kill(victim)
    settled(server, 'sum(up{job="rookery"})', 2)
    settled(server, "sum(kafka_controller_kafkacontroller_activecontrollercount)", 1)
    settled(server, "max(kafka_brokers)", 2)
    settled(server, "rookery:offline_partitions", 0)
    settled(server, f'sum(kafka_topic_partition_under_replicated_partition{{topic="{TOPIC}"}})', PARTITIONS)
    settled(server, f'count(kafka_topic_partition_leader{{topic="{TOPIC}"}})', PARTITIONS)
    wait_for(lambda: (server.value("sum(rookery_failover_seconds_count)") or 0) > 0, "takeovers to be told of")
    expected = {"RookeryNodeDown", "RookeryUnderReplicatedPartitions", "RookeryFencedBrokers"}
    wait_for(lambda: server.firing() >= expected, f"{sorted(expected)} to fire", 180)
    assert "RookeryNoActiveController" not in server.firing()
    assert "RookeryOfflinePartitions" not in server.firing()
    mended.start(victim)
    wait_for(lambda: not server.firing() & expected, "the alerts to clear", 180)
    settled(server, "max(kafka_brokers)", 3)
    settled(server, "rookery:under_replicated_partitions", 0)


@pytest.mark.row(45)
def test_a_group_whose_records_were_deleted_unread_is_alerted(cluster: ContainerCluster, server: Prometheus) -> None:
    """Deletion does not wait for the group; it is told, and the alert clears when the group has moved on."""
    commit(cluster, 0)
    delete_records(cluster, TOPIC, 0, 5)
    wait_for(lambda: "RookeryConsumerBehindLogStart" in server.firing(), "the alert", 180)
    commit(cluster, 5)
    wait_for(lambda: "RookeryConsumerBehindLogStart" not in server.firing(), "the alert to clear", 180)
