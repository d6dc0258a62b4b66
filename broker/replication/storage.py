"""The disk behind a replica, as far as a partition waits for it."""

import asyncio
from typing import Protocol

from rookery.broker.log.partition_log import PartitionLog


class Storage(Protocol):
    """The disk behind a partition's log, as far as it must be waited for."""

    async def truncate(self, partition: PartitionLog, offset: int) -> bool: ...

    async def restart_at(self, partition: PartitionLog, offset: int) -> None: ...

    def appended(self, partition: PartitionLog) -> "asyncio.Future[None] | None":
        """Where records count only once they are on the device: done when those appended so far are."""


class PageCache:
    """Appends count as soon as they are written."""

    async def truncate(self, partition: PartitionLog, offset: int) -> bool:
        return partition.truncate_to(offset)

    async def restart_at(self, partition: PartitionLog, offset: int) -> None:
        partition.truncate_fully_and_start_at(offset)

    def appended(self, partition: PartitionLog) -> "asyncio.Future[None] | None":
        return None


PAGE_CACHE = PageCache()
