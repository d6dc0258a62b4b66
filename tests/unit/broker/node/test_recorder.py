"""The flight recorder of a node: its file, its page, and what it takes from the log."""

import asyncio
import io
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rookery.broker.node import recorder as module
from rookery.broker.node.recorder import FILE, OLDER, EventsPage, FlightRecorder, RecorderFile
from rookery.core import event_logging
from rookery.core.disk import FileDisk
from rookery.core.event_logging import ROOT, get_logger
from rookery.core.net.http import STREAMS_MAX, HttpServer, Page, Query

log = get_logger("tests.recorder")


@pytest.fixture
def recorder() -> Iterator[FlightRecorder]:
    """Beside a stream that shows only errors."""
    root = logging.getLogger(ROOT)
    before = (list(root.handlers), root.propagate, root.level)
    made = FlightRecorder(7)
    event_logging.configure(level="ERROR", to=io.StringIO(), recorder=made)
    yield made
    root.handlers[:], root.propagate = before[0], before[1]
    root.setLevel(before[2])


def names(recorder: FlightRecorder) -> list[str]:
    return [event.name for event in recorder.after(0)[0]]


def test_it_takes_events_that_the_stream_does_not_show() -> None:
    root = logging.getLogger(ROOT)
    before = (list(root.handlers), root.propagate, root.level)
    shown, recorder = io.StringIO(), FlightRecorder(7)
    try:
        event_logging.configure(level="WARNING", levels={"tests.loud": "DEBUG"}, to=shown, recorder=recorder)
        log.info("isr.changed", topic="t")
        log.debug("fine.detail")
        log.warning("leader.lost", topic="t")
        log.info("connection.idle", peer="x")
        get_logger("tests.loud").debug("said")
        get_logger("tests.loud.below").info("said.too")
    finally:
        root.handlers[:], root.propagate = before[0], before[1]
        root.setLevel(before[2])
        logging.getLogger(f"{ROOT}.tests.loud").setLevel(logging.NOTSET)
    assert names(recorder) == ["isr.changed", "leader.lost", "said.too"]
    assert [line.split()[2] for line in shown.getvalue().splitlines()] == ["leader.lost", "said", "said.too"]


async def kept_by(recorder: FlightRecorder, folder: Path) -> RecorderFile:
    file = RecorderFile(recorder, FileDisk(), str(folder))
    await file.start()
    return file


async def test_events_outlive_a_restart(recorder: FlightRecorder, tmp_path: Path) -> None:
    file = await kept_by(recorder, tmp_path)
    log.info("first")
    serving = asyncio.create_task(file.serve())
    async with asyncio.timeout(30):
        while not (tmp_path / FILE).exists():
            await asyncio.sleep(0.001)
    serving.cancel()
    log.info("second")
    await file.stop()
    last = recorder.last_id
    again = FlightRecorder(7)
    logging.getLogger(ROOT).addHandler(again)
    log.info("early.in.the.new.life")
    await kept_by(again, tmp_path)
    assert names(again)[-3:] == ["first", "second", "early.in.the.new.life"]
    assert again.after(last)[0][0].name == "early.in.the.new.life"


async def test_text_that_is_not_utf8_is_kept_as_an_escape(recorder: FlightRecorder, tmp_path: Path) -> None:
    """Such are the names of files that another program left in a folder."""
    file = await kept_by(recorder, tmp_path)
    name = os.fsdecode(b"caf\xe9-0")
    log.warning("folder.unknown", folder=name)
    await file.stop()
    again = FlightRecorder(7)
    await kept_by(again, tmp_path)
    assert [event.fields["folder"] for event in again.after(0)[0]] == [name]
    page = await EventsPage(again)(Query())
    assert isinstance(page, Page)
    assert json.loads(page.body)["events"][0]["fields"]["folder"] == name


async def test_a_torn_line_and_a_foreign_file_cost_only_themselves(recorder: FlightRecorder, tmp_path: Path) -> None:
    file = await kept_by(recorder, tmp_path)
    log.info("whole")
    await file.stop()
    with (tmp_path / FILE).open("ab") as kept:
        kept.write(b'{"id": 99, "at_')
    (tmp_path / OLDER).write_bytes(b"\xff\xfe\x00" * 100)
    again = FlightRecorder(7)
    logging.getLogger(ROOT).addHandler(again)
    file = await kept_by(again, tmp_path)
    log.info("after")
    await file.stop()
    assert names(again)[-3:] == ["whole", "recorder.damaged", "after"]
    third = FlightRecorder(7)
    await kept_by(third, tmp_path)
    assert names(third)[:3] == ["whole", "recorder.damaged", "after"]


async def test_the_files_are_bounded(
    recorder: FlightRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 2000)
    file = await kept_by(recorder, tmp_path)
    for number in range(200):
        log.info("group.rebalance", group="g", number=number)
        file.write()
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < 2400
    again = FlightRecorder(7)
    await kept_by(again, tmp_path)
    assert again.after(0)[0][-1].fields["number"] == 199


async def test_a_folder_that_cannot_be_written_is_reported_once(recorder: FlightRecorder, tmp_path: Path) -> None:
    file = await kept_by(recorder, tmp_path / "missing")
    for _ in range(3):
        log.info("goes.on")
        file.write()
    assert names(recorder).count("recorder.file.failed") == 1
    assert names(recorder).count("goes.on") == 3


# --- the page -----------------------------------------------------------------------------------------------


@pytest.fixture
async def server(recorder: FlightRecorder) -> AsyncIterator[HttpServer]:
    recorder.wakes(asyncio.get_running_loop())
    http = HttpServer("127.0.0.1", 0, {"/events": EventsPage(recorder)})
    await http.start()
    yield http
    await http.stop()


class Reader:
    """One connection to the page."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def of(cls, server: HttpServer, target: str, *headers: str) -> "Reader":
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write("\r\n".join([f"GET {target} HTTP/1.1", *headers, "", ""]).encode())
        return cls(reader, writer)

    async def whole(self) -> tuple[bytes, bytes]:
        async with asyncio.timeout(30):
            head, _, body = (await self._reader.read()).partition(b"\r\n\r\n")
        self._writer.close()
        return head, body

    async def event(self) -> dict[str, object]:
        async with asyncio.timeout(30):
            while True:
                line = await self._reader.readline()
                assert line, "the stream has ended"
                if line.startswith(b"data: "):
                    return dict(json.loads(line[6:]))

    async def line(self, wanted: bytes) -> None:
        async with asyncio.timeout(30):
            while wanted not in await self._reader.readline():
                pass

    def close(self) -> None:
        self._writer.close()


async def test_json_is_resumed_by_id(recorder: FlightRecorder, server: HttpServer) -> None:
    for number in range(5):
        log.info("isr.changed", topic="t", partition=number)
    first = json.loads((await (await Reader.of(server, "/events?limit=2")).whole())[1])
    assert [event["fields"]["partition"] for event in first["events"]] == [3, 4]
    assert first["node"] == 7
    log.info("leader.elected", topic="t", partition=9)
    after = f"/events?after={first['last']}"
    rest = json.loads((await (await Reader.of(server, after)).whole())[1])
    assert [event["event"] for event in rest["events"]] == ["leader.elected"]
    assert not rest["missed"]
    only = json.loads((await (await Reader.of(server, "/events?event=leader.&topic=t")).whole())[1])
    assert len(only["events"]) == 1
    head, body = await (await Reader.of(server, "/events?after=soon")).whole()
    assert b"400" in head
    assert b"whole numbers" in body


async def test_a_stream_sends_each_event_once_and_resumes(recorder: FlightRecorder, server: HttpServer) -> None:
    log.info("before")
    stream = await Reader.of(server, "/events", "Accept: text/event-stream")
    assert (await stream.event())["event"] == "before"
    log.info("live", number=1)
    seen = await stream.event()
    assert seen["event"] == "live"
    stream.close()
    log.info("while.away")
    log.info("and.again")
    again = await Reader.of(server, "/events?follow", f"Last-Event-ID: {seen['id']}")
    assert [(await again.event())["event"] for _ in range(2)] == ["while.away", "and.again"]
    again.close()


async def test_who_was_away_too_long_is_informed(server: HttpServer, recorder: FlightRecorder) -> None:
    small = FlightRecorder(7, 2)
    logging.getLogger(ROOT).addHandler(small)
    page = HttpServer("127.0.0.1", 0, {"/events": EventsPage(small)})
    await page.start()
    for number in range(5):
        log.info("e", number=number)
    oldest = recorder.after(0)[0][0].id
    assert json.loads((await (await Reader.of(page, f"/events?after={oldest}")).whole())[1])["missed"]
    stream = await Reader.of(page, f"/events?follow&after={oldest}")
    await stream.line(b"are no longer kept")
    stream.close()
    await page.stop()


async def test_streams_are_bounded_and_pages_still_served(recorder: FlightRecorder, server: HttpServer) -> None:
    log.info("one")
    streams = [await Reader.of(server, "/events?follow") for _ in range(STREAMS_MAX)]
    for stream in streams:
        await stream.event()
    head, _ = await (await Reader.of(server, "/events?follow")).whole()
    assert b"503" in head
    head, _ = await (await Reader.of(server, "/events")).whole()
    assert b"200 OK" in head
    await server.stop()
    for stream in streams:
        await stream.whole()
