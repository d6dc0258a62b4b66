"""Bugs that are planted in the real code while whole nodes are simulated, and what must notice them.

A mutant replaces functions while it is planted; nothing of it is in the product. `tests/soak/soak_nodes.py` searches
for seeds that notice each; CI replays the recorded ones.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.simulation.controller_rules import Violation
from tests.simulation.nodes_kinds import PLAIN
from tests.simulation.nodes_run import Simulation
from tests.simulation.nodes_swarm import Swarm

LOSS = (
    "P1", "P2", "P4", "P5", "P7", "T2", "inconsistent-offsets", "poll-skip", "duplicate", "order", "phantom", "deleted",
)  # fmt: skip
"""Once a copy lacks records, chance decides which of these notices first."""
BROKEN = ("node-failed", "unhandled", "liveness", "S4")
QUORUM = ("R1", "R3", "R6", "M1", "M3", "M7", "M12", "node-failed", "unhandled", "liveness")
PATIENCE_S = 45.0
"""How long what must come to an end may take in seeds of transactions and groups."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    bug: str
    invariants: tuple[str, ...]
    """Which of them may notice it first."""
    patches: tuple[tuple[Any, str, Any], ...]
    aim: Callable[[Swarm], None] = lambda swarm: None
    """Changes what a seed drew, towards what the bug needs."""
    kind: str = "nodes"
    """Of the seeds that can find it."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, replacement in self.patches:
                stack.enter_context(patch.object(owner, name, replacement))
            yield

    def noticed_by(self, seed: int) -> str | None:
        """The invariant that a seed finds broken, if it does."""
        with self.planted():
            return self.broken_by(seed)

    def broken_by(self, seed: int) -> str | None:
        """The same as the code is now: without the bug, None."""
        swarm = PLAIN[self.kind](seed)
        self.aim(swarm)
        simulation = Simulation(seed, swarm)
        if self.kind != "nodes":
            simulation.patience_s = PATIENCE_S
        try:
            simulation.run()
        except Violation as violation:
            return str(violation).partition(" s: ")[2].partition(":")[0].split(" ")[0]
        return None
