"""Writes go on while retention deletes, on three real nodes."""

import pytest
from confluent_kafka import KafkaError, Producer

from tests.cluster.local import LocalCluster, local_cluster, wait_for

TOPIC = "short"
PARTITIONS = 12
ROUNDS = 2


def all_taken(cluster: LocalCluster) -> bool:
    """One record to every partition with acks=all, without the client's own retries."""
    producer = Producer({"bootstrap.servers": cluster.awake, "acks": "all", "retries": 0, "request.timeout.ms": 5000})
    outcomes: list[KafkaError | None] = []
    for index in range(PARTITIONS):
        producer.produce(TOPIC, b"v", partition=index, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(20)
    return [error for error in outcomes if error is None] == [None] * PARTITIONS


def have_deleted(cluster: LocalCluster, times: int) -> bool:
    """Whether every replica of every partition has deleted segments so often."""
    return all(
        cluster.log(node).count(f"segments.deleted partition={TOPIC}-{index} ") >= times
        for node in cluster.ids
        for index in range(PARTITIONS)
    )


@pytest.mark.row(42)
@pytest.mark.invariant("P8", "P15")
def test_acks_all_goes_on_after_each_replica_deleted() -> None:
    """Leaders and followers delete on their own, each when its time has come."""
    with local_cluster(3, log__retention__check__interval__ms="200") as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3, {"retention.ms": "500", "min.insync.replicas": "3"})
        cluster.wait_in_sync(TOPIC, PARTITIONS)
        for deletions in range(1, ROUNDS + 1):
            assert all_taken(cluster)
            wait_for(lambda times=deletions: have_deleted(cluster, times), "every replica to delete")  # type: ignore[misc]
        assert all_taken(cluster)
