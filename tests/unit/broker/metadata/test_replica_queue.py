"""Which replicas are settled, and when: what changes while one is being settled is not forgotten."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from rookery.broker.metadata.replicas import Replicas

KEY = (UUID(int=1), 0)


class Slow(Replicas):
    """Takes as long to settle a replica as a test says."""

    def __init__(self) -> None:
        nothing: Any = SimpleNamespace(of=lambda *_: None)
        super().__init__(
            nothing, nothing, nothing, nothing, listener="", options_of=nothing, make=nothing, assigned=nothing
        )
        self.begun = asyncio.Semaphore(0)
        self.may_end = asyncio.Semaphore(0)

    async def _settle(self, key: Any) -> None:
        self.begun.release()
        await self.may_end.acquire()


async def test_a_change_while_a_replica_is_being_settled_is_settled_next() -> None:
    """As a replica that is given back while the files of its former life are still being moved aside."""
    replicas = Slow()
    serving = asyncio.create_task(replicas.serve())
    try:
        async with asyncio.timeout(30):
            replicas._reconcile(KEY, None)
            await replicas.begun.acquire()
            replicas._reconcile(KEY, None)
            replicas._reconcile(KEY, None)  # both at once
            replicas.may_end.release()
            await replicas.begun.acquire()
            assert not replicas._idle.is_set()
            replicas.may_end.release()
            await replicas.settled()
        assert replicas.begun.locked(), "and not a third time"
    finally:
        serving.cancel()
        await asyncio.wait([serving])
