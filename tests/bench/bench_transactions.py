"""Transactions per second with librdkafka, beside the same records without transactions, on one node of ours and one of
Apache Kafka in the same run.

Both servers run all along and take turns, so that whatever else the machine does falls on both. CPU is that of the
server's process. Without transactions the same records are sent by an idempotent producer, which waits for their
acknowledgements.

Then three nodes with default timeouts: the coordinator of an open transaction is killed (kill -9), and the time until
the transaction is committed is shown, with the next coordinator. Apache Kafka after ours.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rookery.broker.coordination.internal_topic import partition_for
from tests.bench.loaders import cpu_s
from tests.cluster.local import LocalCluster, local_cluster
from tests.interop.kafka.cluster import kafka_cluster
from tests.interop.kafka.server import KafkaServer

SIZES = (1, 10, 100)
ROUND_S = 2.0
ROUNDS = 5
TOPIC, PARTITIONS = "bench", 2
VALUE = b"x" * 100
FAILOVERS = 5
STATE_PARTITIONS = 3
THREE_NODES = {
    "transaction__state__log__num__partitions": str(STATE_PARTITIONS),
    "transaction__state__log__replication__factor": "3",
    "transaction__state__log__min__isr": "2",
}


class Peer(NamedTuple):
    name: str
    bootstrap: str
    pid: int


class Rate(NamedTuple):
    per_second: float
    cpu_us: float


@contextmanager
def rookery() -> Iterator[Peer]:
    with local_cluster(1, transaction__state__log__num__partitions="1") as cluster:
        yield Peer("rookery", cluster.bootstrap, cluster.node(1).pid)


@contextmanager
def apache_kafka() -> Iterator[Peer]:
    folder = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
    server = KafkaServer(folder)
    server.start()
    try:
        yield Peer("Kafka", server.bootstrap, server.pid)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def producer(peer: Peer, size: int, *, transactional: bool) -> Producer:
    more = {"transactional.id": f"bench-{size}"} if transactional else {"enable.idempotence": True}
    made = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 0, "log_level": 0, **more})
    if transactional:
        made.init_transactions(60)
    return made


def send(to: Producer, size: int) -> None:
    for number in range(size):
        to.produce(TOPIC, VALUE, partition=number % PARTITIONS)


def transaction(to: Producer, size: int) -> None:
    to.begin_transaction()
    send(to, size)
    to.commit_transaction(60)


def plain(to: Producer, size: int) -> None:
    send(to, size)
    if to.flush(60):
        raise RuntimeError("not everything was acknowledged")


def measured(peer: Peer, to: Producer, size: int, work: Callable[[Producer, int], None]) -> Rate:
    before, began, done = cpu_s(peer.pid), time.perf_counter(), 0
    while time.perf_counter() < began + ROUND_S:
        work(to, size)
        done += 1
    seconds = time.perf_counter() - began
    return Rate(done / seconds, (cpu_s(peer.pid) - before) / done * 1e6)


def median(rates: list[Rate]) -> Rate:
    return Rate(statistics.median(each.per_second for each in rates), statistics.median(each.cpu_us for each in rates))


def failover(cluster: LocalCluster) -> list[float]:
    """Seconds from kill -9 of its coordinator until a transaction is committed."""
    name, gaps = "failover", []
    cluster.create_topic(TOPIC, PARTITIONS, 3)
    to = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 0})
    to.init_transactions(60)
    cluster.wait_in_sync("__transaction_state", STATE_PARTITIONS)
    for _ in range(FAILOVERS):
        to.begin_transaction()
        send(to, 2)
        if to.flush(60):
            raise RuntimeError("not everything was acknowledged")
        cluster.kill(cluster.leader("__transaction_state", partition_for(name, STATE_PARTITIONS)))
        began = time.perf_counter()
        to.commit_transaction(60)
        gaps.append(time.perf_counter() - began)
        cluster.up()
        cluster.wait_in_sync("__transaction_state", STATE_PARTITIONS)
    return gaps


def show_failover(name: str, cluster: LocalCluster) -> None:
    gaps = failover(cluster)
    shown = " ".join(f"{gap:.2f}" for gap in gaps)
    median_s = statistics.median(gaps)
    print(f"coordinator killed, {name}: committed after {shown} s, median {median_s:.2f}", flush=True)


def main() -> None:
    rates()
    with local_cluster(3, **THREE_NODES) as cluster:
        show_failover("rookery", cluster)
    if shutil.which("java") and shutil.which("mvn"):
        with kafka_cluster(3, **THREE_NODES) as cluster:
            show_failover("Kafka", cluster)


def rates() -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(rookery())]
        if shutil.which("java") and shutil.which("mvn"):
            peers.append(stack.enter_context(apache_kafka()))
        for peer in peers:
            admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
            for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
                future.result(30)
        print(f"{'per second, and CPU of the server for each':44}" + "".join(f"{peer.name:>24}" for peer in peers))
        for size in SIZES:
            for title, work in (("transactions", transaction), ("without", plain)):
                clients = [(peer, producer(peer, size, transactional=work is transaction)) for peer in peers]
                found: dict[str, list[Rate]] = {peer.name: [] for peer in peers}
                for peer, client in clients:
                    measured(peer, client, size, work)  # not counted
                for _ in range(ROUNDS):
                    for peer, client in clients:
                        found[peer.name].append(measured(peer, client, size, work))
                rates = [median(found[peer.name]) for peer in peers]
                line = "".join(f"{rate.per_second:>11,.0f} {rate.cpu_us:>9,.0f} us" for rate in rates)
                ratio = f"  ratio {rates[0].per_second / rates[1].per_second:.2f}" if len(rates) > 1 else ""
                print(f"{f'{size} records, {title}':44}{line}{ratio}", flush=True)


if __name__ == "__main__":
    main()
