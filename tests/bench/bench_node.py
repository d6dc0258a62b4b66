"""One node under librdkafka's clients, beside Apache Kafka's own server on the same machine and in the same run.

ROOKERY_BENCH_BOOTSTRAP=host:port measures another running broker instead of Kafka from Maven (without its CPU).
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.bench import loaders
from tests.cluster.local import local_cluster
from tests.interop.kafka.server import KafkaServer

RECORDS_100 = 500_000
RECORDS_1K = 200_000
UNBATCHED = 20_000
GOALS = """goals on a quiet machine: <= 9 us per pipelined 1-record Produce; <= 0.75 ms per MB produced, <= 0.4 fetched;
start to first acknowledged record <= 1.5 s; <= 70 MB for an idle node"""


@contextmanager
def rookery() -> Iterator[tuple[str, list[int]]]:
    begun = time.monotonic()
    with local_cluster(1) as cluster:
        first_ack(cluster.bootstrap)
        pid = cluster.file.nodes[0].pid
        started, memory = time.monotonic() - begun, loaders.memory_mb(pid)
        print(f"start to the first acknowledged record {started:.2f} s, memory {memory:.0f} MB")
        yield cluster.bootstrap, [pid]


@contextmanager
def apache_kafka() -> Iterator[tuple[str, list[int]]]:
    other = os.environ.get("ROOKERY_BENCH_BOOTSTRAP")
    if other:
        yield other, []
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
    server = KafkaServer(folder)
    begun = time.monotonic()
    server.start()
    try:
        first_ack(server.bootstrap)
        memory = loaders.memory_mb(server.pid)
        print(
            f"start to the first acknowledged record {time.monotonic() - begun:.2f} s, memory {memory:.0f} MB"
        )
        yield server.bootstrap, [server.pid]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def first_ack(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("first", b"x")
    producer.flush(30)


def measure(name: str, bootstrap: str, pids: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = ["bench-100", "bench-1k", "bench-one"]
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(30)
    time.sleep(1)  # let the start-up's own work end before measuring
    for title, work in (
        ("produce 100 B", lambda: loaders.produce(bootstrap, "bench-100", 100, RECORDS_100, acks=1)),
        ("produce 1 KB", lambda: loaders.produce(bootstrap, "bench-1k", 1000, RECORDS_1K, acks=1)),
        ("consume 100 B", lambda: loaders.consume(bootstrap, "bench-100", 1, RECORDS_100, 100)),
        ("consume 1 KB", lambda: loaders.consume(bootstrap, "bench-1k", 1, RECORDS_1K, 1000)),
        (
            "1 record/request, 64 in flight",
            lambda: loaders.produce_unbatched(bootstrap, "bench-one", UNBATCHED, 64),
        ),
        (
            "1 record/request, 5 in flight",
            lambda: loaders.produce_unbatched(bootstrap, "bench-one", UNBATCHED, 5),
        ),
    ):
        print(f"{name:<14}{title:<32}{loaders.measured(pids, work).line}", flush=True)


def main() -> None:
    print(GOALS)
    with rookery() as (bootstrap, pids):
        measure("rookery", bootstrap, pids)
    with apache_kafka() as (bootstrap, pids):
        measure("apache kafka", bootstrap, pids)
