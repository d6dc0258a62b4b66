"""Chains of faults around one partition, each step when the one before has had its effect.

Some bugs need three things to go wrong in a row; chance would take very long to line them up. A scene yields the
conditions it waits for; when one does not come true in time the scene ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from rookery.broker.replication.replica_state import PendingExpand
from rookery.core.metadata import requests as q
from tests.simulation.cluster_quorum import OUTSIDE

if TYPE_CHECKING:
    from rookery.core.types import TopicPartition
    from tests.simulation.cluster_broker import SimBroker
    from tests.simulation.cluster_world import World

STEP_S = 0.01
PATIENCE_S = 5.0
CONTROLLERS = ("c1", "c2", "c3")
Scene = Iterator[Callable[[], bool]]


def play(world: World, scene: Scene) -> None:
    """Go through the scene beside everything else; in the end the links it cut are whole again."""

    def step(holds: Callable[[], bool], deadline: float) -> None:
        if world.calm:
            return
        if not holds() and world.loop.time() < deadline:
            world.loop.call_later(STEP_S, step, holds, deadline, context=OUTSIDE)
            return
        following = next(scene, None) if holds() else None
        if following is None:
            world.network.heal()
        else:
            step(following, world.loop.time() + PATIENCE_S)

    step(lambda: True, world.loop.time())


class Pair:
    """The leader and a follower of some partition."""

    def __init__(self, world: World, place: TopicPartition, leader: SimBroker, follower: SimBroker) -> None:
        self.world = world
        self.place = place
        self.leader = leader
        self.follower = follower

    @classmethod
    def drawn(cls, world: World, rng: Random) -> Pair | None:
        place = rng.choice(world.places)
        partition = world.image_partition(place)
        if partition is None or partition.leader < 0:
            return None
        others = [n for n in partition.replicas if n != partition.leader and world.brokers[n].running]
        if not others or not world.brokers[partition.leader].running:
            return None
        return cls(world, place, world.brokers[partition.leader], world.brokers[rng.choice(others)])

    def part(self) -> None:
        self.world.network.cut(self.leader.host, self.follower.host)
        self.world.network.cut(self.follower.host, self.leader.host)

    def out_of_sync(self) -> bool:
        partition = self.world.image_partition(self.place)
        return partition is not None and self.follower.id not in partition.isr

    def level(self) -> bool:
        """The follower has what the leader has."""
        ahead, behind = self.leader.log(self.place), self.follower.log(self.place)
        return ahead is not None and behind is not None and 0 < ahead.end_offset == behind.end_offset

    def joining(self) -> bool:
        role = self.leader.role
        partition = role.partitions.named(*self.place) if role is not None else None
        leading = partition.leading if partition is not None else None
        pending = leading.isr if leading is not None else None
        return isinstance(pending, PendingExpand) and pending.joining == self.follower.id

    def epoch(self) -> int:
        """Of the follower's registration, if it is in service."""
        known = self.world.observer.image.brokers.get(self.follower.id)
        return known.epoch if known is not None and known.active else -1

    def may_lose_memory(self) -> bool:
        world = self.world
        return all(world.tolerates(place, self.follower, cut=True) for place in world.places_of(self.follower.id))


def entry_of_an_earlier_life(pair: Pair) -> Scene:
    """The leader asks that a follower be in sync; before the controller hears of it, the follower has restarted
    with less than it had."""
    world, network = pair.world, pair.world.network
    pair.part()
    yield pair.out_of_sync
    for controller in CONTROLLERS:
        network.cut(pair.leader.host, controller)
        network.cut(controller, pair.leader.host)
    world.rpc.disturbed()
    network.mend(pair.leader.host, pair.follower.host)
    yield pair.joining
    if not pair.may_lose_memory():
        return
    before = pair.epoch()
    pair.part()
    pair.follower.reset()
    yield lambda: pair.epoch() > before
    for controller in CONTROLLERS:
        network.mend(pair.leader.host, controller)
    yield lambda: not pair.out_of_sync()


def fetch_of_an_earlier_life(pair: Pair) -> Scene:
    """A follower's fetch is on its way when it restarts with less than it had; it arrives after the restart."""
    network = pair.world.network
    pair.part()
    yield pair.out_of_sync
    network.mend(pair.leader.host, pair.follower.host)
    network.slow(pair.follower.host, pair.leader.host, 2.0)
    yield pair.level
    if not pair.may_lose_memory():
        return
    before = pair.epoch()
    pair.follower.reset()
    yield lambda: pair.epoch() > before
    yield lambda: not pair.out_of_sync()


def asked_the_wrong_controller(pair: Pair, rng: Random) -> Scene:
    """A controller does not know that it was replaced. The new one changes a partition; its leader hears of that,
    and asks the old one for the next change."""
    world, network, quorum = pair.world, pair.world.network, pair.world.quorum
    pair.part()
    yield pair.out_of_sync
    old = quorum.leader
    for other in CONTROLLERS:
        network.cut(f"c{old}", other)
        network.cut(other, f"c{old}")
    quorum.elect(without=old)
    yield lambda: quorum.leader != old and quorum.controllers[quorum.leader].loop.controller.active
    partition = world.image_partition(pair.place)
    if partition is None:
        return
    replicas = tuple(rng.sample(partition.replicas, len(partition.replicas)))
    world.controller_ask(q.ReassignPartitionsRequest((q.Reassignment(*pair.place, replicas),)))
    yield lambda: world.image_partition(pair.place) != partition
    network.mend(pair.leader.host, pair.follower.host)
    yield pair.joining
    later = world.loop.time() + 1.0
    yield lambda: world.loop.time() >= later


def late_return(pair: Pair, rng: Random) -> Scene:
    """A leader dies, returns at once, and hears only bit by bit of what was decided meanwhile."""
    world = pair.world
    if world.may_kill(pair.leader):
        pair.leader.kill()
        back = world.loop.time() + rng.choice((0.2, 1.0, 2.0))
        yield lambda: world.loop.time() >= back
        world.quorum.late[pair.leader.host] = world.loop.time() + 8.0
        pair.leader.start()
