"""Writes go on during faults: while a majority of voters and enough replicas of a partition live and reach each other.

A group of nodes is well since the last of them became ready or went on, and the last cut or slow link between them
ended. Where a group holds a majority of the voters, `min.insync.replicas` replicas of a partition and one of them that
may lead it, an `acks=all` write must be acknowledged within the failover bound (`Swarm.failover_s`), over and over.
Whoever leads the partition or the quorum without being of the group must be out of reach for it: a leader that its
controller hears is not replaced, here as in Kafka.
"""

from __future__ import annotations

import asyncio
from itertools import combinations
from typing import TYPE_CHECKING

from rookery.core.errors import ErrorCode
from tests.simulation.controller_rules import require
from tests.simulation.nodes_clients import Producer

if TYPE_CHECKING:
    from tests.simulation.nodes_host import Place, SimNode
    from tests.simulation.nodes_world import World

LOOK_S = 0.25
Group = frozenset[int]


class Progress(Producer):
    """Looks at who is well, and writes where writes must go on."""

    def __init__(self, world: World, number: int) -> None:
        self._linked: dict[frozenset[int], float] = {}
        self._able: dict[tuple[Place, Group], float] = {}
        self._acked_at: dict[Place, float] = {}
        self._errors: dict[Place, str] = {}
        self._sending: set[Place] = set()
        self.stopped = False
        world.network.changed.append(self._look_at_links)
        super().__init__(world, number, acks=-1, idempotent=False)

    async def _go(self) -> None:
        within_s = self.world.swarm.failover_s
        while not self.stopped:
            self._look_at_links()
            able = self._look()
            now = self.world.loop.time()
            for place, since in able.items():
                if now - self._acked_at.get(place, since) > within_s / 6 and place not in self._sending:
                    self._sending.add(place)
                    self.run(self._write(place))
                waited_s = now - max(since, self._acked_at.get(place, 0.0))
                what = f"{place}: no write for {waited_s:.1f} s, though enough nodes are well:"
                require(waited_s <= within_s, "liveness", what, self._errors.get(place), self.world.partition(place))
            await asyncio.sleep(LOOK_S)
        self.close()

    async def _write(self, place: Place) -> None:
        found = self.leader(place)
        self._errors[place] = "no leader"
        if found is not None:
            batch = self.batch(place, 1)
            await self._send(found[0], [batch], int(self.world.swarm.failover_s * 1000 / 4))
            self._errors[place] = batch.code.name
            if batch.code == ErrorCode.NONE:
                self._acked_at[place] = self.world.loop.time()
                self.world.oracles.count("went on")
        await asyncio.sleep(LOOK_S)
        self._sending.discard(place)

    # --- who is well -----------------------------------------------------------------------------------------

    def _look_at_links(self) -> None:
        network, now = self.world.network, self.world.loop.time()
        nodes = list(self.world.nodes.values())
        for one, other in combinations(nodes, 2):
            pair = frozenset((one.id, other.id))
            slow = (one.host, other.host) in network._slow or (other.host, one.host) in network._slow
            if slow or not network.linked(one.host, other.host):
                self._linked[pair] = now
        for node in nodes:
            if not self._is_well(node):
                node.unwell_at = now

    def _is_well(self, node: SimNode) -> bool:
        disk, role = node.disk, node.role
        offline = role is not None and role.log_dirs.offline
        return node.running and node.ready and not (node.leaving or disk.faults or disk.room or offline)

    def _since(self, group: Group) -> float:
        times = [self.world.nodes[node].unwell_at for node in group]
        return max(*times, *(self._linked.get(frozenset(pair), 0.0) for pair in combinations(group, 2)))

    def _look(self) -> dict[Place, float]:
        """Partitions that must take writes, and since when."""
        now = self.world.loop.time()
        able: dict[Place, float] = {}
        everybody = frozenset(self.world.nodes)
        for group in (everybody, *(everybody - {node} for node in sorted(everybody))):
            since = self._since(group)
            controlled = since < now and self._is_majority(group) and not self._strangers(group)
            for place in self.world.places():
                if not controlled or place.topic.startswith("__") or not self._enough(place, group):
                    self._able.pop((place, group), None)
                else:
                    found = max(self._able.setdefault((place, group), now), since)
                    able[place] = min(able.get(place, found), found)
        return able

    def _is_majority(self, group: Group) -> bool:
        voters = self.world.swarm.voters
        return 2 * sum(voter in group for voter in voters) > len(voters)

    def _strangers(self, group: Group) -> list[int]:
        """Who leads the quorum, or believes so, from outside and is heard inside."""
        leaders = [node for node in self.world.nodes.values() if node.raft and node.raft.leader[0] == node.id]
        return [node.id for node in leaders if node.id not in group and self._is_heard(node, group)]

    def _is_heard(self, node: SimNode, group: Group) -> bool:
        network = self.world.network
        inside = (self.world.nodes[other].host for other in group)
        return node.running and any(network.linked(node.host, host) for host in inside)

    def _enough(self, place: Place, group: Group) -> bool:
        world, partition = self.world, self.world.partition(place)
        if partition is None or world.oracles.lossy(place) or world.disks.rotten(place):
            return False
        leader = world.nodes.get(partition.leader)
        stranger = leader is not None and leader.id not in group and self._is_heard(leader, group)
        may_lead = any(node in group for node in (*partition.isr, *partition.elr))
        enough = sum(node in group for node in partition.replicas) >= world.oracles.need(place)
        return may_lead and enough and not stranger
