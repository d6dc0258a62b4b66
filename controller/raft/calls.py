"""Requests of other nodes that wait for the core's answer.

The core answers a request when it likes: at once, or, for a held Fetch, when there is news. Answers that
carry records or a piece of a snapshot are completed here, from disk, at the moment they are sent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from rookery.controller.raft import messages as m
from rookery.controller.raft.storage import RaftStorage
from rookery.core.errors import OffsetOutOfRangeError

CHUNK_BYTES = 4 << 20
FETCH_BYTES_MAX = 8 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """The core's response, and the log's bytes that go with it."""

    response: m.Response
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class _Call:
    answered: asyncio.Future[Answer]
    max_bytes: int


class Calls:
    def __init__(self, storage: RaftStorage) -> None:
        self._storage = storage
        self._waiting: dict[int, _Call] = {}
        self._numbers = count(1)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    async def answer(self, ask: Callable[[int], None], *, timeout_s: float, max_bytes: int = 0) -> Answer:
        """Call `ask` with a number of its own and wait for the response with that number."""
        number = next(self._numbers)
        call = _Call(asyncio.get_running_loop().create_future(), min(max(max_bytes, 1), FETCH_BYTES_MAX))
        self._waiting[number] = call
        try:
            ask(number)
            async with asyncio.timeout(timeout_s):
                return await call.answered
        finally:
            del self._waiting[number]

    def respond(self, response: m.Response) -> None:
        """Take a response of the core. One that nobody waits for any more is dropped."""
        call = self._waiting.get(response.correlation)
        if call is not None and not call.answered.done():
            call.answered.set_result(self._completed(response, call.max_bytes))

    def _completed(self, response: m.Response, max_bytes: int) -> Answer:
        match response:
            case m.FetchResponse() if response.read_until > response.fetch_offset:
                try:
                    records, _ = self._storage.read(response.fetch_offset, response.read_until, max_bytes)
                except OffsetOutOfRangeError:
                    records = b""  # deleted since the core looked; asked again, it will offer a snapshot
                return Answer(response, records)
            case m.FetchSnapshotResponse(refusal=m.Refusal.NONE):
                return Answer(self._with_chunk(response))
            case _:
                return Answer(response)

    def _with_chunk(self, response: m.FetchSnapshotResponse) -> m.FetchSnapshotResponse:
        found = self._storage.snapshots.read_chunk(response.snapshot, response.position, CHUNK_BYTES)
        if found is None:
            return replace(response, refusal=m.Refusal.SNAPSHOT_NOT_FOUND)
        size, chunk = found
        if not 0 <= response.position <= size:
            return replace(response, refusal=m.Refusal.POSITION_OUT_OF_RANGE)
        return replace(response, size=size, chunk=chunk)
