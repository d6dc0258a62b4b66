"""From nothing to the first acknowledged record, acks=all on three replicas, and what the nodes take of memory: nodes
in one process, `rookery up`, Apache Kafka, and where an engine runs the container image."""

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from rookery.client.admin import NewTopic, create_topic
from rookery.core.net.cluster import Cluster as Brokers

ROUNDS = 5
NODES = 3
START_AIM_S = 0.3
MEMORY_AIM_MB = 120.0
PLUGIN_AIM_MS = 5
ONE = """
import time
begun = time.perf_counter()
from rookery.testing.cluster import Cluster
imported = time.perf_counter()
from tests.bench.bench_testing_kit import NODES, first_record, rss_mb, us
clock, cpu = time.perf_counter(), time.process_time()
with Cluster(nodes=NODES, processes={processes}) as cluster:
    up = time.perf_counter()
    first_record(cluster.bootstrap, lambda: cluster.create_topic("t", replication_factor=NODES))
    acked, worked = time.perf_counter(), time.process_time() - cpu
    pids = list(map(cluster.nodes.pid, cluster.ids)) if {processes} else us()
    print(imported - begun, up - clock, acked - clock, worked, rss_mb(pids))
"""


def first_record(bootstrap: str, create: Callable[[], None]) -> None:
    """Make the topic and wait until a record of it is acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    create()
    producer.produce("t", b"1")
    if producer.flush(60):
        raise RuntimeError("the record was not acknowledged in a minute")


def create_from_outside(bootstrap: str) -> None:
    async def create() -> None:
        async with Brokers(bootstrap) as brokers:
            await create_topic(brokers, NewTopic("t", 1, NODES))

    asyncio.run(create())


def us() -> list[int]:
    return [os.getpid()]


def rss_mb(pids: list[int]) -> float:
    """What processes have resident, together."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def ours(*, processes: bool) -> tuple[float, ...]:
    """Of an interpreter of its own: seconds to import, until nodes are ready, until the record is acknowledged, of CPU
    for both; MB."""
    done = subprocess.run(
        [sys.executable, "-c", ONE.format(processes=processes)], capture_output=True, text=True, check=True
    )
    return tuple(map(float, done.stdout.split()))


def kafka() -> str:
    from tests.interop.kafka.cluster import kafka_cluster

    begun = time.perf_counter()
    with kafka_cluster(NODES) as cluster:
        first_record(cluster.bootstrap, lambda: create_from_outside(cluster.bootstrap))
        took = time.perf_counter() - begun
        return f"{took:.1f} s, {rss_mb([node.pid for node in cluster.file.nodes]):.0f} MB"


def containers() -> str:
    from tests import needs
    from tests.containers.cluster import compose_cluster
    from tests.containers.image import build

    needs.docker()
    image = build()
    begun = time.perf_counter()
    with compose_cluster("compose.yaml", "kafka", image, "rookery-bench") as cluster:
        first_record(cluster.bootstrap, lambda: create_from_outside(cluster.bootstrap))
        return f"{time.perf_counter() - begun:.1f} s"


def plugin_ms() -> float:
    """What pytest spends to load the plugin in a run that uses no fixture of it."""
    program = (
        "import time, pytest\nbegun = time.perf_counter()\nimport rookery.testing.plugin\n"
        "print((time.perf_counter() - begun) * 1000)"
    )
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


def told(measure: Callable[[], str]) -> str:
    """What was measured, or why it was not."""
    import pytest  # not above: what is measured has only what it needs

    try:
        return measure()
    except pytest.skip.Exception as reason:
        return f"not measured: {reason}"


def main() -> None:
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for processes in (False, True):
        found = [ours(processes=processes) for _ in range(ROUNDS)]
        imported, up, acked, worked, memory = (sorted(column)[ROUNDS // 2] for column in zip(*found, strict=True))
        slowest = max(row[2] for row in found)
        how = "as processes, as rookery up" if processes else "in one process"
        print(
            f"{NODES} nodes {how}: import {imported:.2f} s, "
            f"ready {up:.2f} s, first record acknowledged {acked:.2f} s (slowest {slowest:.2f} s, "
            f"CPU of this process {worked:.2f} s), {memory:.0f} MB"
        )
        if not processes:
            print(f"  aim: {START_AIM_S} s after the import, {MEMORY_AIM_MB:.0f} MB: {_aim(acked, worked, memory)}")
    for name, measure in (("Apache Kafka", kafka), ("the container image", containers)):
        with contextlib.redirect_stdout(sys.stderr):
            text = told(measure)
        print(f"{NODES} nodes of {name}: first record acknowledged {text}", flush=True)
    print(f"start-up of the pytest plugin: {min(plugin_ms() for _ in range(ROUNDS)):.1f} ms (aim {PLUGIN_AIM_MS} ms)")
    begun = time.perf_counter()
    many = 20
    one = f"from rookery.testing import Cluster\nfor _ in range({many}):\n    Cluster(nodes=1).start().stop()\n"
    subprocess.run([sys.executable, "-c", one], check=True)
    print(f"{many} clusters of one node, one after the other: {(time.perf_counter() - begun) / many:.3f} s each")


def _aim(acked: float, worked: float, memory: float) -> str:
    missed = []
    if acked > START_AIM_S:
        missed.append(f"{acked:.2f} s for {worked:.2f} s of CPU and the wait for an election: look at the load")
    if memory > MEMORY_AIM_MB:
        missed.append(f"{memory:.0f} MB")
    return f"MISSED ({', '.join(missed)})" if missed else "reached"
