"""What a simulated second of whole nodes costs: seeds of minutes and seeds of hours, one process."""

import time
from random import Random

from tests.simulation.nodes_run import Simulation
from tests.simulation.nodes_swarm import Swarm, draw

SEEDS = 12


def seeds(*, days: bool) -> list[tuple[int, Swarm]]:
    drawn = ((seed, draw(Random(f"{seed} nodes"))) for seed in range(1, 200))
    found = [(seed, swarm) for seed, swarm in drawn if swarm.days is days]
    return found[: SEEDS // 4 if days else SEEDS]


def main() -> None:
    titles = ("simulated s", "CPU s", "simulated s/CPU s", "events/CPU s", "CPU s/seed")
    print("{:>8} {:>12} {:>7} {:>18} {:>13} {:>11}".format("seeds", *titles))
    for name, days in (("minutes", False), ("hours", True)):
        simulated = events = 0.0
        begun, chosen = time.process_time(), seeds(days=days)
        for seed, swarm in chosen:
            result = Simulation(seed, swarm).run()
            simulated += result.simulated_s
            events += result.events
        took = time.process_time() - begun
        print(
            f"{name:>8} {simulated:12.0f} {took:7.1f} {simulated / took:18.1f} {events / took:13.0f} "
            f"{took / len(chosen):11.2f}"
        )


if __name__ == "__main__":
    main()
