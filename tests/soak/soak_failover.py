"""Real nodes under random faults while an idempotent producer and a consumer go on: killed, frozen, stopped, and cut
off from the other nodes or from everybody. Everything acknowledged is read exactly once and in order, and in the
end the replicas are equal byte for byte."""

import random
import time
from collections import Counter

from tests.cluster.ends import ends
from tests.cluster.load import Load
from tests.cluster.local import wait_for
from tests.cluster.networked import NetworkedCluster, networked_cluster
from tests.cluster.replicas import check_history_and_replicas

TOPIC, PARTITIONS = "orders", 3
ROUNDS_PER_CHECK = 10
AFTER_FAULT = 50
FAULTS = ("kill", "kill", "pause", "stop", "cut from nodes", "cut from all")
DELETING = {"retention.ms": "60000", "segment.ms": "5000"}
"""Records are deleted after a minute: later than any consumer that follows can need them."""
IMPATIENT = {"socket.timeout.ms": 4000, "topic.metadata.refresh.interval.ms": 1000}


def main(budget_s: float) -> dict[str, object]:
    """Faults until the time is over; raises on the first thing lost."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    rng, deadline, totals = random.Random(seed), time.monotonic() + budget_s, Counter[str]()
    with networked_cluster(
        3,
        broker__session__timeout__ms="3000",
        broker__heartbeat__interval__ms="500",
        replica__lag__time__max__ms="2000",
        leader__imbalance__check__interval__seconds="5",
        log__retention__check__interval__ms="1000",
        log__segment__delete__delay__ms="1000",
    ) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3, {"min.insync.replicas": "2", **DELETING})
        gaps: list[float] = []
        while time.monotonic() < deadline:
            with Load(cluster, TOPIC, PARTITIONS, IMPATIENT) as load:
                for _ in range(ROUNDS_PER_CHECK):
                    gaps.append(_round(cluster, load, rng, totals))
                    if time.monotonic() >= deadline:
                        break
            check_history_and_replicas(cluster, load, TOPIC, PARTITIONS, deleting=True)
            totals["deleted up to"] = sum(ends(cluster, TOPIC, index)[0] for index in range(PARTITIONS))
            totals["acknowledged"] += load.acked
    return {"seed": seed, **totals, "longest gap s": round(max(gaps), 2)}


def _round(cluster: NetworkedCluster, load: Load, rng: random.Random, totals: Counter[str]) -> float:
    """One fault and its end; the longest time without any acknowledgement."""
    load.go_on_everywhere(AFTER_FAULT)
    fault, begun = rng.choice(FAULTS), time.monotonic()
    victim = cluster.active_controller() if rng.random() < 0.3 else cluster.leader(TOPIC, rng.randrange(PARTITIONS))
    totals[fault] += 1
    totals["rounds"] += 1
    if fault == "kill":
        cluster.kill(victim)
    elif fault == "pause":
        cluster.pause(victim)
    elif fault == "stop":
        cluster.stop(victim)
    elif fault == "cut from nodes":
        cluster.cut_from_nodes(victim)
    else:
        cluster.cut_from_all(victim)
    wait_for(lambda: _others_lead(cluster, victim), f"other leaders after {fault} of node {victim}", 60)
    if rng.random() < 0.7:
        load.go_on_everywhere(AFTER_FAULT)
    cluster.heal()
    cluster.resume_all()
    cluster.up()
    cluster.wait_in_sync(TOPIC, PARTITIONS)
    gap = load.longest_gap_s(begun)
    print(f"{fault} of node {victim}: longest gap {gap:.2f} s", flush=True)
    return gap


def _others_lead(cluster: NetworkedCluster, victim: int) -> bool:
    return all(cluster.partition(TOPIC, index).leader not in (victim, -1) for index in range(PARTITIONS))
