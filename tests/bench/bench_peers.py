"""Rookery beside Apache Kafka on the same machine, under the same load: one node, one node with TLS, three nodes.

Both run all along and are loaded in turns, so that whatever else the machine does falls on both. The load is librdkafka
from C (`c_load`). Kafka comes from Maven and runs with the JVM settings of its own start script. A first round warms it
up and is not counted. CPU is that of the servers' processes. A bare spike (`spike`) shows what parsing, reading and
writing cost in Python. Then NATS JetStream, Redis Streams and RabbitMQ streams, where they are installed.

Takes about eight minutes. ROOKERY_BENCH_ROUNDS=10 takes longer and varies less; ROOKERY_BENCH_PARTS picks some of
one,tls,three,others. Tables are printed, and written with a picture to build/bench/, from where docs/performance.md has
them: of each part the newest run.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.bench import bench_tls, c_load, loaders, other_peers
from tests.bench.c_load import Found, Load
from tests.bench.peers_page import MISSED, Part, Row, Sample, missed, svg
from tests.bench.spike import spike
from tests.building import FOLDER
from tests.cluster.local import local_cluster
from tests.interop.kafka import jars
from tests.interop.kafka.cluster import fast_kafka_cluster
from tests.interop.kafka.server import KafkaServer

ROUNDS = int(os.environ.get("ROOKERY_BENCH_ROUNDS", "3"))
PARTS = os.environ.get("ROOKERY_BENCH_PARTS", "one,tls,three,others").split(",")
RECORDS = {100: 1_000_000, 1000: 200_000}
RECORDS_TLS = {100: 500_000, 1000: 100_000}
UNBATCHED = 15_000
LATENCY_RATE, LATENCY_RECORDS = 1000, 3000
UNBATCHED_CPU_US_MAX = 200.0
IDLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Peer:
    """Servers that take turns with others."""

    name: str
    bootstrap: str
    pids: Sequence[int]
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self, topic: str, size: int, count: int, partitions: int) -> Load:
        return Load(self.bootstrap, topic, size, count, partitions)

    def measured(self, work: Callable[[], Found]) -> Sample:
        before = sum(map(loaders.cpu_s, self.pids))
        found = work()
        used = sum(map(loaders.cpu_s, self.pids)) - before
        latencies = None
        if found.latencies_us:
            p50, p95, p99, p999 = map(found.percentile_us, (50, 95, 99, 99.9))
            latencies = (p50, p95, p99, p999)
        return Sample(found.records / found.seconds, used / found.records * 1e6, latencies)

    def create(self, topics: Sequence[str], partitions: int, replicas: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self.options})
        config = {"min.insync.replicas": str(max(1, replicas - 1))}
        made = admin.create_topics([NewTopic(topic, partitions, replicas, config=config) for topic in topics])
        for future in made.values():
            future.result(60)

    def idle(self) -> str:
        """What it costs while nothing happens, for each node."""
        before = sum(map(loaders.cpu_s, self.pids))
        time.sleep(IDLE_S)
        percent = 100 * (sum(map(loaders.cpu_s, self.pids)) - before) / IDLE_S / len(self.pids)
        memory = sum(map(loaders.memory_mb, self.pids)) / len(self.pids)
        return f"{percent:.1f} % of a core, {memory:.0f} MB"


Work = Callable[[Peer], Found]


def in_turns(title: str, peers: Sequence[Peer], work: Work, **more: Any) -> Row:
    """A round that is not counted, then the others."""
    found: list[list[Sample]] = [[] for _ in peers]
    for number in range(ROUNDS + 1):
        for peer, samples in zip(peers, found, strict=True):
            sample = peer.measured(partial(work, peer))
            if number:
                samples.append(sample)
    ours, theirs, *bare = found
    row = Row(title, ours, theirs, bare[0] if bare else (), **more)
    what = f"p99 {row.p99_ratio:.2f}x" if row.is_latency else f"rate {row.rate_ratio:.2f}x"
    goals = ", ".join(f"{goal} {'met' if met else MISSED}" for goal, met in row.goals)
    print(f"{title:<44} {what}, CPU {row.cpu_ratio:.2f}x of Kafka's; {goals}", flush=True)
    return row


def loads(
    where: str,
    peers: Sequence[Peer],
    bare: Peer | None,
    records: Mapping[int, int],
    *,
    partitions: int = 1,
    acks: str = "1",
    unbatched: bool = True,
    cpu_us_max: float | None = None,
) -> Iterator[Row]:
    """All loads on one kind of cluster."""
    for size, count in records.items():
        topic = f"bench-{size}"

        def produce(peer: Peer, topic: str = topic, size: int = size, count: int = count) -> Found:
            return c_load.produce(peer.load(topic, size, count, partitions), acks=acks, **peer.options)

        def consume(peer: Peer, topic: str = topic, size: int = size, count: int = count) -> Found:
            # all that the rounds before have left: one round is read too quickly to be measured
            return c_load.consume(peer.load(topic, size, (ROUNDS + 1) * count, partitions), **peer.options)

        yield in_turns(f"{where}, produce {size} B", peers, produce, record_bytes=size)
        if bare is not None:
            for _ in range(ROUNDS + 1):
                produce(bare)
        yield in_turns(
            f"{where}, consume {size} B", [*peers, bare] if bare else peers, consume, record_bytes=size
        )  # fmt: skip
    if unbatched:

        def one(peer: Peer) -> Found:
            load = peer.load("bench-one", 100, UNBATCHED, partitions)
            return c_load.produce_unbatched(load, acks=acks, **peer.options)

        title = f"{where}, unbatched, 5 in flight"
        yield in_turns(title, [*peers, bare] if bare else peers, one, cpu_us_max=cpu_us_max)

    def latency(peer: Peer) -> Found:
        load = peer.load("bench-latency", 100, LATENCY_RECORDS, partitions)
        return c_load.latency(load, LATENCY_RATE, **{"p.acks": acks}, **peer.options)

    yield in_turns(f"{where}, {LATENCY_RATE:,} rec/s", peers, latency)


TOPICS = (*(f"bench-{size}" for size in RECORDS), "bench-one", "bench-latency")


def first_ack(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce("first", b"x")
    if producer.flush(60):
        raise RuntimeError(f"{bootstrap} acknowledges nothing")


@contextmanager
def one_rookery(notes: list[str]) -> Iterator[Peer]:
    begun = time.monotonic()
    with local_cluster(1) as cluster:
        first_ack(cluster.bootstrap)
        notes.append(f"Rookery, start to the first acknowledged record: {time.monotonic() - begun:.1f} s")
        yield Peer("rookery", cluster.bootstrap, [cluster.file.nodes[0].pid])


@contextmanager
def one_kafka(notes: list[str]) -> Iterator[Peer]:
    folder = Path(tempfile.mkdtemp(prefix="bench-kafka-"))
    server = KafkaServer(folder)
    begun = time.monotonic()
    server.start(jars.OWN_HEAP, jars.OWN_SETTINGS)
    try:
        first_ack(server.bootstrap)
        notes.append(f"Kafka, the same, on a formatted disk: {time.monotonic() - begun:.1f} s")
        yield Peer("kafka", server.bootstrap, [server.pid])
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def one_node(notes: list[str]) -> Iterator[Row]:
    with one_rookery(notes) as ours, one_kafka(notes) as theirs, spike() as (address, pid):
        for peer in (ours, theirs):
            peer.create(TOPICS, 1, 1)
        time.sleep(2)  # the start's own work is not measured
        notes += [f"One idle node of Rookery: {ours.idle()}", f"One idle node of Kafka: {theirs.idle()}"]
        yield from loads("1 node", [ours, theirs], Peer("spike", address, [pid]), RECORDS)
        notes += [f"{peer.name} after the load: {loaders.memory_mb(peer.pids[0]):.0f} MB" for peer in (ours, theirs)]


def one_node_tls(notes: list[str]) -> Iterator[Row]:
    folder = Path(tempfile.mkdtemp(prefix="bench-tls-"))
    (folder / "kafka").mkdir()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        secured = stack.enter_context(bench_tls.rookery(folder / "rookery"))
        other = stack.enter_context(bench_tls.apache_kafka(folder / "kafka", secured))
        peers = [
            Peer(name, each.bootstrap, [each.pid], each.options)
            for name, each in (("rookery", secured), ("kafka", other))
        ]
        for peer in peers:
            peer.create(TOPICS, 1, 1)
        yield from loads("1 node, TLS and SASL", peers, None, RECORDS_TLS)


def three_nodes(notes: list[str]) -> Iterator[Row]:
    with local_cluster(3) as ours, fast_kafka_cluster(3) as theirs:
        peers = [
            Peer(name, cluster.bootstrap, [node.pid for node in cluster.file.nodes])
            for name, cluster in (("rookery", ours), ("kafka", theirs))
        ]
        for peer in peers:
            peer.create(TOPICS, 1, 3)
        time.sleep(2)  # likewise
        notes += [f"Each of three idle nodes of {peer.name}: {peer.idle()}" for peer in peers]
        title = "3 nodes, acks=all"
        yield from loads(title, peers, None, RECORDS, acks="all", cpu_us_max=UNBATCHED_CPU_US_MAX)


LOADED = {"one": one_node, "tls": one_node_tls, "three": three_nodes}


def main() -> None:
    machine = f"{os.cpu_count()} cores, {_memory_gb():.0f} GB, Linux {os.uname().release}"
    c_load.built()
    folder = FOLDER / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PARTS:
        when, load = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), os.getloadavg()[0]
        print(f"{name}: {when}; {machine}; load average {load:.1f}; {ROUNDS} rounds", flush=True)
        notes: list[str] = []
        rows = list(LOADED[name](notes)) if name in LOADED else []
        table = "" if rows else other_peers.table(notes)
        measured = f"{when}, {machine}, load average {load:.1f} to {os.getloadavg()[0]:.1f}"
        how = f"medians of {ROUNDS} rounds" if rows else "one run"
        part = Part(name, f"{measured}, {how}", rows, notes, table)
        (folder / f"peers-{name}.json").write_text(part.to_json())
        print(f"\n{part.markdown()}\n", flush=True)
    parts = [Part.from_json(path.read_text()) for path in sorted(folder.glob("peers-*.json"), key=_order)]
    rows = [row for part in parts for row in part.rows]
    (folder / "peers.md").write_text("\n\n".join(part.markdown() for part in parts) + "\n")
    if rows:
        (folder / "peers.svg").write_text(svg(rows, f"Rookery as a multiple of Apache Kafka 4.3.1; {machine}"))
    print("Goals missed: " + ("; ".join(missed(rows)) or "none"))
    print(f"written: {folder}/peers.md and peers.svg, of the newest run of each part")


def _order(path: Path) -> int:
    names = [*LOADED, "others"]
    return names.index(path.stem.removeprefix("peers-"))


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
