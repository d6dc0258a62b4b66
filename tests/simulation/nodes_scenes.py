"""Chains of faults around one partition, each step when the one before has had its effect.

Some bugs need several things to go wrong in a row; chance would take very long to line them up. A scene yields the
conditions it waits for; when one does not come true in time the scene ends there. Planted bugs name the scene that
they need among their faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from rookery.broker.replication.replica_state import PendingExpand
from rookery.core.testing.control import NO_PROCESS

if TYPE_CHECKING:
    from rookery.broker.replication.partition import Partition
    from tests.simulation.nodes_host import Place, SimNode
    from tests.simulation.nodes_world import World

STEP_S = 0.01
PATIENCE_S = 5.0
Scene = Iterator[Callable[[], bool]]


def play(world: World, scene: Scene) -> None:
    """Go through the scene beside everything else; in the end all links are whole again."""

    def step(holds: Callable[[], bool], deadline: float) -> None:
        if world.calm:
            return
        if not holds() and world.loop.time() < deadline:
            world.loop.call_later(STEP_S, step, holds, deadline, context=NO_PROCESS)
            return
        following = next(scene, None) if holds() else None
        if following is None:
            world.network.heal()
        else:
            step(following, world.loop.time() + PATIENCE_S)

    step(lambda: True, world.loop.time())


class Pair:
    """The leader and a follower of some partition."""

    def __init__(self, world: World, place: Place, leader: SimNode, follower: SimNode) -> None:
        self.world = world
        self.place = place
        self.leader = leader
        self.follower = follower

    @classmethod
    def drawn(cls, world: World, rng: Random) -> Pair | None:
        places = [place for place in world.places() if place.topic in world.plans]
        place = rng.choice(places) if places else None
        partition = world.partition(place) if place is not None else None
        if place is None or partition is None or partition.leader < 0:
            return None
        others = [n for n in partition.replicas if n != partition.leader and world.nodes[n].running]
        if not others or not world.nodes[partition.leader].running:
            return None
        return cls(world, place, world.nodes[partition.leader], world.nodes[rng.choice(others)])

    # --- what is done ----------------------------------------------------------------------------------------

    def part(self) -> None:
        """The two lose each other."""
        self.world.network.cut(self.leader.host, self.follower.host)
        self.world.network.cut(self.follower.host, self.leader.host)

    def meet(self) -> None:
        self.world.network.mend(self.leader.host, self.follower.host)

    def controllers(self) -> list[str]:
        """The hosts of voters that are neither of the two."""
        pair = (self.leader.id, self.follower.id)
        return [self.world.nodes[n].host for n in self.world.swarm.voters if n not in pair]

    def reset_follower(self) -> None:
        """Its machine starts anew at once: what was not synced may be gone, and its peers hear that it is."""
        self.follower.power_cut()
        self.follower.start()

    # --- what is waited for ----------------------------------------------------------------------------------

    def leader_now(self) -> int:
        partition = self.world.partition(self.place)
        return partition.leader if partition is not None else -1

    def in_sync(self, node: SimNode) -> bool:
        partition = self.world.partition(self.place)
        return partition is not None and node.id in partition.isr and self.world.image.active(node.id)

    def out_of_sync(self) -> bool:
        partition = self.world.partition(self.place)
        return partition is not None and self.follower.id not in partition.isr

    def left(self) -> bool:
        """The leader has heard that the follower is out of sync."""
        partition = self._led()
        if partition is None or partition.pending_proposal() is not None:
            return False
        return self.follower.id not in partition.state.isr

    def level(self) -> bool:
        """The follower has what the leader has."""
        ahead, behind = self.leader.log(self.place), self.follower.log(self.place)
        return ahead is not None and behind is not None and 0 < ahead.end_offset == behind.end_offset

    def joining(self) -> bool:
        partition = self._led()
        leading = partition.leading if partition is not None else None
        pending = leading.isr if leading is not None else None
        return isinstance(pending, PendingExpand) and pending.joining == self.follower.id

    def _led(self) -> Partition | None:
        role = self.leader.role
        return role.partitions.of(self.place.id, self.place.index) if role is not None else None

    def epoch(self) -> int:
        """Of the follower's registration, if it is in service."""
        known = self.world.image.brokers.get(self.follower.id)
        return known.epoch if known is not None and known.active else -1

    def may_lose_memory(self) -> bool:
        world = self.world
        return all(
            world.tolerates(place, self.follower, cut=True) for place in world.places_of(self.follower.id)
        )


def entry_of_an_earlier_life(pair: Pair, rng: Random) -> Scene:
    """The leader asks that a follower be in sync; before the controller hears of it, the follower has restarted
    with less than it had."""
    network = pair.world.network
    pair.part()
    yield pair.left
    for controller in pair.controllers():
        network.cut(pair.leader.host, controller)
        network.cut(controller, pair.leader.host)
    pair.meet()
    yield pair.joining
    if not pair.may_lose_memory():
        return
    before = pair.epoch()
    pair.part()
    pair.reset_follower()
    yield lambda: pair.epoch() > before
    for controller in pair.controllers():
        network.mend(pair.leader.host, controller)
    yield lambda: not pair.out_of_sync()


def fetch_of_an_earlier_life(pair: Pair, rng: Random) -> Scene:
    """A follower's fetch is on its way when it restarts with less than it had; it arrives after the restart."""
    pair.part()
    yield pair.left
    pair.meet()
    pair.world.network.slow(pair.follower.host, pair.leader.host, 2.0)
    yield pair.level
    if not pair.may_lose_memory():
        return
    before = pair.epoch()
    pair.reset_follower()
    yield lambda: pair.epoch() > before
    yield lambda: not pair.out_of_sync()


def late_return(pair: Pair, rng: Random) -> Scene:
    """A leader dies, returns at once, and hears late of what was decided meanwhile."""
    world = pair.world
    if not world.may_kill(pair.leader):
        return
    pair.leader.kill()
    back = world.loop.time() + rng.choice((0.2, 1.0, 2.0))
    yield lambda: world.loop.time() >= back
    for controller in pair.controllers():
        world.network.cut(controller, pair.leader.host)
    pair.leader.start()
    heard = world.loop.time() + rng.choice((1.0, 2.0, 4.0))
    yield lambda: world.loop.time() >= heard


def answer_of_the_leader_before(pair: Pair, rng: Random) -> Scene:
    """A leader dies, returns and follows another; when it is elected again, an answer of the other is on its way."""
    world, returned = pair.world, pair.leader
    if not world.may_kill(returned):
        return
    returned.kill()
    yield lambda: pair.leader_now() not in (-1, returned.id)
    other = world.nodes[pair.leader_now()]
    returned.start()
    yield lambda: pair.in_sync(returned)
    world.network.slow(other.host, returned.host, 1.0)
    yield lambda: pair.leader_now() == returned.id
    later = world.loop.time() + 1.5
    yield lambda: world.loop.time() >= later


SCENES = {
    scene.__name__: scene
    for scene in (
        entry_of_an_earlier_life, fetch_of_an_earlier_life, late_return, answer_of_the_leader_before,
    )
}  # fmt: skip


def begin(name: str, world: World, rng: Random) -> None:
    """Play a scene around two nodes that are drawn, if there are such."""
    pair = Pair.drawn(world, rng)
    if pair is not None:
        play(world, SCENES[name](pair, rng))
