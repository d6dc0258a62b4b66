"""What goes wrong with simulated nodes, and when: aimed at roles, within what the cluster promises to survive."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from rookery.core.testing.control import NO_PROCESS
from tests.simulation import nodes_scenes

if TYPE_CHECKING:
    from tests.simulation.nodes_host import SimNode
    from tests.simulation.nodes_world import World

BACK_S = 4.0
"""Mean time until somebody starts again what stopped."""
LOOK_S = 0.5
FAR = 100


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = Random(f"{world.seed} nemesis")
        self._active = True
        self.kept_down: int | None = None
        self.actions = 0
        self.victim = self._rng.choice(world.swarm.voters) if world.swarm.siege else None
        self._look_s = LOOK_S * (10.0 if world.swarm.days else 1.0)

    def start(self) -> None:
        self._schedule()
        self._world.loop.call_later(self._look_s, self._look_after, context=NO_PROCESS)

    def end(self) -> None:
        """All faults end; everything is started again, but for one node at most, until `restore`."""
        self._active, self.victim = False, None
        world = self._world
        node = self._any()
        if self._rng.random() < 0.5 and (not node.up or world.may_kill(node)) and not world.votes_change():
            node.kill()
            self.kept_down = node.id
        world.calm = True
        world.trace("heal")
        world.network.heal()
        world.disks.lift()
        for node in world.nodes.values():
            node.resume()

    def restore(self) -> None:
        self.kept_down = None

    def _look_after(self) -> None:
        """Nodes that stopped come back after a while; after the faults, at once."""
        world = self._world
        for node in list(world.nodes.values()):
            back = not self._active or self._rng.random() < LOOK_S / BACK_S
            if not node.up and back and node.id != self.kept_down and not world.closing:
                node.start()
            elif node.is_crippled and back and self.victim in (None, node.id):
                node.stop()
        world.oracles.check_all()
        world.transactions.check_all()
        world.loop.call_later(self._look_s, self._look_after, context=NO_PROCESS)

    def _schedule(self) -> None:
        delay = self._rng.expovariate(1.0) * self._world.swarm.fault_s
        self._world.loop.call_later(delay, self._act, context=NO_PROCESS)

    def _act(self) -> None:
        if not self._active:
            return
        faults = self._world.swarm.faults
        chosen = self._rng.choices(list(faults), list(faults.values()))[0]
        self.actions += 1
        self._world.trace("nemesis", chosen)
        if chosen in nodes_scenes.SCENES:
            nodes_scenes.begin(chosen, self._world, self._rng)
        else:
            getattr(self, chosen)()
        self._schedule()

    # --- whom ------------------------------------------------------------------------------------------------

    def _any(self) -> SimNode:
        if self.victim is not None:
            return self._world.nodes[self.victim]
        return self._rng.choice(list(self._world.nodes.values()))

    def _leader(self) -> SimNode:
        places = self._world.places()
        partition = self._world.partition(self._rng.choice(places)) if places else None
        if partition is None or partition.leader < 0 or self.victim is not None:
            return self._any()
        return self._world.nodes[partition.leader]

    def _controller(self) -> SimNode:
        """Who leads the metadata quorum, as far as anybody knows."""
        for node in self._world.nodes.values():
            if node.raft is not None and node.raft.leader[0] == node.id and self.victim is None:
                return node
        return self._any()

    def _hosts(self) -> list[str]:
        return [node.host for node in self._world.nodes.values()]

    def _pair(self) -> list[str]:
        pair = self._rng.sample(self._hosts(), 2)
        if self.victim is None or f"n{self.victim}" in pair:
            return pair
        return [f"n{self.victim}", pair[1]]

    def _heal_later(self) -> None:
        delay = self._rng.expovariate(1.0) * self._world.swarm.heal_s
        self._world.loop.call_later(delay, self._world.network.heal, context=NO_PROCESS)

    def _kill(self, node: SimNode) -> None:
        if node.up and self._world.may_kill(node):
            node.kill()
            if self._rng.random() < 0.5:  # at once, before anybody has noticed
                self._world.loop.call_later(self._rng.random() * 0.5, node.start, context=NO_PROCESS)

    # --- processes -------------------------------------------------------------------------------------------

    def kill(self) -> None:
        self._kill(self._any())

    def kill_leader(self) -> None:
        self._kill(self._leader())

    def kill_controller(self) -> None:
        self._kill(self._controller())

    def kill_twice(self) -> None:
        """One is killed, comes back and is killed again while it finds its way."""
        node = self._any()
        self._kill(node)
        again = self._rng.random() * 2.0
        self._world.loop.call_later(again * 0.3, node.start, context=NO_PROCESS)
        self._world.loop.call_later(again, self._kill, node, context=NO_PROCESS)

    def last_in_sync(self) -> None:
        """Whoever keeps a partition alive."""
        for place in self._world.places():
            partition = self._world.partition(place)
            if partition is not None and len(partition.isr) == 1 and self.victim in (None, *partition.isr):
                self._kill(self._world.nodes[partition.isr[0]])
                return
        self._kill(self._leader())

    def power_cut(self) -> None:
        node = self._leader() if self._rng.random() < 0.5 else self._any()
        world = self._world
        if all(world.tolerates(place, node, cut=True) for place in world.places_of(node.id)):
            node.power_cut()

    def start_twice(self) -> None:
        """Somebody starts a controller on the folder of a node that runs, and thinks better of it."""
        node = self._any()
        if node.running and node.ready and node.is_voter:
            second = node.start_twice()
            self._world.loop.call_later(3.0, node.end_second, second, context=NO_PROCESS)

    def stop(self) -> None:
        node = self._any()
        if node.ready:
            node.stop()

    def _pause(self, node: SimNode) -> None:
        node.pause()
        delay = self._rng.expovariate(1.0) * self._world.swarm.heal_s
        self._world.loop.call_later(delay, node.resume, context=NO_PROCESS)

    def pause(self) -> None:
        self._pause(self._any())

    def pause_leader(self) -> None:
        self._pause(self._leader())

    def pause_controller(self) -> None:
        self._pause(self._controller())

    # --- links -----------------------------------------------------------------------------------------------

    def _cut(self, source: str, target: str, *, both: bool) -> None:
        self._world.network.cut(source, target)
        if both:
            self._world.network.cut(target, source)

    def _cut_off(self, node: SimNode, *, both: bool = True) -> None:
        for host in self._hosts():
            if host != node.host:
                self._cut(node.host, host, both=both)
        self._heal_later()

    def isolate(self) -> None:
        self._cut_off(self._any(), both=self._rng.random() < 0.7)

    def isolate_controller(self) -> None:
        self._cut_off(self._controller(), both=self._rng.random() < 0.7)

    def cut_pair(self) -> None:
        one, other = self._pair()
        self._cut(one, other, both=True)
        self._heal_later()

    def cut_one_way(self) -> None:
        one, other = self._pair()
        self._cut(one, other, both=False)
        self._heal_later()

    def cut_control(self) -> None:
        """A leader and the active controller lose each other; a broker alone loses all controllers."""
        one, other = self._leader(), self._controller()
        if one is not other:
            others = [other] if one.is_voter else [node for node in self._world.nodes.values() if node.is_voter]
            for controller in others:
                self._cut(one.host, controller.host, both=True)
            self._heal_later()

    def cut_data(self) -> None:
        """A leader loses its followers, one or all."""
        leader = self._leader()
        for host in self._hosts():
            if host != leader.host and self._rng.random() < 0.6:
                self._cut(leader.host, host, both=self._rng.random() < 0.5)
        self._heal_later()

    def slow_link(self) -> None:
        one, other = self._pair()
        self._world.network.slow(one, other, self._rng.choice((0.05, 0.3, 1.0)))
        self._heal_later()

    def lose_name(self) -> None:
        """The name of a node cannot be resolved, mostly when the others need it: its connections break."""
        node = self._any()
        self._world.network.forget_name(node.host)
        if self._rng.random() < 0.7:
            self._kill(node)
        self._heal_later()

    # --- disks -----------------------------------------------------------------------------------------------

    def _later(self, act: Callable[..., None], *args: object) -> None:
        delay = self._rng.expovariate(1.0) * self._world.swarm.heal_s
        self._world.loop.call_later(delay, act, *args, context=NO_PROCESS)

    def disk_error(self) -> None:
        node, disks = self._any(), self._world.disks
        self._later(disks.heal, node, disks.fail(node))

    def disk_full(self) -> None:
        node, disks = self._any(), self._world.disks
        self._later(disks.empty, node, disks.fill(node))

    def rot(self) -> None:
        self._world.disks.rot()

    def rot_checkpoint(self) -> None:
        """Mostly just before somebody reads it: at a start."""
        node = self._world.disks.rot_checkpoint()
        if node is not None and node.up and self._rng.random() < 0.7:
            self._kill(node)

    def replace(self) -> None:
        """A broker, not a voter, comes back as it was on its first day, under its old id."""
        world = self._world
        others = [node for node in world.nodes.values() if not node.is_voter]
        node = self._rng.choice(others) if others else None
        if node and all(world.tolerates_loss(place, node) for place in world.places_of(node.id)):
            node.power_cut()
            node.wipe()

    # --- several in a row, for planted bugs that need them ---------------------------------------------------

    def rejoin_cut(self) -> None:
        """A follower comes back; its leader loses the controller while it asks for its entry; the follower dies and
        comes back once more, and then the leader hears of it."""
        controller, leader = self._controller(), self._leader()
        others = [n for n in self._world.nodes.values() if n is not leader and n is not controller and n.is_broker]
        if leader is controller or not others:
            return
        follower = self._rng.choice(others)
        self._kill(follower)
        loop, again = self._world.loop, follower.lives + 1
        loop.call_later(2.0, follower.start, context=NO_PROCESS)
        loop.call_later(2.1, self._cut_when_back, follower, leader, controller, again, 200, context=NO_PROCESS)

    def _cut_when_back(self, follower: SimNode, leader: SimNode, controller: SimNode, life: int, left: int) -> None:
        world, loop = self._world, self._world.loop
        if not left or not follower.up or follower.lives != life or not self._active:
            return
        if not world.image.active(follower.id):
            args = (follower, leader, controller, life, left - 1)
            loop.call_later(0.01, self._cut_when_back, *args, context=NO_PROCESS)
            return
        self._cut(leader.host, controller.host, both=True)
        wait_s = 0.1 + self._rng.random() * 0.3
        loop.call_later(wait_s, self._kill, follower, context=NO_PROCESS)
        loop.call_later(wait_s + 0.1, follower.start, context=NO_PROCESS)
        loop.call_later(wait_s + 1.2, world.network.mend, leader.host, controller.host, context=NO_PROCESS)

    def acknowledged_in_the_dark(self) -> None:
        """With one voter away, another is killed before it has synced, comes back, and goes dark when it has fetched;
        then the leader goes and the first is back."""
        leader = self._controller()
        others = [n for n in self._world.nodes.values() if n is not leader and n.is_voter]
        self._rng.shuffle(others)
        if leader.raft is not None and len(others) > 1 and others[0].up:
            nodes_scenes.play(self._world, self._in_the_dark(leader, *others[:2]))

    def _in_the_dark(self, leader: SimNode, again: SimNode, away: SimNode) -> nodes_scenes.Scene:
        world, loop = self._world, self._world.loop
        for host in (leader.host, again.host):
            self._cut(away.host, host, both=True)
        yield again.has_unsynced_metadata
        again.kill()
        again.start()
        yield lambda: again.raft is not None and again.raft.leader[0] == leader.id
        dark_at = loop.time() + self._rng.random() * 0.2
        yield lambda: loop.time() >= dark_at
        if not all(world.tolerates(place, again, cut=True) for place in world.places_of(again.id)):
            return
        again.power_cut()
        leader.pause()
        world.network.heal()
        yield lambda: loop.time() >= dark_at + 0.1
        again.start()
        yield lambda: loop.time() >= dark_at + 4.0
        leader.resume()

    # --- clocks ----------------------------------------------------------------------------------------------

    def jump_clock(self) -> None:
        """Mostly by seconds, sometimes by minutes."""
        skew_ms = self._rng.randint(-5000, 5000)
        self._any().clock.skew_ms = skew_ms * FAR if abs(skew_ms) > 4000 else skew_ms
