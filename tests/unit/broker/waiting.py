"""Waiting for something to become true, with a bound."""

import asyncio
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], within_s: float = 10.0) -> Any:
    """What `condition` gives as soon as that is true."""
    async with asyncio.timeout(within_s):
        while not (found := condition()):
            await asyncio.sleep(0.005)
    return found
