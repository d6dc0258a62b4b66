"""Which pipelines run on this machine: list, status and stop, and what is left of a crash."""

import json
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import main
from rookery.client.spark.pipelines.metrics import PipelineMetrics, served
from rookery.client.spark.pipelines.runs import (
    CRASHED,
    RUNNING,
    STOPPED,
    AlreadyRunningError,
    Run,
    Runs,
    runs_folder,
)
from rookery.client.spark.progress import Progress

PROGRESS = Progress("rows", 2, 7, 400, 3, 100.0, 250, 2.5, 300, 2.0)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Runs(runs_folder(os.environ))


def hold(folder: Path, said: Connection) -> None:
    """A driver that runs until it is told to stop."""
    os.environ["XDG_STATE_HOME"] = str(folder)
    runs, run = Runs(runs_folder(os.environ)), Run("lake", "lake.toml", pid=os.getpid())
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: came.append(1))
    with runs.claimed(run):
        said.send("running")
        while not came:
            signal.pause()
        run.state = STOPPED
        runs.save(run)


def test_a_run_from_its_start_to_a_crash(runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = multiprocessing.get_context("spawn")
    for ending in ("stop", "kill"):
        ours, theirs = context.Pipe()
        driver = context.Process(target=hold, args=(tmp_path, theirs))
        driver.start()
        assert ours.recv() == "running"
        found = runs.find("lake")
        assert found is not None
        assert (found.state, found.pid) == (RUNNING, driver.pid)
        with pytest.raises(AlreadyRunningError, match=f"running as process {driver.pid}"), runs.claimed(found):
            pass
        if ending == "stop":
            assert main(["pipeline", "stop", "lake"]) == 0
            assert "continues" in capsys.readouterr().err
        else:
            driver.kill()
        driver.join()
        (last,) = runs.all()
        assert last.state == (STOPPED if ending == "stop" else CRASHED)
    assert main(["pipeline", "stop", "lake"]) == 0
    assert "is not running: crashed" in capsys.readouterr().err


def test_list_and_status(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    run = Run("lake", "/p/lake.toml", pid=1, started="2026-01-01T00:00:00+00:00", queries=[PROGRESS.as_json()])
    with runs.claimed(run):
        assert main(["pipeline", "list"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:6] == ["lake", "running", "400", "100/s", "250", "3"]
    assert main(["pipeline", "status", "lake"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("lake is crashed\n  file: /p/lake.toml\n")
    assert "rows: 400 rows in this run; batch 7: 300 rows in 2.0 s, 100 rows/s, 250 behind, about 2 s left" in shown
    assert main(["pipeline", "status", "lake", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["queries"][0]["bad_rows"] == 3
    assert main(["pipeline", "status", "pond"]) == 4
    assert "no pipeline 'pond' was run from this machine" in capsys.readouterr().err


def test_damaged_files_are_left_out(runs: Runs, tmp_path: Path) -> None:
    folder = runs_folder(os.environ)
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text("{")
    (folder / "other.json").write_text('{"of": "another release"}')
    assert runs.all() == []


def test_figures_are_served() -> None:
    from urllib.request import urlopen

    metrics = PipelineMetrics("lake")
    metrics.report(PROGRESS)
    metrics.report(Progress("bad-orders"))
    with served(metrics, "127.0.0.1", 0) as port, urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        lines = page.read().decode().splitlines()
    assert 'rookery_pipeline_rows_total{pipeline="lake",query="rows"} 400.0' in lines
    assert 'rookery_pipeline_bad_rows_total{pipeline="lake",query="rows"} 3.0' in lines
    assert 'rookery_pipeline_lag_records{pipeline="lake",query="rows"} 250.0' in lines
    assert not any(line.startswith('rookery_pipeline_lag_records{pipeline="lake",query="bad') for line in lines)
