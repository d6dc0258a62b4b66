"""Damage on disks, while nodes run and while one is stopped: no record is lost, and every replica is rebuilt."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.cluster.local import LocalCluster, local_cluster, wait_for
from tests.cluster.replicas import segments

TOPIC = "rot"
RECORDS = 100
FOUND, REBUILT, LEFT = "rookery_damage_found_total", "rookery_replica_rebuilds_total", "rookery_damaged_replicas"


def produce(cluster: LocalCluster, first: int) -> None:
    """Records of 50 kB, each a batch of its own, all acknowledged by all."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 1})
    for number in range(first, first + RECORDS):
        producer.produce(TOPIC, b"%08d" % number * 6250, partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert failed == []


def numbers(cluster: LocalCluster, count: int) -> list[int]:
    """What a consumer reads from the beginning."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen: list[int] = []

    def enough() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is None and isinstance(value := message.value(), bytes):
                seen.append(int(value[:8]))
        return len(seen) >= count

    wait_for(enough, f"{count} records, of which {len(seen)} came")
    consumer.close()
    return seen


def closed_segment(cluster: LocalCluster, node_id: int, number: int) -> Path:
    found = sorted((Path(cluster.node(node_id).data) / f"{TOPIC}-0").glob("*.log"))
    assert number < len(found) - 1
    return found[number]


def rot(path: Path) -> None:
    """One byte changes, in the file that the node has open."""
    with path.open("r+b") as file:
        file.seek(500_000)
        byte = file.read(1)
        file.seek(500_000)
        file.write(bytes([byte[0] ^ 1]))


def wait_rebuilt(cluster: LocalCluster, node_id: int) -> None:
    wait_for(lambda: cluster.metric(node_id, FOUND) >= 1, f"node {node_id} to find the damage")
    wait_for(lambda: cluster.metric(node_id, REBUILT) >= 1, f"node {node_id} to rebuild the replica")
    cluster.wait_in_sync(TOPIC)
    wait_for(lambda: cluster.metric(node_id, LEFT) == 0, "no damage to be left")


@pytest.mark.invariant("S3", "P4")
def test_damaged_replicas_are_rebuilt_and_no_record_is_missed() -> None:
    with local_cluster(
        3, rookery__scrub__interval__ms="1000", rookery__scrub__bytes__per__second="1000000000"
    ) as cluster:
        cluster.create_topic(TOPIC, 1, 3, {"segment.bytes": str(1 << 20), "min.insync.replicas": "1"})
        cluster.wait_in_sync(TOPIC)
        produce(cluster, 0)
        leader = cluster.leader(TOPIC)
        follower = next(node for node in cluster.ids if node != leader)
        rot(closed_segment(cluster, follower, 1))
        rot(closed_segment(cluster, leader, 2))
        wait_rebuilt(cluster, follower)
        wait_rebuilt(cluster, leader)
        assert numbers(cluster, RECORDS) == list(range(RECORDS))
        produce(cluster, RECORDS)

        stopped = cluster.leader(TOPIC)
        cluster.stop(stopped)
        closed_segment(cluster, stopped, 3).unlink()
        cluster.up()
        wait_rebuilt(cluster, stopped)
        assert numbers(cluster, 2 * RECORDS) == list(range(2 * RECORDS))
        copies = [segments(cluster, node_id, TOPIC, 0) for node_id in cluster.ids]
        assert len(copies[0]) > 2 * RECORDS * 50_000
        assert copies[1:] == copies[:2]
        for node_id in cluster.ids:
            assert cluster.health(node_id)["ready"], "the node goes on"
