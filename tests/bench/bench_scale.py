"""Many partitions on three nodes: what it takes to create them, to keep them idle, to lose a node and to get it back.

Every partition has three replicas, so each node has as many replicas as there are partitions. 10,000 unless
ROOKERY_BENCH_PARTITIONS says otherwise. Idle cost is shown beside that of the same cluster while it was empty.
"""

import asyncio
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from confluent_kafka import Producer

from rookery.client import admin
from rookery.core.net.cluster import Cluster
from rookery.core.net.connection import Connection
from rookery.core.wire.apis.api_versions import API_VERSIONS, ApiVersionsRequest
from rookery.core.wire.apis.metadata import METADATA, MetadataRequest, MetadataResponse
from rookery.core.wire.header import request_frame
from tests.bench import loaders
from tests.cluster.local import LocalCluster, local_cluster, wait_for

PARTITIONS = int(os.environ.get("ROOKERY_BENCH_PARTITIONS", "10000"))
PER_TOPIC = 500
IDLE_S = 10.0
SETTLED_S = 5.0
ASKED = 5
CREATED_S, MOVED_S, ACKED_S, IN_SYNC_S, HELD_MS, IDLE_PERCENT, IDLE_MB = 60, 3, 2, 20, 20, 1, 100


class Idle(NamedTuple):
    percent: float
    mb: float


def goal(text: str, met: bool) -> str:
    return f"goal {text}: {'met' if met else 'MISSED'}"


def idle(cluster: LocalCluster) -> Idle:
    """The costliest node."""
    pids = [node.pid for node in cluster.file.nodes]
    before = [loaders.cpu_s(pid) for pid in pids]
    time.sleep(IDLE_S)
    used = [100 * (loaders.cpu_s(pid) - cpu) / IDLE_S for pid, cpu in zip(pids, before, strict=True)]
    return Idle(max(used), max(map(loaders.memory_mb, pids)))


async def all_topics(address: str) -> MetadataResponse:
    host, _, port = address.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="bench", timeout_s=30)
    try:
        version = connection.version_for(METADATA)
        return await connection.request(METADATA, version, MetadataRequest(topics=None), 60)
    finally:
        connection.close()


def partitions_of(cluster: LocalCluster, node_id: int) -> list[tuple[int, int]]:
    """Leader and number of in-sync replicas of each partition, as one node knows them."""
    topics = asyncio.run(all_topics(cluster.node(node_id).kafka)).topics
    return [(partition.leader_id, len(partition.isr_nodes)) for topic in topics for partition in topic.partitions]


def create(cluster: LocalCluster) -> None:
    async def run() -> None:
        async with Cluster(cluster.bootstrap) as connected:
            for number in range(PARTITIONS // PER_TOPIC):
                await admin.create_topic(connected, admin.NewTopic(f"many-{number}", PER_TOPIC, 3, None))

    asyncio.run(run())


def asked(sock: socket.socket, frame: bytes) -> float:
    """Send a request, read its answer without a look at it, and return the seconds that took."""
    begun = time.perf_counter()
    sock.sendall(frame)
    left, room = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big"), bytearray(1 << 20)
    while left:
        left -= sock.recv_into(room, min(left, len(room)))
    return time.perf_counter() - begun


def held_ms(address: str) -> tuple[float, float]:
    """At most: how long others wait for ApiVersions while a client asks for all topics; and how long that one waits."""
    host, _, port = address.rpartition(":")
    small, large = (socket.create_connection((host, int(port)), 60) for _ in range(2))
    everything = b"".join(map(bytes, request_frame(METADATA, 12, 1, "bench", MetadataRequest(topics=None))))
    little = b"".join(map(bytes, request_frame(API_VERSIONS, 0, 1, "bench", ApiVersionsRequest())))
    waits: list[float] = []
    with ThreadPoolExecutor(1) as pool, small, large:
        taken = []
        for _ in range(ASKED):
            answer = pool.submit(asked, large, everything)
            while not answer.done():
                waits.append(asked(small, little))
            taken.append(answer.result())
    return max(waits) * 1000, max(taken) * 1000


def main() -> None:
    with local_cluster(3) as cluster:
        time.sleep(SETTLED_S)
        empty = idle(cluster)
        begun = time.monotonic()
        create(cluster)
        created = time.monotonic() - begun

        def in_sync() -> bool:
            found = partitions_of(cluster, cluster.active_controller())
            return len(found) >= PARTITIONS and all(isr == 3 for _, isr in found)

        wait_for(in_sync, "all replicas", 400)
        made = time.monotonic() - begun
        goals = goal(f"{CREATED_S} s", made <= CREATED_S)
        print(f"{PARTITIONS} partitions: created in {created:.1f} s, in sync after {made:.1f} s; {goals}", flush=True)
        time.sleep(SETTLED_S)
        full = idle(cluster)
        more, mb = full.percent - empty.percent, full.mb
        goals = goal(f"{IDLE_PERCENT} % more, {IDLE_MB} MB", more <= IDLE_PERCENT and mb <= IDLE_MB)
        before = f"empty {empty.percent:.1f} %, {empty.mb:.0f} MB"
        print(f"idle: {full.percent:.1f} % of a core, {mb:.0f} MB; {before}; {goals}", flush=True)
        held, taken = held_ms(cluster.node(cluster.ids[0]).kafka)
        goals = goal(f"{HELD_MS} ms", held <= HELD_MS)
        print(f"Metadata of all topics: {taken:.0f} ms, others wait up to {held:.0f} ms; {goals}", flush=True)
        lose_one(cluster)
        begun = time.monotonic()
        cluster.up()
        ready = time.monotonic() - begun
        wait_for(in_sync, "all replicas", 400)
        back = time.monotonic() - begun
        goals = goal(f"{IN_SYNC_S} s", back <= IN_SYNC_S)
        print(f"back: ready after {ready:.1f} s, in sync after {back:.1f} s; {goals}")


def lose_one(cluster: LocalCluster) -> None:
    controller = cluster.active_controller()
    victim, other = (n for n in cluster.ids if n != controller)
    led = [index for index, (leader, _) in enumerate(partitions_of(cluster, other)) if leader == victim]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    producer.list_topics("many-0")
    begun = time.monotonic()
    cluster.kill(victim)
    acked: list[float] = []
    for index in range(10):  # some of them were led by the victim
        producer.produce("many-0", b"x", partition=index, on_delivery=lambda *_: acked.append(time.monotonic()))
    while any(leader in (victim, -1) for leader, _ in partitions_of(cluster, other)):
        producer.poll(0)
        if time.monotonic() > begun + 120:
            raise RuntimeError("leaders do not move")
    moved = time.monotonic() - begun
    if producer.flush(60):
        raise RuntimeError("nothing can be written after the failover")
    last = max(acked) - begun
    goals = goal(f"{MOVED_S} s and {ACKED_S} s", moved <= MOVED_S and last <= ACKED_S)
    what = f"{len(led)} leaders moved after {moved:.2f} s, the last of 10 records acknowledged after {last:.2f} s"
    print(f"kill -9: {what}; {goals}", flush=True)
