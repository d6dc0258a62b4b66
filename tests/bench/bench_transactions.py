"""Transactions per second with librdkafka, beside the same records without transactions, on one node of ours and one of
Apache Kafka in the same run, then on three of each.

All servers of a part run all along and take turns, so that whatever else the machine does falls on both. Kafka has the
JVM settings of its own start script, and is warmed up first. CPU is that of the servers' processes. Without
transactions the same records are sent by an idempotent producer, which waits for their acknowledgements.

Then three nodes with default timeouts: the coordinator of an open transaction is killed (kill -9), and the time until
the transaction is committed is shown, with the next coordinator. Apache Kafka after ours.

ROOKERY_BENCH_PARTS picks some of one,three,failover.
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rookery.broker.coordination.internal_topic import partition_for
from tests.bench.loaders import cpu_s
from tests.cluster.local import LocalCluster, local_cluster
from tests.interop.kafka import jars
from tests.interop.kafka.cluster import fast_kafka_cluster, kafka_cluster
from tests.interop.kafka.server import KafkaServer

PARTS = os.environ.get("ROOKERY_BENCH_PARTS", "one,three,failover").split(",")
SIZES = (1, 10, 100)
ROUND_S = 2.0
ROUNDS = int(os.environ.get("ROOKERY_BENCH_ROUNDS", "5"))
WARM_S = 15.0
"""Of transactions, before anything is measured: Java translates again what runs often."""
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
    pids: Sequence[int]

    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))


class Rate(NamedTuple):
    per_second: float
    cpu_us: float


def has_java() -> bool:
    return shutil.which("java") is not None and shutil.which("mvn") is not None


@contextmanager
def one_node() -> Iterator[list[Peer]]:
    with ExitStack() as stack:
        ours = stack.enter_context(local_cluster(1, transaction__state__log__num__partitions="1"))
        peers = [Peer("rookery", ours.bootstrap, [ours.node(1).pid])]
        if has_java():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-kafka-"))
            server = KafkaServer(Path(folder))
            server.start(jars.OWN_HEAP, jars.OWN_SETTINGS)
            stack.callback(server.stop)
            peers.append(Peer("Kafka", server.bootstrap, [server.pid]))
        yield peers


@contextmanager
def three_nodes() -> Iterator[list[Peer]]:
    with ExitStack() as stack:
        clusters = {"rookery": stack.enter_context(local_cluster(3, **THREE_NODES))}
        if has_java():
            clusters["Kafka"] = stack.enter_context(fast_kafka_cluster(3, **THREE_NODES))
        yield [
            Peer(name, cluster.bootstrap, [node.pid for node in cluster.file.nodes])
            for name, cluster in clusters.items()
        ]


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


def measured(
    peer: Peer, to: Producer, size: int, work: Callable[[Producer, int], None], seconds: float = ROUND_S
) -> Rate:
    before, began, done = peer.cpu_s(), time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        work(to, size)
        done += 1
    took = time.perf_counter() - began
    return Rate(done / took, (peer.cpu_s() - before) / done * 1e6)


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
    if "one" in PARTS:
        with one_node() as peers:
            rates("1 node", peers, replicas=1)
    if "three" in PARTS:
        with three_nodes() as peers:
            rates("3 nodes", peers, replicas=3)
    if "failover" in PARTS:
        with local_cluster(3, **THREE_NODES) as cluster:
            show_failover("rookery", cluster)
        if has_java():
            with kafka_cluster(3, **THREE_NODES) as cluster:
                show_failover("Kafka", cluster)


def rates(where: str, peers: Sequence[Peer], *, replicas: int) -> None:
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load average {os.getloadavg()[0]:.1f}")
    for peer in peers:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": str(max(1, replicas - 1))}
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas, config=config)]).values():
            future.result(30)
        for work, transactional in ((transaction, True), (plain, False)):
            measured(peer, producer(peer, SIZES[-1], transactional=transactional), SIZES[-1], work, WARM_S)
    print(f"{f'{where}: per second, and CPU for each':44}" + "".join(f"{peer.name:>24}" for peer in peers))
    for size in SIZES:
        for title, work in (("transactions", transaction), ("without", plain)):
            clients = [(peer, producer(peer, size, transactional=work is transaction)) for peer in peers]
            found: dict[str, list[Rate]] = {peer.name: [] for peer in peers}
            for peer, client in clients:
                measured(peer, client, size, work)  # not counted
            for _ in range(ROUNDS):
                for peer, client in clients:
                    found[peer.name].append(measured(peer, client, size, work))
            medians = [median(found[peer.name]) for peer in peers]
            line = "".join(f"{rate.per_second:>11,.0f} {rate.cpu_us:>9,.0f} us" for rate in medians)
            print(f"{f'{size} records, {title}':44}{line}{_ratio(list(found.values()))}", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)


def _ratio(found: Sequence[Sequence[Rate]]) -> str:
    """Of the rates: the median over rounds of both sides of one round."""
    if len(found) < 2:
        return ""
    each = [ours.per_second / theirs.per_second for ours, theirs in zip(*found, strict=True)]
    return f"  ratio {statistics.median(each):.2f}"


if __name__ == "__main__":
    main()
