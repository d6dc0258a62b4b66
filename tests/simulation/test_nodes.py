"""Whole nodes in virtual time: no seed may fail, a seed is the same run in every process, planted bugs are noticed."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.simulation.nodes_kinds import EPOCHS, draw_transactions
from tests.simulation.nodes_mutants import BY_NAME, MUTANTS
from tests.simulation.nodes_run import Simulation, run
from tests.simulation.nodes_swarm import VOTER_WORK, draw, draw_voter_work

ROOT = Path(__file__).parent.parent.parent
KILLS = json.loads((Path(__file__).parent / "nodes_kills.json").read_text())
SLICES = 6
SEEDS_PER_SLICE = 2
FIRST_SEED = 1
VOTER_SEEDS = range(7, 19)
"""Run in turn until all that is done to voters has been done."""
TRANSACTION_SEEDS = (1, 2)
STRUCK_SEEDS = (2, 3, 1)
STEPS = {
    "InitProducerId": ("coordinator",),
    "Produce": ("coordinator", "leader"),
    "TxnOffsetCommit": ("coordinator", "coordinator of the group"),
    "EndTxn": ("coordinator", "leader"),
}
"""Of transactions, and who is killed after each."""
OLD_STEPS = STEPS | {
    "AddPartitionsToTxn": ("coordinator", "leader"),
    "AddOffsetsToTxn": ("coordinator", "coordinator of the group"),
}
CONSUMER_SEEDS = (2, 10)
CLIENT_SEEDS = (1, 4, 7)
OTHERS = 40
"""How many more seeds are tried for a planted bug. They cost nothing as long as the recorded ones notice it."""


@pytest.mark.row(57, 59, 60, 61, 63, 64, 65, 66, 67)
@pytest.mark.invariant("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15")
@pytest.mark.invariant("M3", "M4", "M5", "M8", "M9", "R1", "R3", "R15", "T1", "T2", "T3", "S4")
@pytest.mark.parametrize("part", range(SLICES))
def test_no_seed_breaks_a_promise(part: int) -> None:
    """A violation names its seed: ``python -m tests.simulation.nodes_run -v SEED`` shows how it came about."""
    first = FIRST_SEED + part * SEEDS_PER_SLICE
    results = [run(seed) for seed in range(first, first + SEEDS_PER_SLICE)]
    assert sum(result.counts.get("acked", 0) for result in results) > 50, "too little to show anything"


@pytest.mark.invariant("R12", "R13", "R18")
def test_voters_come_and_go() -> None:
    """Votes are taken and given back, a controller gets an empty disk, and one whose metadata rots, while it is down or
    leads, is rebuilt."""
    done: Counter[str] = Counter()
    for seed in VOTER_SEEDS:
        missing = [work for work in VOTER_WORK if not done[work]]
        if not missing:
            break
        swarm = draw(Random(f"{seed} nodes"), minutes=True)
        draw_voter_work(Random(f"{seed} voters"), swarm)
        if len(missing) < len(VOTER_WORK):
            swarm.voter_work, swarm.voter_work_s = dict.fromkeys(missing, 1.0), 1.0
        done.update(Simulation(seed, swarm).run().counts)
    assert all(done[work] > 0 for work in VOTER_WORK)
    assert done["refused damaged metadata"] >= done["rot_metadata"] + done["rot_live_metadata"]


@pytest.mark.row(132, 133, 134, 135, 137)
@pytest.mark.invariant("T2", "T6", "T7", "T8", "T9", "T10", "T11", "T12")
def test_no_seed_breaks_a_transaction() -> None:
    """``python -m tests.simulation.nodes_run transactions -v SEED`` shows how a violation came about."""
    counts = _counts(TRANSACTION_SEEDS, "transactions")
    assert counts["commits"] > 20, "too little to show anything"
    assert counts["aborts"] > 4
    assert counts["history: committed"] > 20


@pytest.mark.invariant("T7", "T8", "T9", "T10", "T11")
@pytest.mark.parametrize(("version", "seconds", "steps"), [(1, 30.0, OLD_STEPS), (2, 20.0, STEPS)])
def test_nodes_are_killed_between_every_two_steps_of_a_transaction(
    version: int, seconds: float, steps: dict[str, tuple[str, ...]]
) -> None:
    """After each step of a client its coordinator is killed once, and once who leads what it has written to. The first
    seed is mostly enough for all of them."""
    left = {f"{step}: {role} killed" for step, roles in steps.items() for role in roles}
    for seed in STRUCK_SEEDS:
        swarm = draw_transactions(seed)
        assert swarm.transactions is not None
        swarm.duration_s, swarm.fault_s, swarm.work_s, swarm.points = seconds, 1e9, 1e9, {}
        swarm.session_ms, swarm.heartbeat_ms, swarm.lag_ms = 1500, 250, 2000
        swarm.split, swarm.brokers_more = False, 0
        swarm.transactions = replace(
            swarm.transactions, writers=1, processors=1, partitions=2, old=float(version == 1), repeats=0.1,
            pause_s=0.1, each_step=True, last_epoch=EPOCHS,
        )  # fmt: skip
        counts = Simulation(seed, swarm).run().counts
        assert counts["history: committed"] > 10, "too little to show anything"
        left -= counts.keys()
        if not left:
            break
    assert left == set(), "not struck in any seed"


@pytest.mark.invariant("G1", "G2", "G3", "G4", "G13", "G15", "G16")
def test_no_seed_gives_a_partition_to_two() -> None:
    """``python -m tests.simulation.nodes_run consumers -v SEED`` shows how a violation came about."""
    counts = _counts(CONSUMER_SEEDS, "consumers")
    assert counts["taken"] > 20, "too little to show anything"
    assert counts["committed"] > 100


@pytest.mark.row(5, 14, 17, 20, 90, 104, 105, 126, 130, 132, 137)
def test_no_seed_breaks_a_promise_of_the_python_client() -> None:
    """``python -m tests.simulation.nodes_run clients -v SEED`` shows how a violation came about."""
    counts = _counts(CLIENT_SEEDS, "clients")
    assert counts["acked"] > 150, "too little to show anything"
    assert counts["handled by clients"] > 150
    assert counts["faults"] > 6


def _counts(seeds: Sequence[int], kind: str) -> Counter[str]:
    """Of all seeds together: what one of them does depends on chance, and so on any change of the code."""
    found: Counter[str] = Counter()
    for seed in seeds:
        found.update(run(seed, kind).counts)
    return found


@pytest.mark.parametrize("name", sorted(KILLS))
def test_planted_bug_is_noticed(name: str) -> None:
    """By one of the seeds that noticed it when they were recorded. Any change of the code changes what a seed means, so
    when they are all past it, a few others are tried: a bug that none of them notices goes unnoticed."""
    mutant, seeds = BY_NAME[name], KILLS[name]["seeds"]
    others = [seed for seed in range(1, OTHERS + 1) if seed not in seeds]
    found = next(filter(None, map(mutant.noticed_by, [*seeds, *others])), None)
    assert found is not None, f"no longer noticed: run python -m tests.soak.soak_nodes '{name}'"
    assert found in mutant.invariants


def test_enough_bugs_are_planted() -> None:
    assert len(KILLS) >= 45
    assert set(KILLS) == set(BY_NAME), "every planted bug has seeds that notice it"


def test_planted_bugs_leave_no_trace() -> None:
    """The real code is whole again when a bug is taken out, and is another while it is planted."""
    for mutant in MUTANTS:
        real = [getattr(owner, name) for owner, name, _ in mutant.patches]
        with mutant.planted():
            for (owner, name, _), before in zip(mutant.patches, real, strict=True):
                assert getattr(owner, name) is not before, (mutant.name, name)
        assert [getattr(owner, name) for owner, name, _ in mutant.patches] == real


def run_elsewhere(kind: str, seeds: list[int], hash_seed: str) -> list[str]:
    """What seeds leave behind in another process: seed and hash of everything that happened."""
    output = subprocess.run(
        [sys.executable, "-m", "tests.simulation.nodes_run", kind, *map(str, seeds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    return [" ".join(line.split()[:2]) for line in output.splitlines()]


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [("nodes", [4, 5]), ("transactions", [3000]), ("consumers", [3000]), ("clients", [3])],
)
def test_same_seed_same_run_in_any_process(kind: str, seeds: list[int]) -> None:
    here = [f"{seed}: {run(seed, kind).trace}" for seed in seeds]
    assert run_elsewhere(kind, seeds, "1") == here
    assert run_elsewhere(kind, seeds, "2") == here
