"""The blocking clients: `rookery.sync` has them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from rookery.client.admin import Admin as AsyncAdmin
from rookery.client.blocking import BlockingClient
from rookery.client.blocking_producer import BlockingDelivery, BlockingProducer

__all__ = ["Admin", "BlockingDelivery", "Consumer", "Producer"]

Producer = BlockingProducer
CONCURRENCY = 16
"""Handlers at once, unless the caller says otherwise."""


class Admin(BlockingClient):
    """`rookery.Admin` for code without asyncio."""

    made_of = AsyncAdmin


def _consumer(*arguments: Any, **options: Any) -> Any:
    return import_module("rookery.client.consumer").Consumer(*arguments, **options)


class Consumer(BlockingClient):
    """`rookery.Consumer` for code without asyncio: iterate it, or call `getmany`."""

    made_of = staticmethod(_consumer)

    def run(self, handler: Callable[[Any], object], **options: Any) -> None:
        """As `rookery.Consumer.run`; `handler` is a plain function, called in threads. Ctrl-C ends it: handlers that
        run are waited for, and what they finished is committed."""
        pool = ThreadPoolExecutor(options.get("concurrency", CONCURRENCY), "rookery-handler")

        async def handle(record: Any) -> None:
            await asyncio.get_running_loop().run_in_executor(pool, handler, record)

        try:
            self._run(self._client.run, handle, handle_signals=False, **options)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
