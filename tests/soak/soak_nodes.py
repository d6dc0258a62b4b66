"""Searches simulated nodes: fresh seeds without a violation, on all cores, and for each planted bug seeds that find it.

    python -m tests.soak --seconds 3600 nodes
    python -m tests.soak.soak_nodes [planted bug ...]     search for these, or for all, where the recorded seeds
                                                          notice them no longer: any change of the code changes that
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from random import Random

from tests.simulation.controller_rules import Violation
from tests.simulation.nodes_kinds import KINDS, draw_nodes
from tests.simulation.nodes_mutants import BY_NAME, MUTANTS
from tests.simulation.nodes_planting import Mutant
from tests.simulation.nodes_run import Simulation
from tests.simulation.nodes_swarm import draw_voter_work
from tests.soak import SearchFailed

KILLS = Path(__file__).parent.parent / "simulation" / "nodes_kills.json"
SEEDS_MAX = 300
KEPT = 3
"""Seeds recorded for each planted bug, as the first may no longer notice it when the code has changed."""
MORE = 20
"""How far the search for further ones goes."""
FRESH_FROM = 1_000_000
FAULTS_MIN = 10
CHUNK = 5
HOURS_EVERY = 5
"""Which seeds may take hours: they cost two to three times as much as those of minutes and have as many faults."""
VOTER_WORK_EVERY = 3
"""In which seeds voters come and go too."""
SEARCH_S = 300.0
"""For one planted bug."""
Totals = dict[str, float]


def search(mutant: Mutant, deadline: float) -> dict[str, object] | None:
    """The first seeds that notice a planted bug; None if none did within the time."""
    kills: list[int] = []
    first: dict[str, object] = {}
    for seed in range(1, SEEDS_MAX + 1):
        if time.monotonic() > deadline or (kills and seed > kills[0] + MORE):
            break
        found = mutant.noticed_by(seed)
        if found is not None and found in mutant.invariants and mutant.broken_by(seed) is None:
            kills.append(seed)
            first = first or {"tried": seed, "by": found}
            if len(kills) == KEPT:
                break
    return {"seeds": kills, **first} if kills else None


def recorded() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(KILLS.read_text()) if KILLS.exists() else {}
    return found


def seeds_of(name: str) -> list[int]:
    found = recorded().get(name, {}).get("seeds", [])
    assert isinstance(found, list)
    return found


def record(kills: dict[str, dict[str, object]]) -> None:
    KILLS.write_text(json.dumps(dict(sorted(kills.items())), indent=1) + "\n")


def seed_of_some_length(seed: int) -> Simulation:
    """A seed with at least so many faults: where it drew fewer, they come sooner. All kinds take turns."""
    kind, turn = list(KINDS)[seed % len(KINDS)], seed // len(KINDS)
    if kind == "nodes":
        swarm = draw_nodes(seed, minutes=turn % HOURS_EVERY > 0)
        if turn % VOTER_WORK_EVERY == 0:
            draw_voter_work(Random(f"{seed} voters"), swarm)
    else:
        swarm = KINDS[kind](seed)
    swarm.fault_s = min(swarm.fault_s, swarm.duration_s / (2 * FAULTS_MIN))
    return Simulation(seed, swarm)


def run_some(first: int) -> tuple[Totals, list[str]]:
    """A few seeds, in a process of its own."""
    totals: Totals = {"seeds": 0, "faults": 0, "simulated_s": 0.0, "events": 0, "cpu_s": 0.0, "acked": 0, "days": 0}
    totals |= dict.fromkeys(KINDS, 0)
    violations = []
    for seed in range(first, first + CHUNK):
        begun = time.process_time()
        simulation = seed_of_some_length(seed)
        try:
            simulation.run()
        except Violation as violation:
            violations.append(f"{simulation.kind} {violation}"[:500])
        totals["seeds"] += 1
        totals[simulation.kind] += 1
        totals["days"] += simulation.swarm.days
        totals["faults"] += simulation.nemesis.actions
        totals["simulated_s"] += simulation.world.loop.time()
        totals["events"] += simulation.world.loop.events
        totals["acked"] += simulation.world.oracles.counts.get("acked", 0)
        totals["cpu_s"] += time.process_time() - begun
    return totals, violations


def chunks(first: int, until: float) -> Iterator[int]:
    while time.monotonic() < until:
        yield first
        first += CHUNK


def main(budget_s: float) -> dict[str, object]:
    until = time.monotonic() + budget_s
    first = FRESH_FROM + int(time.time()) % 1_000_000_000
    totals: Totals = {}
    violations: list[str] = []
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers) as pool:
        starts = chunks(first, until)
        running = {pool.submit(run_some, start) for start in (next(starts) for _ in range(workers))}
        while running:
            done = next(as_completed(running))
            running.remove(done)
            found, broken = done.result()
            totals = {key: totals.get(key, 0) + value for key, value in found.items()}
            violations += broken
            start = next(starts, None)
            if start is not None:
                running.add(pool.submit(run_some, start))
    hours = round(totals["simulated_s"] / 3600, 2)
    result: dict[str, object] = {key: round(value, 1) for key, value in totals.items()}
    result |= {"simulated_hours": hours, "violations": len(violations), "first_seed": first, "mutants": len(MUTANTS)}
    if violations:
        raise SearchFailed(result, f"{len(violations)} violations: {' | '.join(violations)[:3000]}")
    return result


def search_if_stale(name: str, seeds: list[int]) -> tuple[bool, dict[str, object] | None, float]:
    """Whether the recorded seeds of a planted bug still notice it; if none does, others. In a process of its own."""
    begun, mutant = time.process_time(), BY_NAME[name]
    holds = any(mutant.noticed_by(seed) in mutant.invariants for seed in seeds)
    return holds, None if holds else search(mutant, time.monotonic() + SEARCH_S), time.process_time() - begun


def search_all(names: list[str]) -> list[str]:
    """Record new seeds; the bugs for which there are none."""
    lost: list[str] = []
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = {pool.submit(search_if_stale, name, seeds_of(name)): name for name in names}
        for job in as_completed(jobs):
            name, (holds, found, cpu_s) = jobs[job], job.result()
            print(f"{name}: {'still noticed' if holds else found} {cpu_s:.1f} s", flush=True)
            if found is not None:
                record({**recorded(), name: found})
            elif not holds:
                lost.append(name)
    return lost


if __name__ == "__main__":
    nobody_notices = search_all(sys.argv[1:] or list(BY_NAME))
    sys.exit(f"not noticed by any seed: {nobody_notices}" if nobody_notices else 0)
