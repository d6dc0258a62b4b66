"""A signal on one event loop: it wakes all that wait; later waits are for the next one."""

import asyncio


class Signal:
    """There is no lost signal as long as nobody awaits between looking at the state and `wait`."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Until the next signal, or so long."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=None if timeout_s is None else max(0.0, timeout_s))
        finally:
            self._waiters.discard(waiter)
            waiter.cancel()
