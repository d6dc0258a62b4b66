"""``cluster.json``: which nodes run where. Tools and tests read it, `up` and `down` keep it."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "cluster.json"
SECURITY_FOLDER = "secure"
CLIENT_PROPERTIES = "client.properties"
"""Beside the file, of a secure cluster: what clients need to get in."""


@dataclass(frozen=True, slots=True)
class RunningNode:
    """One node as it was started. `pid` and `started` together name a process for good."""

    id: int
    pid: int
    started: float
    kafka: str
    grpc: str
    http: str
    data: str


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The contents of the file."""

    cluster_id: str
    bootstrap: str
    nodes: tuple[RunningNode, ...]
    controllers: int
    overrides: dict[str, str]
    ephemeral: bool = False
    secure: bool = False

    def port(self) -> int:
        return int(self.nodes[0].kafka.rpartition(":")[2])


class DamagedClusterFileError(Exception):
    """The file is there but cannot be read."""


def read(folder: Path) -> ClusterFile | None:
    """The file of `folder`, or None if there is none."""
    path = folder / NAME
    try:
        loaded = json.loads(path.read_text())
        nodes = tuple(RunningNode(**node) for node in loaded.pop("nodes"))
        return ClusterFile(nodes=nodes, **loaded)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedClusterFileError(
            f"{path} cannot be read ({error}). If no node of it runs any more, remove the file and start again."
        ) from error


def write(folder: Path, cluster: ClusterFile) -> None:
    """Replace the file in one step, so that a reader sees the old or the new one."""
    path = folder / NAME
    temporary = folder / f"{NAME}.tmp"
    with temporary.open("w") as out:
        json.dump(asdict(cluster), out, indent=1)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
