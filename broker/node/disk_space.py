"""How much room the log directories have left. Asked in a thread now and then: a disk that hangs must not stop the
node, and a scrape shows what was found last."""

import asyncio
import os
from collections.abc import Iterator, Sequence

from rookery.core.metrics import Metrics, Sample
from rookery.core.service import Service

INTERVAL_S = 10.0
Space = tuple[int, int]
"""Bytes left, bytes in all."""


class DiskSpace(Service):
    """The room on the file system of each directory; one that cannot be asked is left out."""

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
            await asyncio.sleep(INTERVAL_S)


def spaces(folders: Sequence[str]) -> dict[str, Space]:
    found = {}
    for folder in folders:
        try:
            system = os.statvfs(folder)
        except OSError:
            continue  # told elsewhere: an offline directory is counted and logged
        found[folder] = (system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize)
    return found
