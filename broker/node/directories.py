"""Reports to the controller which directory holds each replica, so that a failed one costs only its own."""

import asyncio
from uuid import UUID

from rookery.broker.controller_client import ControllerClient
from rookery.broker.metadata.cluster_view import ClusterView
from rookery.core.errors import KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.requests import DirectoryAssignment
from rookery.core.service import Service

_log = get_logger("broker.metadata.directories")
RETRY_S = 1.0
GATHER_S = 0.02
"""Replicas come many at a time: each report is a record that every node replays, and a request of its own is more."""
BATCH = 1000


class DirectoryReports(Service):
    """Sends what differs from the image, many at a time."""

    name = "directory reports"

    def __init__(self, view: ClusterView, client: ControllerClient) -> None:
        self._view = view
        self._client = client
        self._wanted: dict[tuple[UUID, int], UUID] = {}
        self._work = asyncio.Event()

    def report(self, key: tuple[UUID, int], directory: UUID) -> None:
        """A replica lies in `directory`."""
        known = self._view.image.partition(*key)
        if known is None or known.directory(self._view.node_id) != directory:
            self._wanted[key] = directory
            self._work.set()
        else:
            self._wanted.pop(key, None)

    async def serve(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._wanted:
                if len(self._wanted) < BATCH:
                    await asyncio.sleep(GATHER_S)
                if not await self._send():
                    await asyncio.sleep(RETRY_S)

    async def _send(self) -> bool:
        batch = dict(list(self._wanted.items())[:BATCH])
        assignments = [DirectoryAssignment(*key, directory) for key, directory in batch.items()]
        try:
            await self._client.assign_replicas_to_dirs(assignments)
        except KafkaError as error:
            _log.warning("directories.refused", reason=str(error))
            return False
        for key, directory in batch.items():
            if self._wanted.get(key) == directory:
                del self._wanted[key]
        return True
