"""The cluster as this broker knows it: the metadata log applied to an image, and the publishers of each change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from rookery.core.metadata.delta import LatestImage
from rookery.core.metadata.image import Changes, Image
from rookery.core.metadata_log import CommittedBatch, SnapshotId

Publish = Callable[[Changes], None]
Settled = Callable[[], Awaitable[None]]


class ClusterView:
    """Listens to the metadata log. Publishers get a change in the order they were added, before anybody who
    waits for it: when a waiter goes on, the broker acts by the new image already, on its disks, too."""

    def __init__(self, *, node_id: int, cluster_id: str) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self._fold = LatestImage()
        self._publishers: list[Publish] = []
        self._settled: Settled | None = None
        self._waiting: dict[asyncio.Future[None], Callable[[Image], bool]] = {}
        self.controller_id = -1
        self.changes = 0

    @property
    def image(self) -> Image:
        return self._fold.image

    def add_publisher(self, publish: Publish) -> None:
        self._publishers.append(publish)

    def settles_with(self, settled: Settled) -> None:
        """Waits for an image also wait for `settled`: that what it demands of the disks is done."""
        self._settled = settled

    async def until(self, holds: Callable[[Image], bool], timeout_s: float) -> bool:
        """Wait until the image fulfils `holds`; False if it did not in time."""
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if holds(self.image):
            reached.set_result(None)
        else:
            self._waiting[reached] = holds
        try:
            async with asyncio.timeout(timeout_s):
                await reached
                if self._settled is not None:
                    await self._settled()
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(reached, None)
        return True

    # --- the metadata log's listener ------------------------------------------------------------------------

    def on_commit(self, batch: CommittedBatch) -> None:
        self._publish(self._fold.on_commit(batch))

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        self._publish(self._fold.on_snapshot(snapshot, values))

    def on_leader(self, leader_id: int, epoch: int) -> None:
        self.controller_id = leader_id

    def _publish(self, changes: Changes | None) -> None:
        if changes is None:
            return
        self.changes += 1
        for publish in self._publishers:
            publish(changes)
        for waiter in [waiter for waiter, holds in self._waiting.items() if holds(self.image)]:
            if not waiter.done():
                waiter.set_result(None)
