"""What goes wrong in a simulated cluster, and when: aimed at roles, within what the cluster promises to survive."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from rookery.core.metadata import requests as q
from tests.simulation import cluster_scenes as scenes
from tests.simulation.cluster_quorum import OUTSIDE
from tests.simulation.cluster_scenes import Pair, Scene, play
from tests.simulation.cluster_world import CONTROLLERS

if TYPE_CHECKING:
    from tests.simulation.cluster_broker import SimBroker
    from tests.simulation.cluster_world import World

BACK_S = 4.0
"""Mean time until somebody starts again what stopped."""


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.seed} nemesis")
        self._active = True
        self.kept_down: int | None = None
        self.actions = 0

    def start(self) -> None:
        self._schedule()
        self._world.loop.call_later(0.5, self._look_after, context=OUTSIDE)

    def end(self) -> None:
        """All faults end; everything is started again, but for one broker at most, until `restore`."""
        self._active = False
        world = self._world
        broker = self._any()
        if self._rng.random() < 0.5 and (not broker.up or world.may_kill(broker)):
            broker.kill()
            self.kept_down = broker.id
        world.calm = True
        world.trace("heal")
        world.network.heal()
        for broker in world.brokers.values():
            broker.resume()
        for node in CONTROLLERS:
            controller = world.quorum.controllers.get(node)
            if controller is not None and controller.process.paused:
                world.loop.resume(controller.process)
            world.start_controller(node)

    def restore(self) -> None:
        self.kept_down = None

    def _look_after(self) -> None:
        """Brokers that stopped come back after a while; after the faults, at once."""
        world = self._world
        for broker in world.brokers.values():
            back = not self._active or self._rng.random() < 0.5 / BACK_S
            if not broker.up and back and broker.id != self.kept_down:
                broker.start()
        for node in CONTROLLERS:
            if node not in world.quorum.controllers and (not self._active or self._rng.random() < 0.5 / BACK_S):
                world.start_controller(node)
        world.oracles.check_all()
        world.loop.call_later(0.5, self._look_after, context=OUTSIDE)

    def _schedule(self) -> None:
        delay = self._rng.expovariate(1.0) * self._world.swarm.fault_s
        self._world.loop.call_later(delay, self._act, context=OUTSIDE)

    def _act(self) -> None:
        if not self._active:
            return
        weights = self._world.swarm.weights
        chosen = self._rng.choices(list(weights), list(weights.values()))[0]
        self.actions += 1
        self._world.trace("nemesis", chosen)
        getattr(self, chosen)()
        self._schedule()

    # --- whom ------------------------------------------------------------------------------------------------

    def _any(self) -> SimBroker:
        return self._rng.choice(list(self._world.brokers.values()))

    def _leader(self) -> SimBroker:
        place = self._rng.choice(self._world.places)
        partition = self._world.image_partition(place)
        if partition is None or partition.leader < 0:
            return self._any()
        return self._world.brokers[partition.leader]

    def _hosts(self) -> list[str]:
        return [broker.host for broker in self._world.brokers.values()]

    def _heal_later(self) -> None:
        delay = self._rng.expovariate(1.0) * self._world.swarm.heal_s
        self._world.loop.call_later(delay, self._world.network.heal, context=OUTSIDE)

    def _kill(self, broker: SimBroker) -> None:
        if broker.up and self._world.may_kill(broker):
            broker.kill()
            if self._rng.random() < 0.5:  # at once, before anybody has noticed
                self._world.loop.call_later(self._rng.random() * 0.5, broker.start, context=OUTSIDE)

    # --- what ------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self._kill(self._any())

    def kill_leader(self) -> None:
        self._kill(self._leader())

    def last_in_sync(self) -> None:
        """Whoever keeps a partition alive."""
        for place in self._world.places:
            partition = self._world.image_partition(place)
            if partition is not None and len(partition.isr) == 1:
                self._kill(self._world.brokers[partition.isr[0]])
                return
        self._kill(self._leader())

    def power_cut(self) -> None:
        broker = self._leader() if self._rng.random() < 0.5 else self._any()
        world = self._world
        if all(world.tolerates(place, broker, cut=True) for place in world.places_of(broker.id)):
            broker.power_cut()

    def stop(self) -> None:
        broker = self._any()
        if broker.ready:
            broker.stop()

    def _pause(self, broker: SimBroker) -> None:
        broker.pause()
        delay = self._rng.expovariate(1.0) * self._world.swarm.heal_s
        self._world.loop.call_later(delay, broker.resume, context=OUTSIDE)

    def pause(self) -> None:
        self._pause(self._any())

    def pause_leader(self) -> None:
        self._pause(self._leader())

    def kill_controller(self) -> None:
        world = self._world
        up = list(world.quorum.controllers)
        if len(up) == len(CONTROLLERS):
            leader = world.quorum.leader
            world.kill_controller(leader if leader in up and self._rng.random() < 0.7 else self._rng.choice(up))

    def controller_failover(self) -> None:
        self._world.quorum.elect(without=self._world.quorum.leader)

    def _cut(self, source: str, target: str, *, both: bool) -> None:
        network = self._world.network
        network.cut(source, target)
        if both:
            network.cut(target, source)

    def _cut_off(self, broker: SimBroker, others: list[str], *, both: bool = True) -> None:
        for host in others:
            if host != broker.host:
                self._cut(broker.host, host, both=both)
        self._world.rpc.disturbed()
        self._heal_later()

    def isolate(self) -> None:
        self._cut_off(self._any(), [*self._hosts(), *(f"c{n}" for n in CONTROLLERS)])

    def isolate_leader(self) -> None:
        """From brokers, controllers, or both; its clients still reach it."""
        controllers = [f"c{n}" for n in CONTROLLERS]
        self._cut_off(self._leader(), self._rng.choice(([*self._hosts(), *controllers], self._hosts(), controllers)))

    def cut_leader_from_controller(self) -> None:
        self._cut_off(self._leader(), [f"c{n}" for n in CONTROLLERS])

    def cut_controller(self) -> None:
        self._cut_off(self._any(), [f"c{n}" for n in CONTROLLERS], both=self._rng.random() < 0.5)

    def cut_pair(self) -> None:
        one, other = self._rng.sample(self._hosts(), 2)
        self._cut(one, other, both=True)
        self._heal_later()

    def cut_one_way(self) -> None:
        one, other = self._rng.sample(self._hosts(), 2)
        self._cut(one, other, both=False)
        self._heal_later()

    def slow_link(self) -> None:
        one, other = self._rng.sample([*self._hosts(), *(f"c{n}" for n in CONTROLLERS)], 2)
        self._world.network.slow(one, other, self._rng.choice((0.05, 0.3, 1.0)))
        self._heal_later()

    def jump_clock(self) -> None:
        self._any().sim_clock.skew_ms += self._rng.randint(-600_000, 600_000)

    def elect_preferred(self) -> None:
        self._world.controller_ask(q.ElectLeadersRequest(q.ElectionType.PREFERRED, all_partitions=True))

    def reassign(self) -> None:
        """Other brokers, or the same in another order; one at a time."""
        place = self._rng.choice(self._world.places)
        count = self._world.plan(place).replication_factor
        target = tuple(self._rng.sample(sorted(self._world.brokers), count))
        partition = self._world.image_partition(place)
        if partition is None or partition.reassigning:
            return
        self._world.controller_ask(q.ReassignPartitionsRequest((q.Reassignment(*place, target),)))

    # --- several in a row ------------------------------------------------------------------------------------

    def _scene(self, scene: Callable[[Pair], Scene]) -> None:
        pair = Pair.drawn(self._world, self._rng)
        if pair is not None:
            play(self._world, scene(pair))

    def entry_of_an_earlier_life(self) -> None:
        self._scene(scenes.entry_of_an_earlier_life)

    def fetch_of_an_earlier_life(self) -> None:
        self._scene(scenes.fetch_of_an_earlier_life)

    def asked_the_wrong_controller(self) -> None:
        self._scene(lambda pair: scenes.asked_the_wrong_controller(pair, self._rng))

    def late_return(self) -> None:
        self._scene(lambda pair: scenes.late_return(pair, self._rng))

    def delete_records(self) -> None:
        self._world.deleter.delete(self._rng.choice(self._world.places))

