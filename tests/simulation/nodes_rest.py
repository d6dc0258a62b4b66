"""When nobody asks for anything any more, nothing waits: what nodes that run still have open, parked or under way.

What is always there does not count: fetches of followers, the tasks of a node's services, connections between nodes.
Work of the background comes and goes; what was there at each look is what waits.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rookery.broker.replication.replica_state import Committed
from tests.simulation.loop import SimTask
from tests.simulation.nodes_host import KAFKA

if TYPE_CHECKING:
    from rookery.broker.node.broker_role import BrokerRole
    from rookery.controller.raft.node import RaftNode
    from tests.simulation.nodes_host import SimNode
    from tests.simulation.nodes_world import World

FETCH = "Fetch"
MANY = ("serve ", "task ")
"""Tasks of which a node may have several with one name: answers to peers that last, and those without a name."""


class Rest:
    """Call `left` again and again: it returns what was there each time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._left: set[str] | None = None

    def left(self) -> list[str]:
        now = set(self._found())
        self._left = now if self._left is None else self._left & now
        return sorted(self._left)

    def _found(self) -> Iterator[str]:
        for node in self._world.nodes.values():
            found = [*self._of_process(node)]
            if node.raft is not None:
                found += _of_raft(node.raft)
            if node.role is not None:
                found += [*_of_requests(node.role), *_of_partitions(node.role), *_of_coordinators(node.role)]
                fetches, others = node.role.waiters.size(FETCH), len(self._world.brokers) - 1
                found += [f"{fetches} fetches are parked for {others} followers"] * (fetches > others)
            yield from (f"node {node.id}: {each}" for each in found)

    def _of_process(self, node: SimNode) -> Iterator[str]:
        """Tasks, and connections whose other end is gone."""
        world = self._world
        tasks = [task for task in asyncio.all_tasks(world.loop) if isinstance(task, SimTask) and not task.done()]
        names = Counter(task.get_name() for task in tasks if task.process is node.process)
        for name, count in names.items():
            if name.startswith(("request ", "cut ")) or (count > 1 and not name.startswith(MANY)):
                yield f"{count} tasks {name}"
        ends = [end for end in world.network._ends if end.process is node.process and not end.ended]
        for end in ends:
            if end.other.ended or not end.other.process.alive:
                yield f"a connection that {end.other.process.host} has closed"
        accepted = sum(end.get_extra_info("sockname") == (node.host, KAFKA) for end in ends)
        if node.role is not None and node.role.server.limits.count != accepted:
            yield f"{node.role.server.limits.count} connections are counted, {accepted} are open"


def _of_raft(raft: RaftNode) -> Iterator[str]:
    driver = raft._driver
    if driver is not None and driver.commits._waiting:
        yield f"{len(driver.commits._waiting)} proposals to the quorum"


def _of_requests(role: BrokerRole) -> Iterator[str]:
    waiters, memory = role.waiters, role.server.memory
    for kind, size in waiters._sizes.items():
        if size and kind != FETCH:
            yield f"{size} requests are parked for {kind}"
    for partition in (*waiters._by_key, *waiters._watched):
        if role.partitions.of(partition.topic_id, partition.index) is not partition:
            yield f"somebody waits for {partition.topic_partition}, which is not there"
    if memory.used or memory._waiting:
        yield f"{memory.used} bytes of requests, {len(memory._waiting)} more wait"
    if role.client._isr_changes:
        yield f"{len(role.client._isr_changes)} changes of the ISR are not sent"


def _of_partitions(role: BrokerRole) -> Iterator[str]:
    for partition in role.partitions:
        named = partition.topic_partition
        if partition.leading is not None and not isinstance(partition.leading.isr, Committed):
            yield f"{named} proposes {partition.leading.isr}"
        if partition.cut is not None:
            yield f"{named} is being cut"
    for what, keys in (
        ("to settle", role.replicas._queue),
        ("fetched anew", role.replicas._refetched),
        ("to remove", role.replicas._retired),
        ("not made", role.replicas._failed),
    ):
        if keys:
            yield f"replicas {what}: {len(keys)}"


def _of_coordinators(role: BrokerRole) -> Iterator[str]:
    for shard in role.groups._shards:
        for group in shard.groups.groups.values():
            if len(group.members):
                yield f"group {group.id} has {len(group.members)} members"
    for coordinator, queue in role.verification._queues.items():
        if queue.waiting:
            yield f"questions about transactions to {coordinator}"
    for leader, lane in role.transactions.sender._lanes.items():
        if lane.waiting or lane.asked:
            yield f"markers for {leader}"
