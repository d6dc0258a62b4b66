"""Real voters under random faults: killed, frozen, stopped, all at once, with snapshots in between."""

import random
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.cluster.quorum import Quorum, VoterProcess, eventually, quorum

ROUND_S = 60.0


def main(budget_s: float) -> dict[str, object]:
    """Rounds of faults against fresh quorums until the time is over; raises on the first thing lost."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    deadline, totals = time.monotonic() + budget_s, Counter[str]()
    while time.monotonic() < deadline:
        with tempfile.TemporaryDirectory(prefix="soak-quorum-") as folder:
            _round(Path(folder), rng, min(deadline, time.monotonic() + ROUND_S), totals)
        totals["rounds"] += 1
    return {"seed": seed, **totals}


def _round(folder: Path, rng: random.Random, deadline: float, totals: Counter[str]) -> None:
    with quorum(folder, rng.choice((3, 3, 5))) as voters:
        while time.monotonic() < deadline:
            voters.propose(rng.randrange(1, 30), within_s=60)
            fault = rng.choice(("kill", "kill", "freeze", "stop", "all", "snapshot"))
            totals[fault] += 1
            _hurt(voters, fault, rng)
        _heal(voters)
        voters.check()
        totals["acknowledged"] += len(voters.acknowledged)
        totals["epochs"] += len(voters.leads())


def _hurt(voters: Quorum, fault: str, rng: random.Random) -> None:
    """One fault; at most a minority is away for long, or everybody at once and not for long."""
    leader = voters.leader()
    victim = leader if rng.random() < 0.7 else rng.choice(voters.voters)
    if fault == "snapshot":
        victim.ask(do="snapshot")
        return
    if fault == "all":
        for voter in voters.voters:
            voter.kill()
    elif fault == "freeze":
        victim.pause()
    elif fault == "stop":
        victim.stop(30)
    else:
        victim.kill()
    if fault != "all":
        voters.propose(rng.randrange(1, 5), within_s=60)
    _heal(voters)


def _heal(voters: Quorum) -> None:
    for voter in voters.voters:
        if voter.paused:
            voter.resume()
        elif not voter.alive:
            voter.start()
    for voter in voters.voters:
        eventually(f"voter {voter.node_id} answers", partial(_answers, voter), within_s=60)


def _answers(voter: VoterProcess) -> bool:
    return voter.look() is not None
