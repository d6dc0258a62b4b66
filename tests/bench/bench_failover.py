"""How long writing stops when a node dies, and what three replicas cost. Kafka's default timeouts (9 s session)."""

import time
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import PartitionMetadata

from tests.bench import loaders
from tests.cluster.load import Load
from tests.cluster.local import LocalCluster, local_cluster, wait_for

ROUNDS = 3
AIM_S = 1.5
PARTITIONS_MANY = 3000


def gap(cluster: LocalCluster, load: Load, victim: int, *, clean: bool = False) -> float:
    """Take a node away, wait until writing goes on, bring it back; the longest silence."""
    begun = time.monotonic()
    cluster.stop(victim) if clean else cluster.kill(victim)
    goal = load.acked + 200
    wait_for(lambda: load.acked >= goal, "writing to go on", 60)
    found = load.longest_gap_s(begun)
    cluster.up()
    cluster.wait_in_sync("bench", 3)
    return found


def victims(cluster: LocalCluster) -> dict[str, int]:
    """A leader, a leader that is the active controller, and the controller: by what they lead now."""
    controller = cluster.active_controller()
    leaders = {cluster.leader("bench", index) for index in range(3)}
    found = {"leader and controller" if controller in leaders else "controller alone": controller}
    others = leaders - {controller}
    if others:
        found["leader"] = min(others)
    return found


def failover() -> None:
    with local_cluster(3) as cluster:
        cluster.create_topic("bench", 3, 3, {"min.insync.replicas": "2"})
        cluster.wait_in_sync("bench", 3)
        gaps: dict[str, list[float]] = {}
        with Load(cluster, "bench", 3) as load:
            wait_for(lambda: load.acked > 200, "the load to run")
            for _ in range(ROUNDS):
                for title in ("leader", "leader and controller", "controller alone"):
                    found = victims(cluster).get(title)
                    if found is not None:
                        gaps.setdefault(f"kill -9 of a {title}", []).append(gap(cluster, load, found))
                stopped = gap(cluster, load, cluster.leader("bench", 0), clean=True)
                gaps.setdefault("controlled stop of a leader", []).append(stopped)
        if load.errors or load.history.anomalies():
            raise RuntimeError(f"not clean: {load.errors[:3]} {load.history.anomalies()[:3]}")
        for title, values in gaps.items():
            each = " ".join(f"{value:.2f}" for value in values)
            print(f"{title:<34} {each}  longest {max(values):.2f} s (aim {AIM_S} s)")


def throughput() -> None:
    for nodes in (1, 3):
        with local_cluster(nodes) as cluster:
            cluster.create_topic("load", 3, nodes)
            cluster.wait_in_sync("load", 3, nodes)
            pids = [node.pid for node in cluster.file.nodes]
            for size, count in ((100, 300_000), (1000, 150_000)):
                work = partial(loaders.produce, cluster.bootstrap, "load", size, count, acks="all")
                print(f"{nodes} node(s), acks=all, {size:>4} B  {loaders.measured(pids, work).line}")


def partitions_of(cluster: LocalCluster, node_id: int) -> list[PartitionMetadata]:
    """All partitions as one node knows them."""
    admin = AdminClient({"bootstrap.servers": cluster.node(node_id).kafka, "log_level": 0})
    topics = admin.list_topics(timeout=30).topics.values()
    return [partition for topic in topics for partition in topic.partitions.values()]


def many_partitions() -> None:
    """What idle partitions cost, and how long it takes to move a third of their leaders."""
    with local_cluster(3) as cluster:
        topics, begun = 30, time.monotonic()

        def in_sync() -> bool:
            found = partitions_of(cluster, cluster.active_controller())
            return len(found) == PARTITIONS_MANY and all(len(partition.isrs) == 3 for partition in found)

        for number in range(topics):
            cluster.create_topic(f"many-{number}", PARTITIONS_MANY // topics, 3)
        wait_for(in_sync, "all replicas", 240)
        print(f"{PARTITIONS_MANY} partitions on 3 nodes: made in {time.monotonic() - begun:.0f} s")
        time.sleep(5)
        _idle(cluster)
        controller = cluster.active_controller()
        victim, other = (n for n in cluster.ids if n != controller)
        led = sum(partition.leader == victim for partition in partitions_of(cluster, other))
        begun = time.monotonic()
        cluster.kill(victim)
        wait_for(
            lambda: all(partition.leader not in (victim, -1) for partition in partitions_of(cluster, other)),
            "the others to lead everything",
            120,
        )
        print(f"{led} leaders moved {time.monotonic() - begun:.2f} s after kill -9")
        producer = Producer({"bootstrap.servers": cluster.awake, "acks": "all"})
        producer.produce("many-0", b"x")
        if producer.flush(30):
            raise RuntimeError("nothing can be written after the failover")
        begun = time.monotonic()
        cluster.up()
        ready = time.monotonic()
        wait_for(in_sync, "all replicas", 240)
        print(f"killed node ready after {ready - begun:.1f} s, all in sync after {time.monotonic() - begun:.1f} s")


def _idle(cluster: LocalCluster, seconds: float = 10.0) -> None:
    pids = [node.pid for node in cluster.file.nodes]
    before = [loaders.cpu_s(pid) for pid in pids]
    time.sleep(seconds)
    used = [100 * (loaders.cpu_s(pid) - cpu) / seconds for pid, cpu in zip(pids, before, strict=True)]
    memory = [loaders.memory_mb(pid) for pid in pids]
    print(f"idle: CPU {' '.join(f'{each:.0f}' for each in used)} %, {' '.join(f'{each:.0f}' for each in memory)} MB")


def main() -> None:
    failover()
    throughput()
    many_partitions()
