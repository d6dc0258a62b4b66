"""Whose a folder is: a node works only in folders that are its own, and in each as the only process.

The lock comes first, whatever role opens the folder: nothing in it is read, repaired or written by two processes.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from rookery.core.disk import Disk, Lock
from rookery.core.log.checkpoints import CheckpointDamaged
from rookery.core.log.folder_files import META_PROPERTIES, MetaProperties


class WrongFolderError(Exception):
    """The folder belongs to another node or cluster, or nobody said to which cluster a new one shall belong."""


@dataclass(slots=True)
class _Held:
    lock: Lock
    times: int = 1


@dataclass(slots=True)
class FolderLocks:
    """The folders one node holds. Its roles may share a folder: it is locked once and released by the last of them."""

    disk: Disk
    node_id: int
    _held: dict[str, _Held] = field(default_factory=dict)

    def take(self, folder: str) -> None:
        """Raises FolderInUseError if another process holds the folder."""
        path = os.path.normpath(folder)
        held = self._held.get(path)
        if held is not None:
            held.times += 1
        else:
            self._held[path] = _Held(self.disk.lock(folder, f"node {self.node_id}"))

    def release(self, folder: str) -> None:
        path = os.path.normpath(folder)
        held = self._held[path]
        held.times -= 1
        if held.times == 0:
            del self._held[path]
            held.lock.release()


def claim_folder(locks: FolderLocks, folder: str, *, cluster_id: str, new_directory_id: UUID) -> MetaProperties:
    """Take the folder for this node and process; what `meta.properties` says, written first if the folder is new.

    WrongFolderError if it is not this node's, FolderInUseError if another process works in it; only then is it not
    locked when this returns. `cluster_id` may be empty on a folder that knows its cluster. Blocks; for a thread.
    """
    locks.disk.mkdir(folder)
    if os.path.dirname(folder):
        with suppress(PermissionError):  # a parent that cannot be read was not made here
            locks.disk.sync_dir(os.path.dirname(folder))
    locks.take(folder)
    try:
        return _identified(locks, folder, cluster_id, new_directory_id)
    except BaseException:
        locks.release(folder)
        raise


def _identified(locks: FolderLocks, folder: str, cluster_id: str, new_directory_id: UUID) -> MetaProperties:
    disk, node_id = locks.disk, locks.node_id
    try:
        found = MetaProperties.read(disk, folder)
    except CheckpointDamaged as error:
        raise WrongFolderError(
            f"{error}: bring the file back from a backup, or empty the folder to begin anew with what other nodes have"
        ) from None
    path = f"{folder}/{META_PROPERTIES}"
    if found is None:
        if not cluster_id:
            raise WrongFolderError(
                f"{folder} is new and rookery.cluster.id is not set: say which cluster it shall belong to"
            )
        found = MetaProperties(cluster_id, node_id, new_directory_id)
        found.write(disk, folder)
        return found
    if cluster_id and found.cluster_id != cluster_id:
        raise WrongFolderError(
            f"{path} says the folder belongs to cluster {found.cluster_id}, but this node is configured for cluster "
            f"{cluster_id}: point log.dirs at the right folder, or correct rookery.cluster.id"
        )
    if found.node_id != node_id:
        raise WrongFolderError(
            f"{path} says the folder belongs to node {found.node_id}, but node.id is {node_id}: point log.dirs at "
            "this node's own folder, or correct node.id"
        )
    return found
