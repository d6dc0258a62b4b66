"""Who waits for what to be committed, and how long it took."""

import asyncio
from collections import deque

from rookery.controller.raft.metrics import RaftMetrics
from rookery.core.clock import Clock
from rookery.core.errors import NotControllerError, RequestTimedOutError

MEASURED_MAX = 10_000


class Commits:
    """Proposals under way on a leader."""

    def __init__(self, clock: Clock, metrics: RaftMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._proposed: deque[tuple[int, float]] = deque(maxlen=MEASURED_MAX)

    def proposed(self, last_offset: int, records: int) -> None:
        self._metrics.appended.add(0.0, records)
        self._proposed.append((last_offset, self._clock.monotonic()))

    def committed(self, high_watermark: int) -> None:
        now = self._clock.monotonic()
        while self._proposed and self._proposed[0][0] < high_watermark:
            self._metrics.commit_latency_ms.add((now - self._proposed.popleft()[1]) * 1000)
        for waiting, offset in list(self._waiting.items()):
            if offset < high_watermark and not waiting.done():
                waiting.set_result(None)

    def leadership_lost(self) -> None:
        self._proposed.clear()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(
                    NotControllerError("leadership was lost before the change was committed; look whether it was made")
                )

    async def wait(self, offset: int, timeout_s: float) -> None:
        """Until the record at `offset` is committed."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = offset
        try:
            async with asyncio.timeout(timeout_s):
                await waiting
        except TimeoutError:
            raise RequestTimedOutError(f"the record at offset {offset} was not committed in time") from None
        finally:
            del self._waiting[waiting]
