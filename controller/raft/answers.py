"""What waits for the core: peers for the response to their request, callers for the commit of a record.

The core responds to a request at once or, to a held Fetch, when there is news. Responses that carry records or a piece
of a snapshot are completed here, from disk, at the moment they are sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from rookery.controller.raft import messages as m
from rookery.controller.raft.errors import MetadataDamagedError
from rookery.controller.raft.metrics import RaftMetrics
from rookery.controller.raft.storage import RaftStorage
from rookery.core.clock import Clock
from rookery.core.errors import NotControllerError, OffsetOutOfRangeError, RequestTimedOutError
from rookery.core.log import LogDirFailed
from rookery.core.metadata_log import SnapshotId

CHUNK_BYTES = 4 << 20
FETCH_BYTES_MAX = 8 << 20
DAMAGED_PAUSE_S = 0.5
"""Who gets no records although there are some asks again at once: such an answer waits as long as a fetch does."""
MEASURED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The core's response, and the log's bytes that go with it."""

    response: m.Response
    records: bytes = b""


@dataclass(frozen=True, slots=True)
class _Call:
    answered: asyncio.Future[Answer]
    max_bytes: int


def _answer_without_records(call: _Call, response: m.Response) -> None:
    if not call.answered.done():
        call.answered.set_result(Answer(response))


class Calls:
    """Requests of peers."""

    def __init__(
        self,
        storage: RaftStorage,
        damaged: Callable[[MetadataDamagedError], None],
        unreadable: Callable[[Exception], None],
        downloads: Callable[[SnapshotId], None],
    ) -> None:
        """`damaged` is called for records that must not be sent, `unreadable` for what the disk did not return,
        `downloads` for every snapshot whose download begins."""
        self._storage = storage
        self._damaged = damaged
        self._unreadable = unreadable
        self._downloads = downloads
        self._waiting: dict[int, _Call] = {}
        self._numbers = count(1)

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
        """Take a response of the core. One that is no longer waited for is dropped."""
        call = self._waiting.get(response.correlation)
        if call is None or call.answered.done():
            return
        try:
            call.answered.set_result(self._completed(response, call.max_bytes))
        except MetadataDamagedError as error:
            self._damaged(error)
            call.answered.get_loop().call_later(DAMAGED_PAUSE_S, _answer_without_records, call, response)
        except (OSError, LogDirFailed) as error:  # no answer: the peer asks again when its time is over
            self._unreadable(error)

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
        if response.position == 0:
            self._downloads(response.snapshot)
        if not 0 <= response.position <= size:
            return replace(response, refusal=m.Refusal.POSITION_OUT_OF_RANGE)
        return replace(response, size=size, chunk=chunk)


class Commits:
    """Proposals under way on a leader."""

    def __init__(self, clock: Clock, metrics: RaftMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._waiting: dict[asyncio.Future[None], int] = {}
        self._proposed: deque[tuple[int, float]] = deque(maxlen=MEASURED_MAX)

    def proposed(self, last_offset: int, records: int) -> None:
        self._metrics.appended.add(0.0, records)
        self._proposed.append((last_offset, self._clock.monotonic()))

    def committed(self, high_watermark: int) -> None:
        now = self._clock.monotonic()
        while self._proposed and self._proposed[0][0] < high_watermark:
            self._metrics.commit_latency_ms.add((now - self._proposed.popleft()[1]) * 1000)
        for waiting, offset in list(self._waiting.items()):
            if offset < high_watermark and not waiting.done():
                waiting.set_result(None)

    def leadership_lost(self) -> None:
        self._proposed.clear()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(
                    NotControllerError("leadership was lost before the change was committed; look whether it was made")
                )

    async def wait(self, offset: int, timeout_s: float) -> None:
        """Until the record at `offset` is committed."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = offset
        try:
            async with asyncio.timeout(timeout_s):
                await waiting
        except TimeoutError:
            raise RequestTimedOutError(f"the record at offset {offset} was not committed in time") from None
        finally:
            del self._waiting[waiting]
