"""One seed of whole nodes from start to end: boot, faults and work under load, healing, and the verdict.

    python -m tests.simulation.nodes_run 1..50          one line for each seed
    python -m tests.simulation.nodes_run -v 17          everything that happened
    python -m tests.simulation.nodes_run transactions 1..50
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from rookery.core.errors import ErrorCode
from rookery.core.testing.control import NO_PROCESS
from tests.simulation import seeds_command
from tests.simulation.controller_rules import Violation
from tests.simulation.loop import Livelock
from tests.simulation.nodes_admin import Admin
from tests.simulation.nodes_clients import Consumer, Failed, Probe, Producer
from tests.simulation.nodes_expiry import Committer, remembered
from tests.simulation.nodes_groups import Commits, Member
from tests.simulation.nodes_kinds import KINDS
from tests.simulation.nodes_nemesis import Nemesis
from tests.simulation.nodes_operator import Operator
from tests.simulation.nodes_own_load import OwnLoad
from tests.simulation.nodes_progress import Progress
from tests.simulation.nodes_rest import Rest
from tests.simulation.nodes_swarm import Swarm, draw
from tests.simulation.nodes_transaction_load import TransactionLoad
from tests.simulation.nodes_world import World

BOOT_S = 60.0
REST_S = 90.0
PROBES = 900
GOES_ON = 950


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    trace: str
    simulated_s: float
    events: int
    faults: int
    counts: dict[str, int]


class Simulation:
    """Raises Violation, with the seed in its text, if anything does not hold."""

    def __init__(self, seed: int, swarm: Swarm | None = None) -> None:
        self.seed = seed
        self.swarm = swarm or draw(Random(f"{seed} nodes"))
        self.world = World(seed, self.swarm)
        self.nemesis = Nemesis(self.world)
        self.world.victim = self.nemesis.victim
        self.admin = Admin(self.world)
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.members: list[Member] = []
        plan = self.swarm.transactions
        self.transactions = TransactionLoad(self.world, plan, self.world.transactions) if plan is not None else None
        self.group = self.world.group
        self.own = self.world.own
        self._poll_s = 1.0 if self.swarm.days else 0.1
        self.patience_s = REST_S * (4.0 if self.swarm.days else 1.0)

    @property
    def kind(self) -> str:
        """Which of the kinds of seeds this is."""
        if self.own is not None:
            return "clients"
        if self.group is not None:
            return "consumers"
        return "transactions" if self.transactions is not None else "nodes"

    def run(self) -> Result:
        logger = logging.getLogger("rookery")
        level = logger.level
        if self.world.tell is None:
            logger.setLevel(logging.CRITICAL + 1)
        try:
            with self.world.installed():
                self._run()
        except (Violation, Livelock) as violation:
            raise Violation(f"seed {self.seed} at {self.world.loop.time():.3f} s: {violation}") from violation
        finally:
            logger.setLevel(level)
        counts = {
            **self.world.oracles.counts,
            "faults": self.nemesis.actions,
            "work": self.admin.done,
            "lives": sum(node.lives for node in self.world.nodes.values()),
            "elections": self.world.observer.elections,
            "epochs": self.world.image.epoch,
            **(self.world.operator.done if self.world.operator is not None else {}),
        }
        return Result(
            self.seed,
            self.world.trace_hash,
            self.world.loop.time(),
            self.world.loop.events,
            self.nemesis.actions,
            counts,
        )

    def _run(self) -> None:
        world = self.world
        for node in world.nodes.values():
            node.start()
        self._until(BOOT_S, self._has_booted, "all nodes run")
        self._make_topics()
        self._start_clients()
        self.nemesis.start()
        progress = Progress(world, GOES_ON) if self.swarm.siege else None
        self._go_on(self.swarm.duration_s)
        if progress is not None:
            progress.stopped = True
            world.victim = None
        self.nemesis.end()
        self._until(self.patience_s, self._has_elected, "whoever can lead does, with a node down")
        if self.nemesis.kept_down is not None:
            self._go_on(self._settle_s())
            self._probe([n for n in world.nodes if n != self.nemesis.kept_down], "with a node down")
        self.nemesis.restore()
        world.calm_since = world.loop.time()
        self._until(self.patience_s, self._has_leaders, "every partition has a leader")
        if self.swarm.members > 1 and self.members:
            world.teasing = True
            self._go_on(4.0 * self.members[0].session_ms / 1000)
            world.teasing = False
        self._go_on(1.0)
        world.quiet = True
        self._until(self.patience_s, self._clients_rest, "every client got its answer")
        self._until(self.patience_s, world.disks.is_sound, "what rotted is rebuilt", lambda: str(world.disks.rots))
        self._until(self.patience_s, self._is_whole, "replicas are in sync and equal")
        self._until(self.patience_s, self._is_agreed, "one controller leads and all nodes know what it knows")
        self._until(self.patience_s, self._groups_rest, "groups are stable", self._groups)
        self._probe(None, "everything up")
        self._read_all()
        if self.transactions is not None:
            self._judge_transactions(self.transactions)
        if self.own is not None:
            self._judge_own(self.own)
        self._until(self.patience_s, self._is_whole, "replicas are in sync and equal")
        world.oracles.check_all()
        world.oracles.check_end()
        self._stop_all()

    def _settle_s(self) -> float:
        """Until a dead node is known to be dead, and nobody waits for it."""
        swarm = self.swarm
        return (swarm.session_ms + swarm.lag_ms * 2 + swarm.raft_ms * 3) / 1000 + 2.0

    # --- steps -----------------------------------------------------------------------------------------------

    def _make_topics(self) -> None:
        made: list[str] = []
        plans = {f"t{number}": plan for number, plan in enumerate(self.swarm.topics)}
        if self.transactions is not None:
            plans |= self.transactions.topics()
        if self.group is not None:
            plans |= self.group.plans()
        if self.own is not None:
            plans |= self.own.plans()

        async def make() -> None:
            for name, plan in plans.items():
                while True:
                    try:
                        code = await self.admin.make(name, plan)
                    except Failed:
                        continue
                    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                        break
                    self._start_dead()
                made.append(name)

        self.admin.run(make())
        self._until(BOOT_S * 2, lambda: len(made) == len(plans), "the topics exist")

    def _start_dead(self) -> None:
        """Who died at some point before the nemesis, which starts nodes again, has begun."""
        for node in self.world.nodes.values():
            if node.lives and not node.up:
                self.world.loop.call_soon(node.start, context=NO_PROCESS)

    def _start_clients(self) -> None:
        world, rng = self.world, self.world.rng
        for number in range(self.swarm.producers):
            kind = rng.random()
            acks = 1 if kind < 0.1 else -1
            self.producers.append(Producer(world, number, acks=acks, idempotent=acks == -1 and kind < 0.85))
        self.consumers = [Consumer(world, number) for number in range(2)]
        commits = Commits(world)
        for group in range(self.swarm.groups):
            self.members += [Member(world, f"g{group}", n, commits) for n in range(self.swarm.members)]
        self.admin.start()
        if self.swarm.expiry is not None and self.swarm.expiry.offsets_ms:
            Committer(world, self.swarm.expiry)
        if self.swarm.voter_work:
            world.operator = Operator(world)
        if self.transactions is not None:
            self.transactions.start()
        if self.group is not None:
            self.group.start()
        if self.own is not None:
            self.own.start()

    def _judge_transactions(self, load: TransactionLoad) -> None:
        """T7: whatever was begun is ended, by somebody; then everything is read once more."""
        unfinished = self.world.transactions.unfinished
        self._until(self.patience_s, lambda: not unfinished(), "transactions end", lambda: str(unfinished()))
        load.begin_verdict()
        self._until(self.patience_s, lambda: load.looked, "everything is read once more")
        load.judge()

    def _probe(self, only: list[int] | None, what: str) -> None:
        probe = Probe(self.world, PROBES + (0 if only is None else 1), self.patience_s, only)
        self._until(self.patience_s, lambda: probe.idle, f"probes are acknowledged, {what}", lambda: str(probe.waiting))

    def _read_all(self) -> None:
        """What was acknowledged can be read, but for what an unclean election may have cost."""
        oracles = self.world.oracles

        def unread() -> list[str]:
            return [
                f"{place} {consumer.positions.get(place, 0)} of {oracles.acked_end[place]}"
                for consumer in self.consumers
                for place in self.world.places()
                if consumer.positions.get(place, 0) < oracles.acked_end.get(place, 0) and not oracles.lossy(place)
            ]

        self._until(self.patience_s, lambda: not unread(), "everything acknowledged is read", lambda: str(unread()))

    def _judge_own(self, load: OwnLoad) -> None:
        """Everything that was written reaches every program, and is processed once."""
        load.begin_verdict()
        self._until(self.patience_s, lambda: not load.unread(), "programs get everything", lambda: str(load.unread()))

    def _stop_all(self) -> None:
        """Everybody leaves in order, and nothing is left."""
        world = self.world
        world.closing = True
        for consumer in self.consumers:
            consumer.stopped = True
        for member in self.members:
            member.stopped = True
        if self.group is not None:
            self.group.closing = True
        if self.own is not None:
            self.own.closing = True
        self._until(self.patience_s, self._members_left, "members leave")
        self._until(self.patience_s, self._is_whole, "replicas are in sync and equal, and nobody writes")
        self._until_removed(world.oracles.deleted_files())
        if self.swarm.expiry is not None:
            left = partial(remembered, world)
            self._until(self.patience_s, lambda: not left(), "what nobody uses is forgotten", lambda: str(left()[:5]))
        rest = Rest(world)
        self._until(self.patience_s, lambda: not rest.left(), "nothing waits", lambda: str(rest.left()))
        for node in world.nodes.values():
            node.stop()
            self._until(self.patience_s, lambda node=node: not node.up, f"node {node.id} stops")  # type: ignore[misc]

    def _until_removed(self, deleted: dict[str, Any]) -> None:
        """What was deleted goes from the disks; more may be deleted meanwhile."""

        def left() -> list[str]:
            now = self.world.oracles.deleted_files()
            return [path for path, file in deleted.items() if now.get(path) is file]

        self._until(self.patience_s, lambda: not left(), "what was deleted goes", lambda: str(left()))

    # --- time ------------------------------------------------------------------------------------------------

    def _go_on(self, seconds: float) -> None:
        self.world.loop.run_until(self.world.loop.time() + seconds, self._broken)
        self._check_failures()

    def _until(
        self, timeout_s: float, holds: Callable[[], bool], what: str, state: Callable[[], str] | None = None
    ) -> None:
        """Liveness: it must hold within a bounded time."""
        world = self.world
        deadline = world.loop.time() + timeout_s
        while not holds():
            if world.loop.time() >= deadline:
                found = state() if state is not None else self._state()
                raise Violation(f"liveness: not within {timeout_s:g} s: {what}; {found}")
            world.loop.run_until(world.loop.time() + self._poll_s, self._broken)
            self._check_failures()

    def _broken(self) -> bool:
        return bool(self.world.loop.failures or self.world.exits)

    def _check_failures(self) -> None:
        for message, error in self.world.loop.failures:
            seeds_command.raise_inner(error)
            raise Violation(f"unhandled: {message}: {error!r}") from error
        for node, error in self.world.exits:
            seeds_command.raise_inner(error)
            raise Violation(f"node-failed: {node}: {error!r}") from error

    # --- what must become true -------------------------------------------------------------------------------

    def _has_booted(self) -> bool:
        image = self.world.image
        return all(node.ready and (not node.is_broker or image.active(node.id)) for node in self.world.nodes.values())

    def _has_elected(self) -> bool:
        """No partition is without a leader that somebody in sync, or eligible, could lead."""
        image = self.world.image
        rest = [node for node in self.world.nodes.values() if node.id != self.nemesis.kept_down]
        if not all(node.ready and (not node.is_broker or image.active(node.id)) for node in rest):
            return False
        found = [p for p in map(self.world.partition, self.world.places()) if p is not None]
        return all(p.leader >= 0 or not any(map(image.active, p.isr + p.elr)) for p in found)

    def _has_leaders(self) -> bool:
        return self._has_booted() and all(
            partition is not None and partition.leader >= 0 and self.world.nodes[partition.leader].ready
            for partition in map(self.world.partition, self.world.places())
        )

    def _clients_rest(self) -> bool:
        busy = self.admin.busy or self.world.votes_change()
        load = self.transactions
        rest = (load is None or load.resting()) and (self.own is None or self.own.resting())
        return rest and not busy and all(producer.idle for producer in self.producers)

    def _is_whole(self) -> bool:
        world = self.world
        for place in world.places():
            partition = world.partition(place)
            if partition is None or set(partition.isr) != set(partition.replicas) or partition.reassigning:
                return False
            logs = [world.nodes[number].open_log(place) for number in partition.replicas]
            bounds = {(log.end_offset, log.high_watermark) for log in logs if log is not None}
            if None in logs:
                return False
            still = not place.topic.startswith("__") or self._members_left()
            if still and (len(bounds) != 1 or len({bound for pair in bounds for bound in pair}) != 1):
                return False
        return True

    def _members_left(self) -> bool:
        if self.own is not None and not self.own.done():
            return False
        return all(member.done for member in (*self.members, *(self.group.members if self.group is not None else ())))

    def _is_agreed(self) -> bool:
        """One controller leads, all voters follow it, and every broker has what is committed."""
        world = self.world
        leaders = {node.raft.leader for node in world.nodes.values() if node.raft is not None}
        if len(leaders) != 1 or next(iter(leaders))[0] < 0:
            return False
        offset = world.image.offset
        roles = [node.role for node in world.nodes.values() if node.role is not None]
        return all(role.view.image.offset >= offset for role in roles)

    def _groups_rest(self) -> bool:
        now = self.world.loop.time()
        stable = all(member.stable_since is not None and now - member.stable_since > 2.0 for member in self.members)
        return stable and (self.group is None or self.group.resting())

    def _groups(self) -> str:
        return self._state() if self.group is None else self.group.state()

    def _state(self) -> str:
        world = self.world
        lines = []
        for place in world.places():
            logs = {n: node.log(place) for n, node in world.nodes.items()}
            ends = {n: (log.high_watermark, log.end_offset) for n, log in logs.items() if log is not None}
            p = world.partition(place)
            if p is not None:
                what = f"{place}: leader {p.leader}@{p.leader_epoch} replicas {p.replicas} isr {p.isr} elr {p.elr}"
                lines.append(f"{what} adding {p.adding_replicas} removing {p.removing_replicas} {ends}")
        nodes = {n: (node.up, node.ready, world.image.active(n)) for n, node in world.nodes.items()}
        raft = {n: node.raft.leader for n, node in world.nodes.items() if node.raft is not None}
        views = {n: node.role.view.image.offset for n, node in world.nodes.items() if node.role is not None}
        idle = {p.name: [str(b.place) + b.code.name for b in p.open] for p in self.producers if not p.idle}
        members = {m.name: (m._generation, m.stable_since) for m in self.members}
        lines += [f"nodes (up, ready, active) {nodes}", f"raft {raft}", f"views {views} of {world.image.offset}"]
        lines += [f"producers {idle}", f"members {members}", f"admin {self.admin.busy}"]
        return "; ".join(lines)


def run(seed: int, kind: str = "nodes") -> Result:
    return Simulation(seed, KINDS[kind](seed)).run()


if __name__ == "__main__":
    kind = next((each for each in sys.argv[1:] if each in KINDS), "nodes")
    seeds_command.main(lambda seed: Simulation(seed, KINDS[kind](seed)), sys.argv[1:])
