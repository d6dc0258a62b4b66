"""What is left of clusters that ran in this process."""

import asyncio
import gc
import os
import resource
import threading
from dataclasses import dataclass

from rookery.broker.node.node import Node
from rookery.core.testing.disk import MemoryDisk
from rookery.core.testing.process import Process
from rookery.testing import Cluster


@dataclass(frozen=True, slots=True)
class Left:
    """Counts while no cluster runs."""

    threads: int
    files: int
    tasks: int
    nodes: int
    processes: int
    disks: int


def left() -> Left:
    gc.collect()
    here = gc.get_objects()
    kinds = (asyncio.Task, Node, Process, MemoryDisk)
    counts = (sum(isinstance(each, kind) for each in here) for kind in kinds)
    return Left(threading.active_count(), len(os.listdir("/proc/self/fd")), *counts)


def memory_mb() -> float:
    """What is resident now."""
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return pages * resource.getpagesize() / 1e6


def one() -> None:
    """A cluster of three nodes; one is killed, another stopped, and all go at once."""
    with Cluster(nodes=3) as cluster:
        cluster.create_topic("t", replication_factor=3)
        with cluster.kill(cluster.leader("t")):
            pass
        cluster.stop_node(cluster.leader("t"))


def check(clusters: int) -> None:
    """Raise if something is left after `clusters` that was not after the first."""
    one()
    first = left()
    for _ in range(clusters - 1):
        one()
    assert left() == first, f"after {clusters} clusters {left()}, after the first {first}"
