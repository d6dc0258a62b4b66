"""The flight recorder of a node: takes its log events, keeps the last of them in a file, serves them at ``/events``.

    GET /events?after=ID&limit=N&event=isr.,leader.&topic=NAME&group=NAME    JSON, oldest first
    GET /events?follow                                                      server-sent events; `Last-Event-ID` resumes

The file is for people who ask what happened before a restart. It is written soon after each event and never synced: a
power cut may cost the last ones, and no request waits for it.
"""

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable, Sequence

from rookery.core.disk import Disk
from rookery.core.disk.port import File
from rookery.core.event_logging import fields_of, get_logger
from rookery.core.flight_recorder import EVENTS_MAX, EVERYTHING, Event, EventRing, Selection, is_recorded
from rookery.core.net.http import Page, Query, Stream
from rookery.core.service import Service

FILE = "flight-recorder.jsonl"
OLDER = "flight-recorder.older.jsonl"
FILE_BYTES_MAX = 1 << 20
"""The file is put aside as the older one at this size; so both together have at most about twice as much."""
FOREIGN_BYTES = 8 << 20
"""A file of this size was not written here."""
LIMIT = 200
KEEP_ALIVE_S = 15.0
JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ODD_TEXT = "backslashreplace"
"""Names of files need not be UTF-8. What cannot be encoded becomes an escape, which is JSON."""
_log = get_logger("node.recorder")


class FlightRecorder(logging.Handler):
    """Takes events from any thread; the ring is guarded by the handler's own lock."""

    def __init__(self, node_id: int, size: int = EVENTS_MAX) -> None:
        super().__init__(logging.INFO)
        self.node_id = node_id
        self._ring = EventRing(node_id, size)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self.flush: Callable[[], None] = lambda: None
        """Puts what is not yet there into the file, if there is one: for the last words of a node."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._take(record)
        except Exception:  # the code that logs goes on
            self.handleError(record)

    def _take(self, record: logging.LogRecord) -> None:
        name = record.getMessage()
        if not is_recorded(name):
            return
        fields = fields_of(record)
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = repr(record.exc_info[1])
        self._ring.add(int(record.created * 1000), record.levelname, name, fields)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def wakes(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Who waits for events on `loop` is woken by each one."""
        self._loop = loop

    async def wait_for_event(self, after: int) -> None:
        """Wait until there is an event after an id."""
        while self.last_id <= after:
            await self._news.wait()

    @property
    def last_id(self) -> int:
        with self._held():
            return self._ring.last_id

    @property
    def dropped(self) -> int:
        return self._ring.dropped

    def after(
        self, event_id: int, limit: int = EVENTS_MAX, selection: Selection = EVERYTHING
    ) -> tuple[Sequence[Event], int]:
        """Events after an id, or the latest if it is negative, and the id to go on after."""
        with self._held():
            if event_id < 0:
                return self._ring.latest(limit, selection), self._ring.last_id
            found = self._ring.after(event_id, limit, selection)
            return found, found[-1].id if found and len(found) == limit else max(event_id, self._ring.last_id)

    def restore(self, lines: Sequence[bytes]) -> tuple[int, int]:
        """Put what was kept before what this process has recorded so far. Returns how many lines were unusable, and the
        last id that was kept."""
        with self._held():
            fresh = self._ring.after(-1)
            self._ring = EventRing(self.node_id, self._ring.size)
            damaged = self._ring.restore(lines)
            kept = self._ring.last_id
            for event in fresh:
                self._ring.add(event.at_ms, event.level, event.name, event.fields)
        return damaged, max(kept, 0)

    def _held(self) -> "threading.RLock":
        assert self.lock is not None
        return self.lock


class RecorderFile(Service):
    """Keeps a recorder's events in a folder."""

    name = "flight recorder"

    def __init__(self, recorder: FlightRecorder, disk: Disk, folder: str) -> None:
        self._recorder = recorder
        self._disk = disk
        self._path = os.path.join(folder, FILE)
        self._older = os.path.join(folder, OLDER)
        self._file: File | None = None
        self._size = 0
        self._written = 0
        self._failing = False
        self._writing = threading.Lock()
        """The last write of a task that was cancelled may still go on when the recorder stops."""

    async def start(self) -> None:
        self._recorder.wakes(asyncio.get_running_loop())
        self._recorder.flush = self.write
        lines = await asyncio.to_thread(self._kept)
        damaged, self._written = self._recorder.restore(lines)
        if damaged:
            _log.warning("recorder.damaged", file=self._path, lines=damaged, consequence="they are left out")

    async def serve(self) -> None:
        while True:
            await self._recorder.wait_for_event(self._written)
            await asyncio.to_thread(self.write)

    async def stop(self) -> None:
        self._recorder.wakes(None)
        await asyncio.to_thread(self.write)

    def _kept(self) -> list[bytes]:
        """The lines of both files, as far as they can be read."""
        lines: list[bytes] = []
        for path in (self._older, self._path):
            try:
                if self._disk.exists(path):
                    if self._disk.size(path) > FOREIGN_BYTES:
                        self._disk.remove(path)
                    else:
                        lines += self._disk.read(path).splitlines()
            except OSError as error:
                self._failed(error)
        return lines[-EVENTS_MAX:]

    def write(self) -> None:
        """Append what is new; what cannot be written is given up, not kept for later."""
        with self._writing:
            self._write()

    def _write(self) -> None:
        events, self._written = self._recorder.after(self._written)
        if not events:
            return
        try:
            self._append("".join(f"{event.line()}\n" for event in events).encode(errors=ODD_TEXT))
            self._failing = False
        except OSError as error:
            self._close()
            self._failed(error)

    def _append(self, data: bytes) -> None:
        if self._file is not None and self._size >= FILE_BYTES_MAX:
            self._close()
            self._disk.rename(self._path, self._older)
        if self._file is None:
            self._file = self._disk.open(self._path, create=not self._disk.exists(self._path))
            self._size = self._file.size()
            if self._size and self._file.pread(1, self._size - 1) != b"\n":
                data = b"\n" + data  # a line that a killed process left half written ends here
        self._size += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _failed(self, error: OSError) -> None:
        """Log it once; the events are still in memory."""
        if not self._failing:
            self._failing = True
            _log.warning(
                "recorder.file.failed", file=self._path, reason=str(error), consequence="events do not outlive the node"
            )


class EventsPage:
    """``/events``."""

    def __init__(self, recorder: FlightRecorder) -> None:
        self._recorder = recorder

    async def __call__(self, query: Query) -> Page | Stream:
        try:
            after = int(query.headers.get("last-event-id") or query.get("after") or -1)
            limit = min(max(int(query.get("limit") or LIMIT), 1), EVENTS_MAX)
        except ValueError:
            return Page(b"after and limit are whole numbers\n", status=400)
        names = tuple(filter(None, query.get("event", "").split(",")))
        selection = Selection(names, query.get("topic", ""), query.get("group", ""))
        if "follow" in query or EVENT_STREAM in query.headers.get("accept", ""):
            return Stream(self._follow(after, limit, selection), EVENT_STREAM)
        events, last = self._recorder.after(after, limit, selection)
        report = {
            "node": self._recorder.node_id,
            "missed": 0 <= after < self._recorder.dropped,
            "last": last,
            "events": [event.row() for event in events],
        }
        return Page(json.dumps(report, ensure_ascii=False, default=str).encode(errors=ODD_TEXT) + b"\n", JSON)

    async def _follow(self, after: int, limit: int, selection: Selection) -> AsyncGenerator[bytes, None]:
        """Everything after an id, or the last `limit` events, and then each one as it comes."""
        events, last = self._recorder.after(after, limit if after < 0 else EVENTS_MAX, selection)
        while True:
            if 0 <= after < self._recorder.dropped:
                yield f": events between {after} and {self._recorder.dropped} are no longer kept\n\n".encode()
            yield "".join(f"id: {event.id}\ndata: {event.line()}\n\n" for event in events).encode(errors=ODD_TEXT)
            after = max(last, 0)
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._recorder.wait_for_event(after)
            except TimeoutError:
                yield b": still here\n\n"
            events, last = self._recorder.after(after, selection=selection)
