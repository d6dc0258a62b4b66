"""Raft under faults, in virtual time: no seed may fail, and every planted bug must be noticed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.raft_mutants import MUTANTS
from tests.simulation.raft_run import Simulation

ROOT = Path(__file__).parent.parent.parent
KILLS = json.loads((Path(__file__).parent / "raft_kills.json").read_text())
SLICES = 20
SEEDS_PER_SLICE = 27
FIRST_SEED = 10_000


@pytest.mark.invariant("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14")
@pytest.mark.invariant("R15", "R18", "R19", "R20")
@pytest.mark.parametrize("part", range(SLICES))
def test_no_seed_breaks_an_invariant(part: int) -> None:
    first = FIRST_SEED + part * SEEDS_PER_SLICE
    for seed in range(first, first + SEEDS_PER_SLICE):
        verdict = Simulation(seed).run()
        assert verdict.violation is None, f"{verdict}\nreplay: python -m tests.simulation.raft_run {seed}"


@pytest.mark.parametrize("name", list(MUTANTS))
def test_planted_bug_is_noticed(name: str) -> None:
    kill = KILLS[name]
    verdict = MUTANTS[name].run(kill["seed"])
    assert verdict.violation is not None, f"{name} is no longer noticed by seed {kill['seed']}: search again"
    assert verdict.violation.invariant == kill["invariant"]


def test_planted_bugs_leave_no_trace() -> None:
    """The seeds that kill mutants are harmless to the real code, also after mutants ran in this process."""
    for seed in sorted({kill["seed"] for kill in KILLS.values()})[:10]:
        assert Simulation(seed).run().violation is None


def run_elsewhere(seeds: list[int], hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.raft_run", *map(str, seeds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def test_same_seed_same_run_in_any_process() -> None:
    seeds = list(range(20))
    here = "".join(f"{Simulation(seed).run()}\n" for seed in seeds)
    assert run_elsewhere(seeds, "1") == here
    assert run_elsewhere(seeds, "2") == here
