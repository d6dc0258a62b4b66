"""Ownership of folders: a node uses only its own folders, and only one process at a time uses each of them.

`meta.properties` says which node and cluster a log folder belongs to, `partition.metadata` which topic a partition's
folder belongs to. The lock comes first, whatever role opens the folder: nothing in it is read, repaired or written by
two processes. The marker of a clean shutdown is the last file that a process writes there.
"""

import base64
import binascii
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

from rookery.core.disk import Disk, Lock, put_file, replace_file
from rookery.core.ids import id_text
from rookery.core.log.checkpoints import CheckpointDamaged
from rookery.core.log.names import PARTITION_METADATA

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def id_from(path: str, text: str) -> UUID:
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise CheckpointDamaged(path, f"{text!r} is not an id") from None


def _properties(path: str, content: bytes, separator: str) -> dict[str, str]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise CheckpointDamaged(path, "it is not text") from None
    pairs = (line.split(separator, 1) for line in lines if line.strip() and not line.startswith("#"))
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def _wanted(path: str, found: dict[str, str], key: str) -> str:
    if key not in found:
        raise CheckpointDamaged(path, f"{key} is missing")
    return found[key]


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """`meta.properties`, version 1: which cluster, node and directory a log folder belongs to."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    @staticmethod
    def read(disk: Disk, folder: str) -> "MetaProperties | None":
        path = f"{folder}/{META_PROPERTIES}"
        if not disk.exists(path):
            return None
        found = _properties(path, disk.read(path), "=")
        if _wanted(path, found, "version") != "1":
            raise CheckpointDamaged(path, f"version {found['version']} is not known")
        node = _wanted(path, found, "node.id")
        if not node.isdecimal():
            raise CheckpointDamaged(path, f"node.id {node!r} is not a number")
        directory = id_from(path, _wanted(path, found, "directory.id"))
        return MetaProperties(_wanted(path, found, "cluster.id"), int(node), directory)

    def write(self, disk: Disk, folder: str) -> None:
        lines = {
            "version": "1",
            "cluster.id": self.cluster_id,
            "node.id": str(self.node_id),
            "directory.id": id_text(self.directory_id),
        }
        content = "".join(f"{key}={value}\n" for key, value in lines.items())
        replace_file(disk, f"{folder}/{META_PROPERTIES}", content.encode())


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`partition.metadata`, version 0: the id of the topic a partition's folder belongs to."""

    topic_id: UUID

    @staticmethod
    def read(disk: Disk, folder: str) -> "PartitionMetadata | None":
        path = f"{folder}/{PARTITION_METADATA}"
        try:
            content = disk.read(path)
        except FileNotFoundError:
            return None
        found = _properties(path, content, ":")
        if _wanted(path, found, "version") != "0":
            raise CheckpointDamaged(path, f"version {found['version']} is not known")
        return PartitionMetadata(id_from(path, _wanted(path, found, "topic_id")))

    def encode(self) -> bytes:
        return f"version: 0\ntopic_id: {id_text(self.topic_id)}".encode()

    def write(self, disk: Disk, folder: str) -> None:
        replace_file(disk, f"{folder}/{PARTITION_METADATA}", self.encode())

    def put(self, disk: Disk, folder: str) -> None:
        """The same; durable when the folder has been synced."""
        put_file(disk, f"{folder}/{PARTITION_METADATA}", self.encode())

    async def save(self, disk: Disk, folder: str) -> None:
        await disk.replace(f"{folder}/{PARTITION_METADATA}", self.encode())


def write_marker(disk: Disk, folder: str, broker_epoch: int) -> None:
    """Record that every log in the folder was closed in order: the last write of a process."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
    replace_file(disk, f"{folder}/{CLEAN_SHUTDOWN}", content.encode())


def take_marker(disk: Disk, folder: str) -> int | None:
    """The broker epoch of the last clean shutdown, or None if there was none.

    The marker is gone for good when this returns, so it must be called before the first write after a start:
    a crash from then on is seen as one. A marker that does not parse is no marker.
    """
    path = f"{folder}/{CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return None
    content = disk.read(path)
    disk.remove(path)
    disk.sync_dir(folder)
    try:
        found = json.loads(content)
        return int(found["brokerEpoch"]) if found["version"] == 0 else None
    except (ValueError, KeyError, TypeError):
        return None


class WrongFolderError(Exception):
    """The folder belongs to another node or cluster, or it is new and no cluster id was given."""


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
            f"{error}: restore the file from a backup, or empty the folder: the node then copies what the others have"
        ) from None
    path = f"{folder}/{META_PROPERTIES}"
    if found is None:
        if not cluster_id:
            raise WrongFolderError(
                f"{folder} is new and rookery.cluster.id is not set: set it to the id of the cluster"
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
