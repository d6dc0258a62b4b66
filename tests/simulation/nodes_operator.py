"""Who looks after the voters of simulated nodes, as the manual says: takes votes away and gives them back, replaces a
controller's disk, and rebuilds a node whose metadata is damaged, found at its start or while it leads.

One thing after the other, each to its end. Only some seeds have an operator (`Swarm.voter_work`), and what it draws is
its own, so that all other seeds are what they were.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import grpc

from rookery.client.cli.quorum import Controllers, _caller
from rookery.client.errors import CliError
from rookery.core.log.checkpoints import HIGH_WATERMARKS, decode_offsets
from rookery.core.log.ownership import META_PROPERTIES, id_from
from rookery.core.wire.batch import CRC_FROM
from rookery.core.wire.records import batches
from rookery.proto import raft_pb2 as pb
from tests.simulation.nodes_clients import Client
from tests.simulation.nodes_disks import damaged
from tests.simulation.nodes_host import CONTROL

if TYPE_CHECKING:
    from tests.simulation.nodes_host import SimNode
    from tests.simulation.nodes_world import World

Failed = (CliError, grpc.aio.AioRpcError, TimeoutError)
AGAIN_S = 0.5
CHANGE_MS = 5000
ENDS_S = 6.0
"""Within which a node that has found damage has ended."""
CARELESS = 0.3
"""How often an empty node is started before its lost disk has no vote any more."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file of a node's metadata that was changed."""

    node: SimNode
    path: str
    before: bytes
    after: bytes
    last: int
    """Of a log: the end of its last batch that may be damaged. A snapshot with that in it makes it superfluous."""

    def matters(self) -> bool:
        disk = self.node.disk
        if not disk.exists_now(self.path) or not disk.contents(self.path).startswith(self.after):
            return False
        ends = [int(name[:20]) for name in disk.list_now(self.node.metadata_folder) if name.endswith(".checkpoint")]
        return self.last < 0 or all(end < self.last for end in ends)

    def mend(self) -> None:
        disk = self.node.disk
        if disk.exists_now(self.path) and disk.contents(self.path).startswith(self.after):
            disk.edit(self.path, self.before + disk.contents(self.path)[len(self.after) :])


def _last(content: bytes, first: int, end: int) -> int:
    """The end of the last batch between two offsets, or -1."""
    found = [each.next_offset for _, each in batches(content) if first <= each.base_offset and each.next_offset <= end]
    return max(found, default=-1)


class Operator(Client):
    def __init__(self, world: World) -> None:
        super().__init__(world, "operator")
        self.draw = Random(f"{world.seed} operator")
        self.busy = False
        self.done: dict[str, int] = {}
        self.run(self._go())

    async def _go(self) -> None:
        world, work = self.world, self.world.swarm.voter_work
        addresses = [f"n{number}:{CONTROL}" for number in world.swarm.voters]
        async with Controllers(addresses, None) as self._controllers:
            while not world.calm:
                await asyncio.sleep(self.draw.expovariate(1.0) * world.swarm.voter_work_s)
                if world.calm:
                    break
                chosen = self.draw.choices(list(work), list(work.values()))[0]
                node = world.nodes[self.draw.choice(world.swarm.voters)]
                world.trace("operator", chosen, node.id)
                self.busy = True
                if await getattr(self, chosen)(node):
                    self.done[chosen] = self.done.get(chosen, 0) + 1
                    world.trace("operator has done", chosen, node.id)
                self.busy = False

    # --- what is done ----------------------------------------------------------------------------------------

    async def change_voters(self, node: SimNode) -> bool:
        """A voter that is well has no vote for a while."""
        if not await self._has_voters():
            return False
        await self._remove(node, self._directory(node))
        await asyncio.sleep(self.draw.random() * 4.0)
        await self._add(node)
        return True

    async def wipe_voter(self, node: SimNode) -> bool:
        """A controller loses its disk, with all its replicas if it is a broker too, and gets an empty one."""
        world = self.world
        lost = self._directory(node)
        if not await self._has_voters() or not all(
            world.tolerates(place, node, cut=True) for place in world.places_of(node.id)
        ):
            return False
        node.away = True
        node.power_cut()
        node.wipe()
        if self.draw.random() < CARELESS:
            self._start(node)
        await self._remove(node, lost)
        self._start(node)
        await self._add(node)
        return True

    async def rot_metadata(self, node: SimNode) -> bool:
        """What a node has of the metadata rots while it is down: it must not run on that. Its operator takes its vote,
        moves the metadata away and starts it again."""
        world, directory = self.world, self._directory(node)
        if not await self._has_voters() or not world.may_kill(node):
            return False
        node.kill()
        if not self._rot(node):
            return False
        node.metadata_damage = lambda: True
        while node.metadata_damage is not None:  # until it has refused to start; its disk may fail meanwhile
            await asyncio.sleep(AGAIN_S)
            node.start()
        await self._rebuild(node, directory)
        return True

    async def rot_live_metadata(self, behind: SimNode) -> bool:
        """What a voter that was away for a while needs rots on the disk of the leader, which runs: it must not keep
        the other from it for ever, and ends when it is asked for it."""
        world, leader = self.world, self._leader()
        if leader is None or leader is behind or not (await self._has_voters() and world.may_kill(behind)):
            return False
        have = behind.raft.driver().storage.end_offset if behind.raft is not None and behind.ready else None
        directory = self._directory(leader)
        behind.kill()
        behind.away = True
        await asyncio.sleep(1.0 + self.draw.random() * 3.0 * world.swarm.pace)
        damage = self._rot_needed(leader, have) if have is not None and leader is self._leader() else None
        self._start(behind)
        if damage is None:
            return False
        leader.metadata_damage = damage.matters
        while leader.metadata_damage is not None and damage.matters() and not self._is_level(behind):
            await asyncio.sleep(AGAIN_S)
        if leader.metadata_damage is not None:  # it lost its leadership, or has a newer snapshot: nobody was harmed
            damage.mend()
            leader.metadata_damage = lambda: False
            await asyncio.sleep(ENDS_S)  # or it is about to end
        if leader.metadata_damage is not None:
            leader.metadata_damage = None
            return False
        world.oracles.count("ended by damaged metadata")
        await self._rebuild(leader, directory)
        return True

    # --- steps -----------------------------------------------------------------------------------------------

    async def _rebuild(self, node: SimNode, directory: UUID) -> None:
        """From the others: without its vote, it begins with nothing, and gets its vote back."""
        await self._remove(node, directory)
        node.disk.drop(node.metadata_folder)
        self._start(node)
        await self._add(node)

    def _leader(self) -> SimNode | None:
        for node in self.world.nodes.values():
            if node.running and node.ready and node.raft is not None and node.raft.leader[0] == node.id:
                return node
        return None

    def _is_level(self, node: SimNode) -> bool:
        """Whether a voter has all that is committed."""
        return node.ready and node.raft is not None and node.raft.driver().storage.end_offset > self.world.image.offset

    def _start(self, node: SimNode) -> None:
        node.away = False
        node.start()

    def _directory(self, node: SimNode) -> UUID:
        """Which disk votes, or is to vote: `directory.id` in its meta.properties."""
        path = f"{node.metadata_dir}/{META_PROPERTIES}"
        lines = node.disk.contents(path).decode().splitlines()
        return id_from(path, next(line.partition("=")[2] for line in lines if line.startswith("directory.id")))

    async def _has_voters(self) -> bool:
        """Whether the quorum has a leader and all the votes that it should have."""
        try:
            _, found = await self._controllers.leader()
        except Failed:
            return False
        return {voter.id for voter in found.voters} == set(self.world.swarm.voters)

    async def _remove(self, node: SimNode, directory: UUID) -> None:
        """Until its vote is gone: an answer may get lost, a leader may go."""
        while True:
            try:
                stub, found = await self._controllers.leader()
                if all((voter.id, voter.directory_id) != (node.id, directory.bytes) for voter in found.voters):
                    return
                request = pb.RemoveVoterRequest(
                    caller=_caller(found), voter_id=node.id, voter_directory_id=directory.bytes, timeout_ms=CHANGE_MS
                )
                answer = await stub.RemoveVoter(request, timeout=CHANGE_MS / 1000 + 1.0)
                self.world.trace("vote removed", node.id, answer.error)
            except Failed:
                pass
            await asyncio.sleep(AGAIN_S)

    async def _add(self, node: SimNode) -> None:
        """Until it has a vote: it must have started and have all that is committed."""
        while True:
            try:
                stub, found = await self._controllers.leader()
                if any(voter.id == node.id for voter in found.voters):
                    return
                if node.up and node.disk.exists_now(f"{node.metadata_dir}/{META_PROPERTIES}"):
                    address = f"{node.host}:{CONTROL}"
                    voter = pb.Voter(id=node.id, directory_id=self._directory(node).bytes, endpoint=address)
                    request = pb.AddVoterRequest(caller=_caller(found), voter=voter, timeout_ms=CHANGE_MS)
                    answer = await stub.AddVoter(request, timeout=CHANGE_MS / 1000 + 1.0)
                    self.world.trace("vote added", node.id, answer.error)
            except Failed:
                pass
            await asyncio.sleep(AGAIN_S)

    def _rot(self, node: SimNode) -> bool:
        """Damage the newest snapshot, the log since then as far as it is committed, or the state of the voter."""
        disk, folder = node.disk, node.metadata_folder
        names = sorted(disk.list_now(folder))
        snapshots = [name for name in names if name.endswith(".checkpoint") and name[0].isdigit()]
        state, after = f"{folder}/quorum-state", int(snapshots[-1].partition("-")[0]) if snapshots else 0
        choices = [state] if state.rpartition("/")[2] in names else []
        choices += [f"{folder}/{snapshots[-1]}"] if snapshots else []
        choices += [f"{folder}/{name}" for name in names if name.endswith(".log")]
        path = self.draw.choice(choices)
        content = disk.contents(path)
        if path == state:
            changed: bytes | None = content[: len(content) // 2]
        elif path.endswith(".log"):
            changed = self._rotten_log(content, after, self._committed(node))
        else:
            changed = damaged(content, self.draw, sparse=True)
        if not changed or changed == content:
            return False
        disk.edit(path, changed)
        self.world.trace("metadata rots", node.id, path)
        return True

    def _rot_needed(self, leader: SimNode, have: int) -> Damage | None:
        """What a voter that ends at `have` is going to be sent: some committed batch behind that, or a snapshot."""
        raft = leader.raft
        if raft is None:
            return None
        disk, storage, draw = leader.disk, raft.driver().storage, self.draw
        if storage.start_offset > have:
            snapshot = storage.latest_snapshot
            path = storage.snapshots.path(snapshot) if snapshot is not None else ""
            content = disk.contents(path) if path else b""
            changed = damaged(content, draw, sparse=True) if content else None
            found = (path, content, changed, -1)
        else:
            end = self._committed(leader)  # behind that a start takes what is damaged for torn
            paths = [f"{leader.metadata_folder}/{name}" for name in disk.list_now(leader.metadata_folder)]
            logs = [path for path in paths if path.endswith(".log")]
            bounds = {path: _last(disk.contents(path), have, end) for path in sorted(logs)}
            path = next((path for path, last in bounds.items() if last >= 0), "")
            content = disk.contents(path) if path else b""
            changed = self._rotten_log(content, have, end) if path else None
            found = (path, content, changed, bounds.get(path, -1))
        path, content, changed, last = found
        if not changed or changed == content:
            return None
        disk.edit(path, changed)
        self.world.trace("metadata rots, it runs", leader.id, path)
        return Damage(leader, path, content, changed, last)

    def _committed(self, node: SimNode) -> int:
        path = f"{node.metadata_folder}/{HIGH_WATERMARKS}"
        found = decode_offsets(path, node.disk.contents(path)) if node.disk.exists_now(path) else {}
        return max(found.values(), default=0)

    def _rotten_log(self, content: bytes, first: int, end: int) -> bytes | None:
        """A byte, of a batch that the node must read, that a checksum covers."""
        found = [(at, each) for at, each in batches(content) if first <= each.base_offset and each.next_offset <= end]
        if not found:
            return None
        at, header = self.draw.choice(found)
        where = self.draw.randrange(at + CRC_FROM, at + header.size)
        return content[:where] + bytes([content[where] ^ (1 << self.draw.randrange(8))]) + content[where + 1 :]
