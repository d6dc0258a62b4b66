"""A seed, a quorum, faults, and a verdict: `python -m tests.simulation.raft_run SEED [MUTANT]` prints the
run."""

import sys
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.errors import RaftRefusedError
from rookery.controller.raft.messages import Message
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from tests.simulation.loop import VirtualLoop
from tests.simulation.net import Network
from tests.simulation.raft_disk import RaftDisk
from tests.simulation.raft_nemesis import Nemesis
from tests.simulation.raft_node import SimNode
from tests.simulation.raft_oracles import Oracles, Violation, ensure
from tests.simulation.raft_swarm import Swarm, draw


@dataclass(slots=True)
class Verdict:
    seed: int
    violation: Violation | None
    trace: int
    """A hash of everything that happened: the same seed gives the same."""
    simulated_ms: float
    events: int
    elections: int
    committed: int
    acknowledged: int
    counts: dict[str, int]
    recovery_ms: float = 0.0
    """From the end of all faults to progress."""

    def __str__(self) -> str:
        outcome = f"violates {self.violation}" if self.violation else "ok"
        return (
            f"seed {self.seed}: {outcome}; trace {self.trace & (2**64 - 1):016x}, {self.simulated_ms / 1000:.1f} s, "
            f"{self.events} events, {self.elections} elections, {self.committed} records"
        )


@dataclass(slots=True)
class Workload:
    """Proposals, and which of them were acknowledged."""

    proposed: int = 0
    pending: dict[tuple[int, int], int] = field(default_factory=dict)
    """(epoch, last offset) -> payload."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Last offset -> payload."""


class Simulation:
    def __init__(self, seed: int, core_type: type[RaftCore] = RaftCore, node_type: type[SimNode] = SimNode) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.swarm: Swarm = draw(self.rng)
        self.core_type = core_type
        self.faults_armed = True
        self.loop = VirtualLoop()
        self.network = Network(self.loop, self.rng, self.swarm.network, self.deliver)
        self.workload = Workload()
        self.recovery_ms = 0.0
        self.proposal_every_ms = self.swarm.proposal_every_ms
        self._trace = seed
        keys = [ReplicaKey(id, UUID(int=id + 1)) for id in range(self.swarm.voters + self.swarm.spares)]
        self.bootstrap = VoterSet(
            Voter(key if self.swarm.pinned else ReplicaKey(key.id, UNKNOWN_DIRECTORY))
            for key in keys[: self.swarm.voters]
        )
        self.oracles = Oracles(self.bootstrap)
        self.nodes = [node_type(self, key.id, RaftDisk(key)) for key in keys]
        parts = (self.loop, self.network, self.rng, self.swarm, self.nodes, self.oracles, self.bootstrap)
        self.nemesis = Nemesis(*parts)

    # -- called by nodes -------------------------------------------------------------------------------------

    def trace(self, node: int, what: int, number: int) -> None:
        self._trace = hash((self._trace, self.loop.now, node, what, number))

    def deliver(self, source: int, target: int, message: Message) -> None:
        self.trace(target, source + 10, message.epoch)
        self.nodes[target].receive(message)

    def crashed_at(self, node: SimNode, point: str) -> None:
        counts = self.nemesis.counts
        counts[point] = counts.get(point, 0) + 1
        # Back within the epoch it voted in, if the point is a vote.
        downtime_ms = 1 + 29 * self.rng.random() if "vote" in point else self.nemesis.downtime_ms()
        self.nemesis.kill(node, downtime_ms)

    def acknowledged(self, node: SimNode, offset: int) -> None:
        """What the leader's clients are told: the records below `offset` are safe."""
        workload = self.workload
        for epoch, last in [place for place in workload.pending if place[0] <= node.epoch and place[1] < offset]:
            payload = workload.pending.pop((epoch, last))
            if epoch == node.epoch:
                workload.acknowledged[last] = payload

    # -- running ---------------------------------------------------------------------------------------------

    def run(self) -> Verdict:
        violation = None
        try:
            for node in self.nodes:
                self.loop.at(self.rng.random() * 50, node.start)
            self.loop.after(100.0, self._watch)
            self.loop.after(self.swarm.proposal_every_ms, self._propose)
            self.loop.run_until(self.swarm.duration_ms)
            self._recover()
            self._check_end()
        except Violation as found:
            violation = found
        return Verdict(
            seed=self.seed,
            violation=violation,
            trace=self._trace,
            simulated_ms=self.loop.now,
            events=self.loop.steps,
            elections=len(self.oracles.leaders),
            committed=self.oracles.committed_end,
            acknowledged=len(self.workload.acknowledged),
            counts=self.nemesis.counts,
            recovery_ms=self.recovery_ms,
        )

    def _propose(self) -> None:
        self.loop.after(min(self.rng.expovariate(1.0), 3.0) * self.proposal_every_ms, self._propose)
        leaders = [node for node in self.nodes if node.is_leader and node.is_running and not node.paused]
        if not leaders:
            return
        node = self.rng.choice(leaders)
        if node.core is None:
            return
        self.workload.proposed += 1
        payload = self.workload.proposed
        try:
            count = self.rng.choice((1, 1, 3))
            last, ready = node.core.propose(node.epoch, count, payload, node.local_ms())
        except RaftRefusedError:
            return
        self.workload.pending[node.epoch, last] = payload
        node.take(ready)

    def _watch(self) -> None:
        self.loop.after(50.0, self._watch)
        patience_ms = self.swarm.config.check_quorum_timeout_ms / (1 - self.swarm.drift) + 60.0
        for node in self.nodes:
            if node.is_leader and node.is_running and not node.paused and not node.readies:
                self.oracles.on_watch(node, self.loop.now, patience_ms)

    # -- the end: without faults, all must be well again -----------------------------------------------------

    def _recover(self) -> None:
        self.nemesis.active = False
        self.faults_armed = False
        self.network.heal()
        self.network.faults = replace(self.network.faults, loss=0.0, repeat=0.0, stray=0.0)
        self.proposal_every_ms = min(self.proposal_every_ms, 50.0)
        left_out = self.nemesis.bearable_loss() if self.rng.random() < 0.5 else []
        for node in self.nodes:
            node.slow_until_ms = 0.0
            node.thaw()
            if node in left_out:
                node.crash()
            else:
                node.start()
        begun_ms = self.loop.now
        goal = self.oracles.committed_end
        config = self.swarm.config
        # Old messages may still arrive and old deadlines must pass; then it may take ten election timeouts.
        patience_ms = config.check_quorum_timeout_ms + self.swarm.network.stray_ms_max + config.fetch_timeout_ms
        patience_ms += 10 * config.election_timeout_ms
        patience_ms += 60 * (self.swarm.fsync_mean_ms + self.swarm.network.delay_mean_ms)
        alive = [node for node in self.nodes if node not in left_out]
        self.loop.run_until(begun_ms + patience_ms, lambda: self._has_progress(goal, alive))
        self.recovery_ms = self.loop.now - begun_ms
        ensure(
            self._has_progress(goal, alive),
            "R20",
            f"no leader, or no commit beyond {goal}, within {patience_ms:.0f} ms without faults",
        )

    def _has_progress(self, goal: int, alive: list[SimNode]) -> bool:
        """A leader commits new records, and everybody has them."""
        return self.oracles.committed_end > goal + 2 and all(node.applied > goal + 1 for node in alive)

    def _check_end(self) -> None:
        by_last = {kept.batch.end_offset - 1: kept.batch for kept in self.oracles.committed.values()}
        for last, payload in self.workload.acknowledged.items():
            found = by_last.get(last)
            ensure(
                found is not None and found.payload == payload,
                "R5",
                f"record {payload} was acknowledged at {last}, but there is {found}",
            )


if __name__ == "__main__":
    for seed in sys.argv[1:]:
        print(Simulation(int(seed)).run())
