"""Whole nodes in virtual time: no seed may fail, a seed is the same run in every process, planted bugs are noticed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.nodes_mutants import BY_NAME, MUTANTS
from tests.simulation.nodes_run import run

ROOT = Path(__file__).parent.parent.parent
KILLS = json.loads((Path(__file__).parent / "nodes_kills.json").read_text())
SLICES = 6
SEEDS_PER_SLICE = 2
FIRST_SEED = 1


@pytest.mark.row(57, 59, 60, 61, 63, 64, 65, 66, 67)
@pytest.mark.invariant("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15")
@pytest.mark.invariant("M3", "M4", "M5", "M8", "M9", "R1", "R3", "R15", "T1", "T2", "T3", "S4")
@pytest.mark.parametrize("part", range(SLICES))
def test_no_seed_breaks_a_promise(part: int) -> None:
    """A violation names its seed: ``python -m tests.simulation.nodes_run -v SEED`` shows how it came about."""
    first = FIRST_SEED + part * SEEDS_PER_SLICE
    results = [run(seed) for seed in range(first, first + SEEDS_PER_SLICE)]
    assert sum(result.counts.get("acked", 0) for result in results) > 50, "too little to show anything"


@pytest.mark.parametrize("name", sorted(KILLS))
def test_planted_bug_is_noticed(name: str) -> None:
    """By one of the seeds that noticed it when they were recorded."""
    mutant, seeds = BY_NAME[name], KILLS[name]["seeds"]
    found = next(filter(None, map(mutant.noticed_by, seeds)), None)
    assert found is not None, f"no longer noticed: run python -m tests.soak.soak_nodes '{name}'"
    assert found in mutant.invariants


def test_enough_bugs_are_planted() -> None:
    assert len(KILLS) >= 30
    assert set(KILLS) == set(BY_NAME), "every planted bug has seeds that notice it"


def test_planted_bugs_leave_no_trace() -> None:
    """The real code is whole again when a bug is taken out, and is another while it is planted."""
    for mutant in MUTANTS:
        real = [getattr(owner, name) for owner, name, _ in mutant.patches]
        with mutant.planted():
            for (owner, name, _), before in zip(mutant.patches, real, strict=True):
                assert getattr(owner, name) is not before, (mutant.name, name)
        assert [getattr(owner, name) for owner, name, _ in mutant.patches] == real


def run_elsewhere(seeds: list[int], hash_seed: str) -> list[str]:
    """What seeds leave behind in another process: seed and hash of everything that happened."""
    output = subprocess.run(
        [sys.executable, "-m", "tests.simulation.nodes_run", *map(str, seeds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    return [" ".join(line.split()[:2]) for line in output.splitlines()]


def test_same_seed_same_run_in_any_process() -> None:
    seeds = [1, 2, 3]
    here = [f"{seed}: {run(seed).trace}" for seed in seeds]
    assert run_elsewhere(seeds, "1") == here
    assert run_elsewhere(seeds, "2") == here
