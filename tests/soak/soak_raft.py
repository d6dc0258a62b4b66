"""Searches the Raft simulator: fresh seeds without a bug, then a killing seed for every planted one.

`python -m tests.soak.soak_raft` writes the killing seeds to tests/simulation/raft_kills.json, from where CI
replays them.
"""

import json
import random
import sys
import time
from pathlib import Path

from tests.simulation.raft_mutants import MUTANTS, Mutant
from tests.simulation.raft_oracles import Violation
from tests.simulation.raft_run import Simulation

KILLS = Path(__file__).parent.parent / "simulation" / "raft_kills.json"
SEEDS_MAX = 500
"""A planted bug must show within so many seeds."""


def kill(mutant: Mutant) -> tuple[int, Violation]:
    """The first seed that shows the bug by one of the invariants it should break."""
    for seed in range(SEEDS_MAX):
        violation = mutant.run(seed).violation
        if violation is not None:
            if violation.invariant not in mutant.invariants:
                raise AssertionError(f"{mutant.name}: seed {seed} shows it by {violation}, not by {mutant.invariants}")
            return seed, violation
    raise AssertionError(f"{mutant.name} survives {SEEDS_MAX} seeds")


def search_kills() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, mutant in MUTANTS.items():
        seed, violation = kill(mutant)
        found[name] = {"seed": seed, "invariant": violation.invariant}
        print(f"{name}: seed {seed}, {violation.invariant}", file=sys.stderr, flush=True)
    return found


def main(budget_s: float) -> dict[str, object]:
    """Fresh seeds for the time that killing all mutants leaves."""
    begun = time.monotonic()
    kills = search_kills()
    first = random.SystemRandom().randrange(10**6, 10**9)
    seed, simulated_ms, elections, records = first, 0.0, 0, 0
    while time.monotonic() - begun < budget_s:
        verdict = Simulation(seed).run()
        if verdict.violation is not None:
            raise AssertionError(str(verdict))
        simulated_ms += verdict.simulated_ms
        elections += verdict.elections
        records += verdict.committed
        seed += 1
    return {
        "seeds": [first, seed],
        "simulated_hours": round(simulated_ms / 3_600_000, 2),
        "elections": elections,
        "records": records,
        "mutants_killed": {name: kill["seed"] for name, kill in kills.items()},
    }


if __name__ == "__main__":
    KILLS.write_text(json.dumps(search_kills(), indent=1) + "\n")
