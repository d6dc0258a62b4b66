"""The progress of a pipeline: one line that is written over on a terminal, lines with the time in a log."""

import io
import os

import pytest

from rookery.client.cli import pipeline_run
from rookery.client.cli.pipeline_run import Screen
from rookery.client.spark.progress import Progress

FIRST = Progress("rows", 1, 0, 300, 0, 100.0, 12_700, 127.0, 300, 3.0)
LAST = Progress("rows", 2, 1, 13_000, 4, 250.0, 0, 0.0, 12_700, 51.0)
LETTERS = Progress("bad-orders", 1, 0, 300, 0, 100.0, 0, 0.0, 300, 3.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, rate, lag and time left; what goes to dead letters has no line of its own."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((100, 24)))
    screen = Screen()
    for each in (FIRST, LETTERS, LAST):
        screen.show(each)
    screen.end()
    assert terminal.getvalue().endswith("\n")
    nothing, *lines = terminal.getvalue().rstrip("\n").split("\r")
    assert nothing == ""
    assert [line.rstrip() for line in lines] == [
        "batch 0: 300 rows in 3.0 s, 100 rows/s, 12,700 behind, about 2 min 7 s left",
        "batch 1: 12,700 rows in 51.0 s, 250 rows/s, 0 behind, 4 bad rows so far",
    ]
    assert {len(line) for line in lines} == {99}, "each covers the one before"


def test_in_a_log_each_report_is_a_line_with_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline_run, "_now", lambda: "2026-05-01T06:00:02+00:00")
    screen = Screen()
    for each in (FIRST, LETTERS):
        screen.show(each)
    screen.end()
    assert capsys.readouterr().err.splitlines() == [
        "2026-05-01T06:00:02+00:00 batch 0: 300 rows in 3.0 s, 100 rows/s, 12,700 behind, about 2 min 7 s left",
        "2026-05-01T06:00:02+00:00 bad-orders: batch 0: 300 rows in 3.0 s, 100 rows/s, 0 behind",
    ]
