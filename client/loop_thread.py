"""An event loop in a thread of its own, for clients without asyncio."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

from rookery.client.errors import ClosedError, IllegalStateError

T = TypeVar("T")
STOP_S = 5.0


class LoopThread:
    """Runs coroutines for other threads; one for each client. A daemon: it never keeps a program from ending."""

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self.loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Wait for a coroutine; it is cancelled if the wait is interrupted or takes too long."""
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if threading.current_thread() is self._thread:
            work.close()
            raise IllegalStateError("a blocking call was made from a callback", "Callbacks must not wait")
        if not self.alive:
            work.close()
            raise ClosedError("this client is closed", "Make a new one")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def iterate(self, source: AsyncIterator[T]) -> Iterator[T]:
        """The values of an asynchronous iterator."""

        async def step() -> T:
            return await anext(source)

        while True:
            try:
                yield self.run(step())
            except StopAsyncIteration:
                return

    def stop(self) -> None:
        """End the loop; what still runs in it is cancelled."""
        if self.alive and threading.current_thread() is not self._thread:
            asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop)
            self._thread.join(STOP_S)


async def _cancel_all() -> None:
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop.stop()
