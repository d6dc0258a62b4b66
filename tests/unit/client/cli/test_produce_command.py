"""`rookery produce` as a process: it ends when told to, and says why it waits."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.client.cli import produce
from rookery.client.cli.produce import Waiting, lines
from rookery.client.local import processes

WAIT_S = 60


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_ctrl_c_ends_it_while_it_waits_for_input(silent_port: int) -> None:
    command = [sys.executable, "-m", "rookery.client.cli", "produce", "t", "--bootstrap", f"127.0.0.1:{silent_port}"]
    heeds = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731  # who runs in the background ignores it
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeds)
    try:
        reading = Path(f"/proc/{process.pid}/task")
        assert processes.wait_until(lambda: len(list(reading.iterdir())) > 1, WAIT_S), "a thread reads the input"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.communicate()


async def test_lines_come_whole_whatever_the_pieces() -> None:
    reading, writing = os.pipe()
    text = b"one\ntwo\n" + b"x" * 100_000 + b"\n\nlast"

    def write() -> None:
        with os.fdopen(writing, "wb") as end:
            end.write(text)

    writer = threading.Thread(target=write)
    writer.start()
    found = [line async for chunk in lines(reading) for line in chunk]
    writer.join()
    os.close(reading)
    assert found == text.split(b"\n")


def test_a_long_wait_is_explained(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    waiting = Waiting()
    for _ in range(3):
        waiting.retried(OSError("no node could be reached"))
    assert capsys.readouterr().err == ""
    now[0] += produce.SILENT_S + 0.1
    waiting.retried(OSError("no node could be reached"))
    waiting.retried(OSError("no node could be reached"))
    assert capsys.readouterr().err == "rookery: waiting, since: no node could be reached\n"
    waiting.went_on()
    now[0] += produce.SILENT_S + 0.1
    waiting.retried(OSError("for a moment"))
    assert capsys.readouterr().err == ""
