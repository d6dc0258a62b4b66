"""How late the event loop runs: everything on a node shares it, so its lag is everybody's."""

import asyncio

from rookery.core.metrics import Metrics
from rookery.core.service import Service

INTERVAL_S = 0.1


class LoopLag(Service):
    """Wakes up regularly and measures by how much too late."""

    name = "loop lag"

    def __init__(self, metrics: Metrics) -> None:
        self._seconds = metrics.histogram("rookery_event_loop_lag_seconds", "How late callbacks run.")
        self.longest_s = 0.0
        text = "How late a callback has run at most since the node started."
        metrics.read_value("rookery_event_loop_lag_seconds_max", text, lambda: self.longest_s)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            late = max(0.0, loop.time() - due)
            self.longest_s = max(self.longest_s, late)
            self._seconds.observe(late)
