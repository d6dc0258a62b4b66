"""Blocking calls that do not keep a command from ending."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def interruptible(call: Callable[[], T]) -> T:
    """What `call` returns, in a thread that nobody waits for: unlike with asyncio's own threads, Ctrl-C ends a command
    whose `call` (a read from a terminal or a pipe) never returns."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not result.done():
            result.set_exception(error) if error is not None else result.set_result(value)  # type: ignore[arg-type]

    def work() -> None:
        value, error = None, None
        try:
            value = call()
        except Exception as failure:
            error = failure
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="blocking", daemon=True).start()
    return await result
