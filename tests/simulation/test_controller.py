"""The controller among brokers that come, go, lag and lie: invariants after every step, and a cluster at rest in
the end. Each planted bug is found."""

import pytest

from rookery.core.metadata.snapshot import state_hash
from tests.simulation.controller_mutants import MUTANTS, Mutant
from tests.simulation.controller_world import World

STEPS = 300


def trace(seed: int) -> tuple[str, int, dict[str, int]]:
    world = World(seed)
    world.run(STEPS)
    world.heal()
    return state_hash(world.observer.image), world.log.end, dict(world.counts)


@pytest.mark.row(65, 67, 69, 70, 74, 77, 79, 80)
@pytest.mark.invariant("M1", "M2", "M3", "M4", "M5", "M7", "M8", "M9", "M10", "M11", "M12")
@pytest.mark.parametrize("seed", range(12))
def test_invariants_hold_whatever_happens(seed: int) -> None:
    world = World(seed)
    world.run(STEPS)
    world.heal()
    assert world.observer.elections > 0
    assert world.counts["activations"] > 1
    assert world.observer.compared > 0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_planted_bugs_are_found(mutant: Mutant) -> None:
    with mutant.plant(), pytest.raises((AssertionError, RuntimeError)):
        trace(mutant.seed)


def test_a_seed_is_a_whole_history() -> None:
    assert trace(3) == trace(3)
