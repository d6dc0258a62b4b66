"""The property files that say whose a folder is: `meta.properties`, `partition.metadata`, and the marker of
a clean shutdown."""

import base64
import binascii
import json
from dataclasses import dataclass
from uuid import UUID

from rookery.core.disk import Disk, replace_file
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
        if not disk.exists(path):
            return None
        found = _properties(path, disk.read(path), ":")
        if _wanted(path, found, "version") != "0":
            raise CheckpointDamaged(path, f"version {found['version']} is not known")
        return PartitionMetadata(id_from(path, _wanted(path, found, "topic_id")))

    def encode(self) -> bytes:
        return f"version: 0\ntopic_id: {id_text(self.topic_id)}".encode()

    def write(self, disk: Disk, folder: str) -> None:
        replace_file(disk, f"{folder}/{PARTITION_METADATA}", self.encode())

    async def save(self, disk: Disk, folder: str) -> None:
        await disk.replace(f"{folder}/{PARTITION_METADATA}", self.encode())


def write_marker(disk: Disk, folder: str, broker_epoch: int) -> None:
    """Say that every log in the folder was closed in order: the last thing a process writes."""
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
