"""Waiting for work that a cancellation must not leave half done: threads cannot be stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Awaitable[T], on_cancelled: Callable[[], None] = lambda: None) -> T:
    """Wait for `work`. Whoever is cancelled meanwhile leaves only when it is done, so that nobody takes what it still
    uses for free; `on_cancelled` may ask it to hurry."""
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
                continue  # once is enough to be remembered
        if not task.cancelled():
            task.exception()  # nobody is left to hear it
        raise
