"""Metrics of the node's process: the lag of its event loop, its disks, its connections to other brokers."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from rookery.core.metrics import Kind, Metrics, Sample
from rookery.core.net.peers import Peers
from rookery.core.service import Service

COUNTERS = "/proc/self/io"


def publish_io(metrics: Metrics, path: str = COUNTERS) -> None:
    """What this process reads from and writes to devices, as the kernel counts it."""
    for field, text in (("read_bytes", "Bytes read from devices."), ("write_bytes", "Bytes written to devices.")):
        metrics.read(f"kafka_server_kafkaserver_linux_disk_{field}", text, partial(_io_samples, path, field))


def _io_samples(path: str, field: str) -> Iterator[Sample]:
    """Empty where the kernel does not provide them."""
    try:
        with open(path) as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition(": ")
        if name == field:
            yield (), float(value)


LAG_INTERVAL_S = 0.1


class LoopLag(Service):
    """How late the event loop runs, which everything on a node shares: wakes up regularly and measures."""

    name = "loop lag"

    def __init__(self, metrics: Metrics) -> None:
        self._seconds = metrics.histogram("rookery_event_loop_lag_seconds", "How late callbacks run.")
        self.longest_s = 0.0
        text = "How late a callback has run at most since the node started."
        metrics.read_value("rookery_event_loop_lag_seconds_max", text, lambda: self.longest_s)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_INTERVAL_S
            await asyncio.sleep(LAG_INTERVAL_S)
            late = max(0.0, loop.time() - due)
            self.longest_s = max(self.longest_s, late)
            self._seconds.observe(late)


SPACE_INTERVAL_S = 10.0
Space = tuple[int, int]
"""Bytes left, bytes in all."""


class DiskSpace(Service):
    """The room on the file system of each directory; one that cannot be asked is left out. Asked in a thread now and
    then: a disk that hangs must not stop the node. A scrape shows what was found last."""

    name = "disk space"

    def __init__(self, metrics: Metrics, folders: Sequence[str]) -> None:
        self._folders = folders
        self.found: dict[str, Space] = {}
        for place, name, text in (
            (0, "rookery_log_directory_free_bytes", "Bytes left for a log directory."),
            (1, "rookery_log_directory_capacity_bytes", "Bytes of the file system of a log directory."),
        ):
            metrics.read(name, text, lambda place=place: self._samples(place), labels=("directory",))  # type: ignore[misc]

    def _samples(self, place: int) -> Iterator[Sample]:
        return (((folder,), space[place]) for folder, space in self.found.items())

    async def serve(self) -> None:
        while True:
            self.found = await asyncio.to_thread(spaces, self._folders)
            await asyncio.sleep(SPACE_INTERVAL_S)


def spaces(folders: Sequence[str]) -> dict[str, Space]:
    found = {}
    for folder in folders:
        try:
            system = os.statvfs(folder)
        except OSError:
            continue  # an offline directory is counted and logged elsewhere
        found[folder] = (system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize)
    return found


PURPOSE = ("purpose",)


def publish_peers(metrics: Metrics, peers: Mapping[str, Peers]) -> None:
    """By what the connections are for: fetching from leaders, measuring the lag of consumer groups."""

    def read(name: str, text: str, value: Callable[[Peers], int], kind: Kind) -> None:
        metrics.read(
            name,
            text,
            lambda: [((purpose,), float(value(each))) for purpose, each in peers.items()],
            labels=PURPOSE,
            kind=kind,
        )

    read("rookery_peer_connections", "Open connections to other brokers.", lambda each: each.connections, "gauge")
    read("rookery_peer_connections_opened", "Connections opened.", lambda each: each.opened, "counter")
    read(
        "rookery_peer_connections_failed",
        "Attempts to connect that failed, and connections that were of no use.",
        lambda each: each.failed,
        "counter",
    )
