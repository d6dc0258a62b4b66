"""Producer ids, out of the blocks that the controller gives this broker.

The next block is asked for before this one is used up, so only the first request waits for one. While there is none,
requests get a retriable error: old clients take a timeout as final.
"""

import asyncio
from collections.abc import Callable

from rookery.broker.handlers.ports import ControllerPort
from rookery.core.errors import CoordinatorLoadInProgressError, KafkaError
from rookery.core.event_logging import get_logger

_log = get_logger("broker.transactions")
REFILL_AT = 0.1
"""The part of a block that is left when the next one is asked for."""


class ProducerIds:
    def __init__(self, controller: ControllerPort) -> None:
        self._controller = controller
        self._block = range(0)
        self._next = range(0)
        self._low = 0
        self._wanted = asyncio.Event()
        self._waiting: list[Callable[[], None]] = []

    def take(self) -> int:
        """An id that is given only once."""
        if not self._block:
            self._block, self._next = self._next, range(0)
            self._low = int(len(self._block) * REFILL_AT)
        if not self._block:
            self._wanted.set()
            raise CoordinatorLoadInProgressError("this broker has no producer ids at the moment")
        taken, self._block = self._block[0], self._block[1:]
        if len(self._block) <= self._low and not self._next:
            self._wanted.set()
        return taken

    def when_there(self, then: Callable[[], None]) -> None:
        """Call `then` when there are ids, or when it is clear that there are none."""
        if self._block or self._next:
            then()
        else:
            self._waiting.append(then)
            self._wanted.set()

    async def serve(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                if not self._next:
                    self._next = await self._controller.allocate_producer_ids()
            except KafkaError as error:
                _log.warning("producer.ids.unavailable", reason=str(error))
            finally:
                waiting, self._waiting = self._waiting, []
                for then in waiting:
                    then()
