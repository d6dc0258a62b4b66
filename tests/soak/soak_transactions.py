"""Transactions of several clients on real nodes under random faults: killed, frozen, stopped, and cut off from the
other nodes or from everybody. The checker of histories judges each few minutes of it on topics of their own."""

import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.cluster.local import wait_for
from tests.cluster.networked import NetworkedCluster, networked_cluster
from tests.cluster.transaction_load import OPTIONS, TransactionLoad, create_topics, heal, leader_of_state

ROUNDS_PER_CHECK = 8
AFTER_FAULT = 8
WRITERS = ("confluent", "java", "franz-go")
PROCESSORS = ("java", "confluent")
FAULTS = ("kill", "kill", "pause", "stop", "cut from nodes", "cut from all")
HISTORY = Path(__file__).parents[2] / "build" / "transactions.jsonl"
"""The last history, for the checker's command line; a failure leaves it there."""


def main(budget_s: float) -> dict[str, object]:
    """Faults until the time is over; raises on the first thing that must not be."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    rng, deadline, totals = random.Random(seed), time.monotonic() + budget_s, Counter[str]()
    HISTORY.parent.mkdir(exist_ok=True)
    with networked_cluster(3, **OPTIONS) as cluster:
        while time.monotonic() < deadline:
            suffix = f"-{totals['checks']}"
            create_topics(cluster, len(PROCESSORS), suffix)
            with TransactionLoad(cluster, list(WRITERS), list(PROCESSORS), rng.randrange(1 << 32), suffix) as load:
                for _ in range(ROUNDS_PER_CHECK):
                    _round(cluster, load, rng, totals)
                    if time.monotonic() >= deadline:
                        break
            report = load.judged(HISTORY)
            totals["checks"] += 1
            totals.update(report.counts)
            for worker in load.workers:
                totals.update(worker.notes)
            print(dict(report.counts), flush=True)
            if report.findings:
                raise AssertionError(f"seed {seed}: {len(report.findings)} findings, {report.findings[:5]}")
    return {"seed": seed, **totals}


def _round(cluster: NetworkedCluster, load: TransactionLoad, rng: random.Random, totals: Counter[str]) -> None:
    """One fault and its end."""
    load.go_on(AFTER_FAULT)
    fault = rng.choice(FAULTS)
    coordinator = rng.random() < 0.6
    worker = rng.choice(load.workers)
    victim = leader_of_state(cluster, worker.name) if coordinator else cluster.leader(*rng.choice(load.places))
    totals[fault] += 1
    totals["rounds"] += 1
    faults = {
        "kill": cluster.kill,
        "pause": cluster.pause,
        "stop": cluster.stop,
        "cut from nodes": cluster.cut_from_nodes,
        "cut from all": cluster.cut_from_all,
    }
    begun = time.monotonic()
    faults[fault](victim)
    wait_for(partial(_others_lead, cluster, load, victim), f"other leaders after {fault} of node {victim}")
    if rng.random() < 0.7:
        load.go_on(AFTER_FAULT)
    heal(cluster, load)
    print(f"{fault} of node {victim}: {time.monotonic() - begun:.1f} s", flush=True)


def _others_lead(cluster: NetworkedCluster, load: TransactionLoad, victim: int) -> bool:
    return all(cluster.partition(topic, index).leader not in (victim, -1) for topic, index in load.places)
