"""How long writing stops when a node is lost, over many kills. Kafka's default timeouts (9 s session).

One partition of three replicas, an idempotent producer (librdkafka) with acks=all. Each time a node is killed with
kill -9: the leader, the active controller, or the node that is both. The gap is the longest time without an
acknowledgement. Then the node is started again, and the next kill waits until it is in sync. 100 kills of each kind
take half an hour; ROOKERY_BENCH_KILLS=10 takes three minutes. Last, the leader is paused (SIGSTOP) a few times.
"""

import os
import time
from collections.abc import Sequence

from tests.cluster.load import Load
from tests.cluster.local import LocalCluster, local_cluster, wait_for

KILLS = int(os.environ.get("ROOKERY_BENCH_KILLS", "100"))
PAUSES = max(1, KILLS // 20)
AIM_S = 1.5
PAUSE_AIM_S = 2.0
SESSION_S = 9.0
TOPIC = "bench"
LEADER, BOTH, CONTROLLER = "leader", "leader and controller", "controller"


def gap(cluster: LocalCluster, load: Load, victim: int, *, paused: bool = False) -> float:
    """Take a node away, wait until writing goes on, bring it back; the longest silence."""
    begun = time.monotonic()
    cluster.pause(victim) if paused else cluster.kill(victim)
    if paused:  # nothing is known of it before its session ends
        wait_for(lambda: cluster.leader(TOPIC) != victim, "another leader", 60)
    goal = load.acked + 200
    wait_for(lambda: load.acked >= goal, "writing to go on", 60)
    found = load.longest_gap_s(begun)
    if paused:
        cluster.resume(victim)
    else:
        cluster.up()
    cluster.wait_in_sync(TOPIC)
    return found


def choose(cluster: LocalCluster, done: dict[str, list[float]]) -> tuple[str, int]:
    """Whom to kill: of the kinds that are there now, the one with the fewest kills so far."""
    leader, controller = cluster.leader(TOPIC), cluster.active_controller()
    there = {BOTH: leader} if leader == controller else {LEADER: leader, CONTROLLER: controller}
    kind = min(there, key=lambda each: len(done[each]))
    return kind, there[kind]


def show(title: str, values: Sequence[float], aim_s: float) -> None:
    ordered = sorted(values)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99))
    verdict = "met" if p99 <= aim_s else "MISSED"
    figures = f"p50 {p50:.2f}  p99 {p99:.2f}  max {ordered[-1]:.2f} s of {len(ordered)}"
    print(f"{title:<34} {figures}; goal p99 <= {aim_s:g} s: {verdict}", flush=True)


def main() -> None:
    with local_cluster(3) as cluster:
        cluster.create_topic(TOPIC, 1, 3, {"min.insync.replicas": "2"})
        cluster.wait_in_sync(TOPIC)
        done: dict[str, list[float]] = {LEADER: [], BOTH: [], CONTROLLER: []}
        with Load(cluster, TOPIC, 1) as load:
            wait_for(lambda: load.acked > 200, "the load to run")
            while any(len(values) < KILLS for values in done.values()):
                kind, victim = choose(cluster, done)
                done[kind].append(gap(cluster, load, victim))
            paused = [gap(cluster, load, cluster.leader(TOPIC), paused=True) for _ in range(PAUSES)]
        if load.errors or load.history.anomalies():
            raise RuntimeError(f"not clean: {load.errors[:3]} {load.history.anomalies()[:3]}")
    for kind, values in done.items():
        show(f"kill -9 of a {kind}", values, AIM_S)
    show("SIGSTOP of a leader", paused, SESSION_S + PAUSE_AIM_S)
