"""Control and data share one event loop: at full load there must be no election and no false fence."""

import os
import threading
import time

import pytest
from confluent_kafka import Producer

from tests.cluster.local import LocalCluster, local_cluster

pytestmark = pytest.mark.alone

SECONDS = 25.0
"""Longer than two sessions of a broker, and than the data that retention keeps takes to fill."""
RECORD = 1000


def full_speed(cluster: LocalCluster, stop: threading.Event, sent: list[int]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    value = os.urandom(RECORD)
    while not stop.is_set():
        try:
            producer.produce("flood", value)
            sent[0] += 1
        except BufferError:
            producer.poll(0.01)
    producer.flush(60)


@pytest.mark.row(142)
def test_full_load_costs_no_election_and_no_fence() -> None:
    with local_cluster(1, log__retention__check__interval__ms="1000") as cluster:
        cluster.create_topic(
            "flood", 3, 1,
            {"segment.bytes": str(64 << 20), "retention.bytes": str(128 << 20), "file.delete.delay.ms": "1000"},
        )  # fmt: skip
        epoch = cluster.health(1)["controller"]["epoch"]
        stop, sent = threading.Event(), [0]
        thread = threading.Thread(target=full_speed, args=(cluster, stop, sent))
        thread.start()
        slowest = 0.0
        try:
            deadline = time.monotonic() + SECONDS
            while time.monotonic() < deadline:
                asked = time.monotonic()
                health = cluster.health(1, SECONDS)
                assert health["ready"], health["reasons"]
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.2)
        finally:
            stop.set()
            thread.join()
        lag = cluster.metric(1, "rookery_event_loop_lag_seconds_max")
        rate = sent[0] * RECORD / SECONDS / 1e6
        print(f"{rate:.0f} MB/s, longest loop lag {lag * 1000:.0f} ms, slowest answer of /healthz {slowest:.2f} s")
        assert cluster.health(1)["controller"]["epoch"] == epoch
        assert "broker.fenced" not in cluster.log(1)
        assert cluster.log(1).count("controller.activated") == 1
