"""One seed from start to end: boot, faults under load, healing, and the verdict.

    python -m tests.simulation.cluster_run 1 2 3        one line for each seed
    python -m tests.simulation.cluster_run -v 7         everything that happened
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation import seeds_command
from tests.simulation.cluster_nemesis import Nemesis
from tests.simulation.cluster_oracles import Violation
from tests.simulation.cluster_swarm import Swarm, draw
from tests.simulation.cluster_world import World

BOOT_S = 60.0
REST_S = 60.0


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    trace: str
    simulated_s: float
    events: int
    acked: int
    read: int
    counts: dict[str, int]


class Simulation:
    """Raises Violation, with the seed in its text, if anything does not hold."""

    def __init__(self, seed: int, swarm: Swarm | None = None) -> None:
        self.seed = seed
        self.swarm = swarm or draw(Random(f"{seed} swarm"))
        self.world = World(seed, self.swarm)
        self.nemesis = Nemesis(self.world)

    def run(self) -> Result:
        logger = logging.getLogger("rookery")
        level = logger.level
        if self.world.tell is None:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            with self.world.installed():
                self._run()
        except Violation as violation:
            raise Violation(f"seed {self.seed} at {self.world.loop.time():.3f} s: {violation}") from violation
        finally:
            logger.setLevel(level)
        oracles = self.world.oracles
        counts = {
            **oracles.counts,
            "faults": self.nemesis.actions,
            "lives": sum(broker.lives for broker in self.world.brokers.values()),
            "elections": self.world.observer.elections,
            "controller elections": self.world.quorum.elections,
            "metadata lost": self.world.quorum.lost,
        }
        return Result(
            self.seed,
            self.world.trace_hash,
            self.world.loop.time(),
            self.world.loop.events,
            counts.get("acked", 0),
            counts.get("read", 0),
            counts,
        )

    def _run(self) -> None:
        world = self.world
        world.start_controllers()
        for broker in world.brokers.values():
            broker.start()
        self._until(BOOT_S, self._has_booted, "all brokers run")
        self._until(BOOT_S, world.create_topics, "a controller is active")
        self._until(BOOT_S, lambda: all(map(world.image_partition, world.places)), "the topics exist")
        world.start_clients()
        self.nemesis.start()
        self._go_on(self.swarm.duration_s)
        self.nemesis.end()
        self._until(REST_S, self._has_elected, "whoever can lead does, with a broker down")
        self.nemesis.restore()
        self._until(REST_S, self._has_leaders, "every partition has a leader")
        self._go_on(1.0)
        world.quiet = True
        self._until(REST_S, lambda: all(p.idle for p in world.producers), "every producer got its answer")
        self._until(REST_S, self._is_whole, "replicas are in sync and equal")
        world.oracles.check_all()
        world.oracles.check_end()

    # --- time ------------------------------------------------------------------------------------------------

    def _go_on(self, seconds: float) -> None:
        self.world.loop.run_until(self.world.loop.time() + seconds, self._broken)
        self._check_failures()

    def _until(self, timeout_s: float, holds: Callable[[], bool], what: str) -> None:
        """Liveness: it must hold within a bounded time."""
        world = self.world
        deadline = world.loop.time() + timeout_s
        while not holds():
            if world.loop.time() >= deadline:
                raise Violation(f"liveness: not within {timeout_s:g} s: {what}; {self._state()}")
            world.loop.run_until(world.loop.time() + 0.1, self._broken)
            self._check_failures()

    def _broken(self) -> bool:
        return bool(self.world.loop.failures or self.world.exits)

    def _check_failures(self) -> None:
        for message, error in self.world.loop.failures:
            seeds_command.raise_inner(error)
            raise Violation(f"unhandled: {message}: {error!r}") from error
        for broker, error in self.world.exits:
            seeds_command.raise_inner(error)
            raise Violation(f"broker {broker} failed: {error!r}") from error

    # --- the end ---------------------------------------------------------------------------------------------

    def _has_booted(self) -> bool:
        return all(b.ready and self.world.observer.image.active(b.id) for b in self.world.brokers.values())

    def _has_elected(self) -> bool:
        """No partition is without a leader that somebody in sync, or eligible, could lead."""
        image = self.world.observer.image
        rest = [broker for broker in self.world.brokers.values() if broker.id != self.nemesis.kept_down]
        if not all(broker.ready and image.active(broker.id) for broker in rest):
            return False
        found = [partition for partition in map(self.world.image_partition, self.world.places) if partition is not None]
        return all(p.leader >= 0 or not any(map(image.active, p.isr + p.elr)) for p in found)

    def _has_leaders(self) -> bool:
        return all(
            partition is not None and partition.leader >= 0 and self.world.brokers[partition.leader].ready
            for partition in map(self.world.image_partition, self.world.places)
        )

    def _is_whole(self) -> bool:
        world = self.world
        for place in world.places:
            partition = world.image_partition(place)
            if partition is None or set(partition.isr) != set(partition.replicas):
                return False
            logs = [world.brokers[node].log(place) for node in partition.replicas]
            bounds = {(log.end_offset, log.high_watermark) for log in logs if log is not None}
            if len(bounds) != 1 or len({bound for pair in bounds for bound in pair}) != 1:
                return False
        return True

    def _state(self) -> str:
        world = self.world
        lines = []
        for place in world.places:
            logs = {n: b.log(place) for n, b in world.brokers.items()}
            ends = {n: (log.high_watermark, log.end_offset) for n, log in logs.items() if log is not None}
            lines.append(f"{place}: {world.image_partition(place)} (watermark, end) {ends}")
        brokers = {n: (b.up, b.ready, world.observer.image.active(n)) for n, b in world.brokers.items()}
        return "; ".join([*lines, f"brokers (up, ready, active) {brokers}"])


def run(seed: int) -> Result:
    return Simulation(seed).run()


if __name__ == "__main__":
    seeds_command.main(Simulation, sys.argv[1:])
