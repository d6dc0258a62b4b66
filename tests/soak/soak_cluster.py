"""Searches the simulated cluster: fresh seeds without a violation, and for each planted bug seeds that find it.

    python -m tests.soak.soak_cluster [name of a planted bug ...]     search these anew and record what kills them
"""

import json
import sys
import time
from pathlib import Path

from tests.simulation.cluster_mutants import BY_NAME, MUTANTS, Mutant
from tests.simulation.cluster_oracles import Violation
from tests.simulation.cluster_run import run

KILLS = Path(__file__).parent.parent / "simulation" / "cluster_kills.json"
SEEDS_MAX = 500
KEPT = 2
"""Killing seeds recorded for each planted bug, as the first may no longer kill when the code has changed."""
MORE = 12
"""How far the search for further ones goes."""
FRESH_FROM = 1_000_000
MUTANTS_SHARE = 0.5


def recorded() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(KILLS.read_text()) if KILLS.exists() else {}
    return found


def search(mutant: Mutant, deadline: float) -> dict[str, object] | None:
    """The first seeds that kill a mutant; None if none did within the time or 500 seeds."""
    kills: list[int] = []
    first: dict[str, object] = {}
    for seed in range(1, SEEDS_MAX + 1):
        if time.monotonic() > deadline or (kills and seed > kills[0] + MORE):
            break
        found = mutant.noticed_by(seed)
        if found is not None:
            kills.append(seed)
            first = first or {"tried": seed, "by": found}
            if len(kills) == KEPT:
                break
    return {"seeds": kills, **first} if kills else None


def record(kills: dict[str, dict[str, object]]) -> None:
    KILLS.write_text(json.dumps(dict(sorted(kills.items())), indent=1) + "\n")


def main(budget_s: float) -> dict[str, object]:
    begun = time.monotonic()
    kills, missed = recorded(), []
    for mutant in MUTANTS:
        if mutant.name not in kills:
            found = search(mutant, begun + budget_s * MUTANTS_SHARE)
            if found is None:
                missed.append(mutant.name)
            else:
                kills[mutant.name] = found
    totals = {"seeds": 0, "simulated_s": 0.0, "acked": 0, "read": 0}
    seed = FRESH_FROM + int(time.time()) % 1_000_000_000
    while time.monotonic() < begun + budget_s:
        result = run(seed)
        seed += 1
        totals["seeds"] += 1
        totals["simulated_s"] += result.simulated_s
        totals["acked"] += result.acked
        totals["read"] += result.read
    if missed:
        raise Violation(f"no seed found these planted bugs: {', '.join(missed)}")
    return {**totals, "mutants": len(MUTANTS), "first_seed": seed - totals["seeds"]}


if __name__ == "__main__":
    for name in sys.argv[1:] or list(BY_NAME):
        known = recorded()
        started = time.process_time()
        outcome = search(BY_NAME[name], time.monotonic() + 400.0)
        print(f"{name}: {outcome} {time.process_time() - started:.1f} s", flush=True)
        if outcome is not None:
            record({**known, name: outcome})
