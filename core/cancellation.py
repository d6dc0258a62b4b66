"""Work that must be finished although its waiter was cancelled: a thread cannot be stopped half way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def finish_despite_cancel(work: Awaitable[T], on_cancelled: Callable[[], None] = lambda: None) -> T:
    """Wait for `work`. A caller that is cancelled meanwhile raises CancelledError only after the work is done, so that
    nothing reuses what it still holds. `on_cancelled` may ask the work to end early."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise
        on_cancelled()
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue  # the first cancellation is raised below
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it
        raise
