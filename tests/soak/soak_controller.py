"""Search for a history that breaks the controller, for as long as there is time."""

import logging
import random
import time
from collections import Counter
from itertools import count

from tests.simulation.controller_mutants import MUTANTS
from tests.simulation.controller_world import World

STEPS = 600


def main(budget_s: float) -> dict[str, object]:
    logging.getLogger("rookery").setLevel(logging.CRITICAL)
    until = time.monotonic() + budget_s
    first = random.SystemRandom().randrange(2**40)
    counts: Counter[str] = Counter()
    simulated_s = 0.0
    for seed in count(first):
        if time.monotonic() > until:
            break
        world = World(seed)
        try:
            world.run(STEPS)
            world.heal()
        except Exception as error:
            raise RuntimeError(f"seed {seed}: {error}") from error
        counts += world.counts
        counts["elections"] += world.observer.elections
        counts["batches"] += world.log.committed
        counts["seeds"] += 1
        simulated_s += world.clock.monotonic()
    return {
        "first_seed": first,
        "seeds": counts["seeds"],
        "simulated_hours": round(simulated_s / 3600, 2),
        "batches": counts["batches"],
        "elections": counts["elections"],
        "controller_activations": counts["activations"],
        "fences": counts["fences"],
        "mutants": len(MUTANTS),
    }
