"""Disks of simulated nodes that fail for a while, fill up, and rot.

A fault covers all files of a disk, one log dir or one partition. What rots is a closed segment that is durable, or one
of its indexes, of one replica of a partition at a time, while another has the records. Damage to a segment is kept in
mind until the file is gone: the node must find it and rebuild the replica from another. Checkpoints and snapshots of
producers rot, too: they cost time at the next start, and no record.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from rookery.broker.log.offset_checkpoints import CHECKPOINTS
from rookery.core.ids import id_text
from rookery.core.log.checkpoints import RECOVERY_POINTS, CheckpointDamaged, decode_offsets
from rookery.core.log.names import LEADER_EPOCHS, PARTITION_METADATA, SNAPSHOT, TXN_INDEX
from rookery.core.log.ownership import CLEAN_SHUTDOWN
from rookery.core.testing.disk import MemoryDisk, _Folder
from rookery.core.wire.records import batches
from tests.simulation.controller_rules import Violation

if TYPE_CHECKING:
    from tests.simulation.nodes_host import Place, SimNode
    from tests.simulation.nodes_world import World

READS = frozenset({"read", "open", "list"})
CHANGES = frozenset({"write", "truncate", "create", "rename", "remove", "mkdir", "rmdir"})
SYNCS = frozenset({"sync", "sync_dir"})
KINDS = (READS, CHANGES, CHANGES, SYNCS, READS | CHANGES | SYNCS)
LENGTH_AT, MAGIC_AT, HEADER = 8, 16, 61
OF_A_DIR = (*CHECKPOINTS, CLEAN_SHUTDOWN)
OF_A_PARTITION = (LEADER_EPOCHS, SNAPSHOT, TXN_INDEX)
UNCLEAN = (RECOVERY_POINTS, CLEAN_SHUTDOWN)
"""Without these a start is one after a crash."""
ROOM_MAX = 3000


@dataclass(slots=True)
class Fault:
    """Operations on paths that begin with `prefix` fail, until it is lifted."""

    prefix: str
    operations: frozenset[str]


class SimDisk(MemoryDisk):
    """A disk in memory with faults that last."""

    def __init__(self, rng: Random, **more: Any) -> None:
        super().__init__(rng, **more)
        self.faults: list[Fault] = []
        self.room: dict[str, int] = {}
        """Bytes that are left for paths that begin so."""
        self.hits = 0
        """Operations that failed since the process was started."""
        self.sync_failed = False
        """Whether a sync failed, so that what was written since the one before is lost when the machine restarts."""

    @property
    def endangered(self) -> bool:
        """Whether a sync may fail."""
        return self.sync_failed or any("sync" in fault.operations for fault in self.faults)

    def meet(self, operation: str, path: str) -> None:
        super().meet(operation, path)
        for fault in self.faults:
            if operation in fault.operations and path.startswith(fault.prefix):
                self.hits += 1
                self.sync_failed |= operation in SYNCS
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def take(self, path: str, size: int) -> int:
        for prefix, left in self.room.items():
            if path.startswith(prefix):
                self.step("write", path)
                taken = min(size, left)
                if size and not taken:
                    self.hits += 1
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
                self.room[prefix] = left - taken
                return taken
        return super().take(path, size)

    def restart(self) -> None:
        """After a failed sync the machine is started anew, not the process alone: what the kernel dropped is gone."""
        if self.sync_failed:
            for folder in self._folders.values():
                for inode in folder.names.values():
                    if inode.broken:
                        inode.lose_unsynced(self._rng)
        self.hits, self.sync_failed = 0, False
        super().restart()

    def exists_now(self, path: str) -> bool:
        """Whether a file is there, whatever fails."""
        folder = self._folders.get(os.path.dirname(path))
        return folder is not None and os.path.basename(path) in folder.names

    def lift(self) -> None:
        """Everything works from now on, but what went wrong has gone wrong."""
        self.faults.clear()
        self.room.clear()

    def wipe(self) -> None:
        self._folders = {"": _Folder(), "/": _Folder()}

    def list_now(self, folder: str) -> list[str]:
        """The files of a folder, whatever fails."""
        found = self._folders.get(folder)
        return list(found.names) if found is not None else []

    def drop(self, folder: str) -> None:
        """A folder is moved away, with all that is in it."""
        for path in [path for path in self._folders if path == folder or path.startswith(f"{folder}/")]:
            del self._folders[path]

    def lose_name(self, path: str) -> None:
        """A file is gone behind its owner's back."""
        folder = self._folder_of(path)
        del folder.names[os.path.basename(path)]
        folder.sync()


@dataclass(slots=True)
class Rot:
    """A damaged segment."""

    node: SimNode
    place: Place
    path: str
    inode: Any
    gone: bool

    @property
    def is_there(self) -> bool:
        """Whether a replica still has it; with the file gone, whether its folder is still the same, and has segments
        before the hole: once those are deleted, the log starts behind it."""
        disk = self.node.disk
        if self.gone:
            known, lost = disk._folders.get(os.path.dirname(self.path)), os.path.basename(self.path)
            before = known is not None and any(name.endswith(".log") and name < lost for name in known.names)
            return known is self.inode and before and not disk.exists_now(self.path)
        return disk.exists_now(self.path) and disk._inode(self.path) is self.inode


def damaged(content: bytes, rng: Random, *, sparse: bool) -> bytes | None:
    """A segment after damage that its owner can find. Base offsets and epochs, which no checksum covers, stay."""
    bounds = [(at, at + header.size) for at, header in batches(content)]
    if not bounds:
        return None
    start, end = rng.choice(bounds)
    kind = rng.choice(("flip", "zeros", "junk", "cut", "hole"))
    if kind == "flip":
        at = rng.choice((rng.randrange(start + LENGTH_AT, start + LENGTH_AT + 4), rng.randrange(start + MAGIC_AT, end)))
        return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
    if kind == "zeros":
        return content[:start] + bytes(end - start) + content[end:]
    if kind == "junk":
        return content[:end] + rng.randbytes(rng.randint(1, 100)) + content[end:]
    if kind == "cut" or sparse:  # in a log with gaps one more batch that is missing cannot be told
        return content[: start + rng.randint(1, end - start - 1)] + content[end:]
    return content[:start] + content[end:]


def damaged_text(content: bytes, rng: Random) -> bytes | None:
    """A small file after damage; None: it is gone. These files have no checksum, so that a changed digit stays one."""
    kind = rng.choice(("cut", "zeros", "junk", "gone", "empty"))
    at = rng.randrange(len(content)) if content else 0
    if kind == "cut":
        return content[:at]
    if kind == "zeros":
        return content[:at] + bytes(len(content) - at)
    if kind == "junk":
        return content[:at] + b"\xff" + rng.randbytes(20) + content[at:]
    return None if kind == "gone" else b""


class DiskFaults:
    """What the nemesis does to disks."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self.rots: list[Rot] = []

    # --- errors and full disks -------------------------------------------------------------------------------

    def _prefix(self, node: SimNode) -> str:
        """All of a disk, one log dir, or one folder in it."""
        folders = [folder for folder in node.disk._folders if folder.startswith("/data")]
        inner = [folder for folder in folders if folder.count("/") > 1]
        return self._rng.choice((["/"], folders or ["/"], inner or ["/"])[self._rng.randrange(3)])

    def fail(self, node: SimNode) -> Fault | None:
        operations = self._rng.choice(KINDS)
        if "sync" in operations and not self._may_lose(node):
            operations = READS
        fault = Fault(self._prefix(node), operations)
        node.disk.faults.append(fault)
        self._world.trace("disk fails", node.id, fault.prefix, len(operations))
        return fault

    def _may_lose(self, node: SimNode) -> bool:
        return all(self._world.tolerates(place, node, cut=True) for place in self._world.places_of(node.id))

    def heal(self, node: SimNode, fault: Fault) -> None:
        if fault in node.disk.faults:
            node.disk.faults.remove(fault)
            self._world.trace("disk works", node.id, fault.prefix)

    def fill(self, node: SimNode) -> str:
        prefix = self._prefix(node)
        node.disk.room[prefix] = self._rng.randint(0, ROOM_MAX)
        self._world.trace("disk full", node.id, prefix, node.disk.room[prefix])
        return prefix

    def empty(self, node: SimNode, prefix: str) -> None:
        if node.disk.room.pop(prefix, None) is not None:
            self._world.trace("disk has room", node.id, prefix)

    # --- rot -------------------------------------------------------------------------------------------------

    def rot(self) -> None:
        """A closed segment of one replica changes where another, in sync and whole, has its records."""
        world = self._world
        places = [place for place in world.places() if self._can_rot(place)]
        self._rng.shuffle(places)
        for place in places:
            partition = world.partition(place)
            for number in self._rng.sample(partition.replicas, len(partition.replicas)) if partition else ():
                node = world.nodes[number]
                others = [n for n in partition.isr if n != number] if partition else []
                if others and world.tolerates(place, node, cut=True) and self._rot(node, place):
                    return

    def _can_rot(self, place: Place) -> bool:
        history = self._world.oracles.history(place)
        return not history.unclean and history.min_insync > 1 and not any(rot.place == place for rot in self.rots)

    def _rot(self, node: SimNode, place: Place) -> bool:
        disk = node.disk
        found = self._closed(node, place)
        if not found:
            return False
        path = self._rng.choice(found)
        if self._rng.random() < 0.2:
            return self._rot_index(node, path)
        first = path == found[0]
        if not first and self._rng.random() < 0.1:
            folder = disk._folders[os.path.dirname(path)]
            self.rots.append(Rot(node, place, path, folder, gone=True))
            disk.lose_name(path)
        else:
            sparse = disk.exists_now(f"{os.path.dirname(path)}/partition.sparse")
            content = damaged(disk.contents(path), self._rng, sparse=sparse)
            if content is None or content == disk.contents(path):
                return False
            disk.edit(path, content)
            self.rots.append(Rot(node, place, path, disk._inode(path), gone=False))
        self._world.oracles.count("rotten")
        self._world.trace("rot", node.id, path)
        return True

    def _rot_index(self, node: SimNode, path: str) -> bool:
        """An index is a cache: whatever it says, no read may go wrong."""
        index = path[: -len("log")] + self._rng.choice(("index", "timeindex"))
        content = node.disk.contents(index) if node.disk.exists_now(index) else b""
        if not content:
            return False
        at = self._rng.randrange(len(content))
        junk = self._rng.randbytes(12)
        node.disk.edit(index, self._rng.choice((content[:at], content[:at] + junk + content[at:], junk)))
        self._world.trace("index rots", node.id, index)
        return True

    def rot_checkpoint(self) -> SimNode | None:
        """A file that says how far something is, or remembers producers, is damaged or gone. Returns whose it was."""
        world = self._world
        node = self._rng.choice([node for node in world.nodes.values() if node.is_broker])
        files = self._small_files(node)
        path = self._rng.choice(files) if files else ""
        unclean = path.endswith(UNCLEAN)
        if not path or (unclean and not (self._trusted(node) and world.may_kill(node))):
            return None
        content = damaged_text(node.disk.contents(path), self._rng)
        if content is None:
            node.disk.lose_name(path)
        else:
            node.disk.edit(path, content)
        if unclean:
            node.ended_uncleanly()
        world.oracles.count("rotten checkpoints")
        world.trace("checkpoint rots", node.id, path, content is None)
        return node

    def _trusted(self, node: SimNode) -> bool:
        """Whether no segment of a node rots: what has rotted and is not known to be durable cannot be told from what
        was torn by a crash."""
        self.is_sound()
        return all(rot.node is not node for rot in self.rots)

    def _small_files(self, node: SimNode) -> list[str]:
        found = []
        for folder, inside in node.disk._folders.items():
            if folder.startswith("/data") and "-delete" not in folder and "-stray" not in folder:
                found += [f"{folder}/{name}" for name in inside.names if name.endswith((*OF_A_DIR, *OF_A_PARTITION))]
        metadata = f"{node.metadata_folder}/"  # the committed end that a voter notes is looked after by an operator
        return sorted(path for path in found if not path.startswith(metadata) or path.endswith(LEADER_EPOCHS))

    def _closed(self, node: SimNode, place: Place) -> list[str]:
        """Closed segments of a replica that the next start takes for durable, whatever happens."""
        disk, log = node.disk, node.log(place)
        folders = [f for f in disk._folders if f.endswith(f"/{place.topic}-{place.index}") and f.startswith("/data")]
        for folder in folders:
            checkpoint, owner = f"{os.path.dirname(folder)}/{RECOVERY_POINTS}", f"{folder}/{PARTITION_METADATA}"
            if log is None or not disk.exists_now(checkpoint) or not disk.exists_now(owner):
                continue
            if id_text(place.id).encode() not in disk.contents(owner):
                continue
            try:
                durable = decode_offsets(checkpoint, disk.contents(checkpoint)).get(place.named, 0)
            except CheckpointDamaged:
                return []
            safe = min(durable, log.high_watermark)
            names = sorted(name for name in disk._folders[folder].names if name.endswith(".log"))
            bases = [int(name.removesuffix(".log")) for name in names]
            ends = zip(names, bases[1:], strict=False)
            return [f"{folder}/{name}" for name, end in ends if end <= safe]
        return []

    def rotten(self, place: Place) -> set[int]:
        """Nodes whose replica of a partition is damaged, as far as it has not been rebuilt."""
        self.rots = [rot for rot in self.rots if rot.is_there]
        return {rot.node.id for rot in self.rots if rot.place == place}

    def is_sound(self) -> bool:
        self.rots = [rot for rot in self.rots if rot.is_there]
        return not self.rots

    def lift(self) -> None:
        for node in self._world.nodes.values():
            node.disk.lift()


def excused(error: BaseException | None) -> bool:
    """Whether a node may end by this because its disk failed."""
    if isinstance(error, Violation):
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(map(excused, error.exceptions))
    return error is not None
