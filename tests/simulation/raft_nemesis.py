"""Faults, each a method, each at random intervals: what may go wrong in a quorum that still deserves its
promises.

The only limit is on wiped disks: of no voter set that is in force anywhere may a majority be lost for ever.
"""

from random import Random
from uuid import UUID

from rookery.controller.raft.errors import RaftRefusedError
from rookery.controller.raft.voters import ReplicaKey, Voter, VoterSet
from tests.simulation.loop import VirtualLoop
from tests.simulation.net import Network
from tests.simulation.raft_disk import RaftDisk
from tests.simulation.raft_node import SimNode
from tests.simulation.raft_oracles import Oracles
from tests.simulation.raft_swarm import Swarm


class Nemesis:
    def __init__(
        self,
        loop: VirtualLoop,
        network: Network,
        rng: Random,
        swarm: Swarm,
        nodes: list[SimNode],
        oracles: Oracles,
        bootstrap: VoterSet,
    ) -> None:
        self.counts: dict[str, int] = {}
        self.active = True
        self._loop, self._network, self._rng, self._swarm = loop, network, rng, swarm
        self._nodes, self._oracles, self._bootstrap = nodes, oracles, bootstrap
        self._directories = 1000
        for fault in swarm.faults:
            self._schedule(fault)

    def _schedule(self, fault: str) -> None:
        self._loop.after(self._rng.expovariate(1.0) * self._swarm.faults[fault], self._strike, fault)

    def _strike(self, fault: str) -> None:
        if self.active:
            self.counts[fault] = self.counts.get(fault, 0) + 1
            getattr(self, "_" + fault.replace("-", "_"))()
            self._schedule(fault)

    def _leaders(self) -> list[SimNode]:
        return [node for node in self._nodes if node.is_leader and node.is_running and not node.paused]

    # -- processes -------------------------------------------------------------------------------------------

    def kill(self, node: SimNode, restart_after_ms: float) -> None:
        if not self.active:
            return
        followers = [other for other in self._nodes if other.leader_id == node.id and other is not node]
        node.crash()
        self._loop.after(restart_after_ms, self._restart, node, node.incarnation)
        for follower in followers:
            if self._rng.random() < self._swarm.notice_close:
                self._loop.after(self._rng.random() * 8, follower.leader_connection_closed, node.id)

    def _restart(self, node: SimNode, incarnation: int) -> None:
        if node.incarnation == incarnation:
            node.start()

    def downtime_ms(self) -> float:
        """Mostly short: a vote given before must be remembered while its epoch still runs."""
        return self._rng.choice((1.0, 10.0, 30.0, 300.0, 1.5 * self._swarm.config.fetch_timeout_ms)) * (
            0.5 + self._rng.random()
        )

    def _crash(self) -> None:
        self.kill(self._rng.choice(self._nodes), self.downtime_ms())

    def _crash_leader(self) -> None:
        for leader in self._leaders():
            self.kill(leader, self.downtime_ms())

    def _power(self) -> None:
        for node in self._nodes:
            self.kill(node, self.downtime_ms())

    def _pause(self) -> None:
        node = self._rng.choice(self._leaders() or self._nodes)
        if node.is_running and not node.paused:
            node.pause()
            length_ms = self._rng.choice((0.3, 1.0, 2.5)) * self._swarm.config.fetch_timeout_ms
            self._loop.after(length_ms, self._thaw, node, node.incarnation)

    def _thaw(self, node: SimNode, incarnation: int) -> None:
        if node.incarnation == incarnation:
            node.thaw()

    def _slow_disk(self) -> None:
        node = self._rng.choice(self._nodes)
        node.slow_until_ms = self._loop.now + self._swarm.config.fetch_timeout_ms * (0.5 + self._rng.random())

    # -- network ---------------------------------------------------------------------------------------------

    def _partition(self) -> None:
        ids = [node.id for node in self._nodes]
        leaders = [node.id for node in self._leaders()]
        victim = self._rng.choice(leaders or ids)
        if self._rng.random() < 0.5:
            victim = self._rng.choice(ids)
        rest = [id for id in ids if id != victim]
        self._network.heal()
        shape = self._rng.choice(("isolate", "deaf", "mute", "halves", "bridge"))
        if shape in ("isolate", "deaf"):
            self._network.cut_all(rest, [victim])
        if shape in ("isolate", "mute"):
            self._network.cut_all([victim], rest)
        if shape in ("halves", "bridge"):
            self._rng.shuffle(rest)
            middle = len(rest) // 2
            left, right = rest[:middle], rest[middle:]
            if shape == "halves":
                left = [*left, victim]
            self._network.cut_all(left, right)
            self._network.cut_all(right, left)
        length_ms = self._rng.choice((0.5, 1.0, 3.0)) * self._swarm.config.fetch_timeout_ms
        self._loop.after(length_ms, self._network.heal)

    def _close(self) -> None:
        """A connection to the leader breaks, though the leader lives."""
        node = self._rng.choice(self._nodes)
        node.leader_connection_closed(node.leader_id)

    # -- wishes ----------------------------------------------------------------------------------------------

    def _transfer(self) -> None:
        for leader in self._leaders():
            if leader.core is not None:
                leader.take(leader.core.transfer_leadership(leader.local_ms(), for_good=False))

    def _membership(self) -> None:
        for leader in self._leaders():
            if leader.core is None:
                continue
            try:
                self._change_voters(leader)
            except RaftRefusedError:
                self.counts["refused"] = self.counts.get("refused", 0) + 1

    def _change_voters(self, leader: SimNode) -> None:
        if leader.core is None:
            return
        voters = leader.core.voters
        outside = [node for node in self._nodes if voters.get(node.id) is None and node.is_running]
        if outside and (self._rng.random() < 0.5 or len(voters) < 2):
            node = self._rng.choice(outside)
            _, ready = leader.core.add_voter(Voter(node.disk.key), leader.local_ms())
        else:
            lost = [voter.key for voter in voters if self._is_lost(voter.key)]
            key = self._rng.choice(lost or [voter.key for voter in voters])
            if not self._bears_loss(voters.without(key.id)):
                return
            _, ready = leader.core.remove_voter(key, leader.local_ms())
        self.counts["voter-change"] = self.counts.get("voter-change", 0) + 1
        if self._rng.random() < self._swarm.harass_changes:
            self._harass(leader)
        leader.take(ready)

    def _harass(self, leader: SimNode) -> None:
        """What was just decided reaches few or nobody."""
        if self._rng.random() < 0.5:
            self._loop.after(self._rng.random() * 30, self.kill, leader, self.downtime_ms())
        else:
            rest = [node.id for node in self._nodes if node is not leader]
            self._network.cut_all([leader.id], rest)
            self._network.cut_all(rest, [leader.id])
            self._loop.after(1.5 * self._swarm.config.fetch_timeout_ms, self._network.heal)

    # -- disks -----------------------------------------------------------------------------------------------

    def _wipe(self) -> None:
        """A node comes back on a new disk, under its old node id."""
        node = self._rng.choice(self._nodes)
        sets = [self._bootstrap, *self._sets_in_force()]  # an empty disk knows only what is configured
        if not all(self._bears_loss(voters, [node.disk.key]) for voters in sets):
            return
        self.counts["wiped"] = self.counts.get("wiped", 0) + 1
        self.kill(node, self.downtime_ms())
        self._directories += 1
        node.lost_disks.append(node.disk)
        node.disk = RaftDisk(ReplicaKey(node.id, UUID(int=self._directories)))

    def _sets_in_force(self) -> list[VoterSet]:
        """All voter sets by which some node may decide now or after it cuts its log."""
        found = [[voters for _, voters in node.disk.voter_sets()] for node in self._nodes]
        configured = [] if all(found) else [self._bootstrap]
        return [*configured, *(voters for sets in found for voters in sets)]

    def bearable_loss(self) -> list[SimNode]:
        """Nodes without which the others must still get on."""
        lost: list[SimNode] = []
        sets = self._sets_in_force()
        for node in self._rng.sample(self._nodes, len(self._nodes)):
            keys = [other.disk.key for other in (*lost, node)]
            left = [other for other in self._nodes if other not in (*lost, node)]
            if all(self._bears_loss(voters, keys) for voters in sets) and self._has_begun(left):
                lost.append(node)
        return lost

    def _has_begun(self, nodes: list[SimNode]) -> bool:
        """Whether these need no first election: for that all voters are needed, unless their disks are configured."""
        return self._bootstrap.all_pinned or any(True for node in nodes for _ in node.disk.voter_sets())

    def _is_lost(self, key: ReplicaKey) -> bool:
        disk = self._nodes[key.id].disk
        return disk.key != key and key.directory_id != UUID(int=0)

    def _bears_loss(self, voters: VoterSet, more: list[ReplicaKey] | None = None) -> bool:
        lost = sum(self._is_lost(voter.key) or self._is_in(voter.key, more or []) for voter in voters)
        return lost == 0 or lost * 2 < len(voters)

    def _is_in(self, key: ReplicaKey, keys: list[ReplicaKey]) -> bool:
        return any(key == other or key == (other.id, UUID(int=0)) for other in keys)
