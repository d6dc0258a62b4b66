"""`rookery pipeline run`, `list`, `status` and `stop`: a driver that is killed, continues and is stopped."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.local import LocalCluster, wait_for
from tests.spark import copying
from tests.spark.driver import PipelineProcess
from tests.spark.topics import numbered, write

pytestmark = [pytest.mark.timeout(600), pytest.mark.row(173)]

SOURCE, SINK, PARTITIONS = "commanded", "commanded-out", 2


def pipeline(folder: Path, *words: str) -> str:
    """What a command of this user prints."""
    command = [sys.executable, "-m", "rookery.client.cli", "pipeline", *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "runs")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def status(folder: Path) -> dict[str, Any]:
    (found,) = json.loads(pipeline(folder, "status", "copy", "-o", "json"))
    assert isinstance(found, dict)
    return found


def test_run_kill_run_stop(cluster: LocalCluster, tmp_path: Path) -> None:
    for topic in (SOURCE, SINK):
        cluster.create_topic(topic, PARTITIONS, 3)
    file = copying.write_file(tmp_path, SOURCE, SINK)
    write(cluster, SOURCE, numbered(0, 250, PARTITIONS))
    small = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

    def start() -> PipelineProcess:
        words = ("--metrics", "127.0.0.1:0")
        return PipelineProcess(cluster, file, tmp_path / "state", *words, settings=small)

    def rows() -> int:
        queries = status(tmp_path)["queries"]
        return int(queries[0]["rows"]) if queries else 0

    first = start()
    try:
        first.wait_for_batches(3)
        wait_for(lambda: rows() == 250, f"250 rows in the status: {first.said()}")
        found = status(tmp_path)
        assert (found["state"], found["queries"][0]["behind"]) == ("running", 0)
        assert found["pid"] == first.pid
        with urllib.request.urlopen(found["metrics"], timeout=30) as page:
            assert 'rookery_pipeline_rows_total{pipeline="copy",query="rows"} 250.0' in page.read().decode()
    finally:
        first.kill()
    assert status(tmp_path)["state"] == "crashed"

    write(cluster, SOURCE, numbered(250, 50, PARTITIONS))
    second = start()
    try:
        wait_for(lambda: rows() == 50, f"the other rows: {second.said()}", 120)
        pipeline(tmp_path, "stop", "copy")
        second.wait()
    finally:
        if "stopped" not in second.said():
            second.kill()
    said = second.said()
    assert "copy: the checkpoint is new" in said
    assert "the last run did not end by itself" in said
    assert "stopped; the next run continues. 50 rows, 0 of them bad" in said
    assert status(tmp_path)["state"] == "stopped"
    copying.check(cluster, SINK, PARTITIONS, 300)


def test_a_failure_is_one_line(cluster: LocalCluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rookery.client.cli", "pipeline", "archive", "nosuch", str(tmp_path / "lake")]
    command += ["--bootstrap", cluster.bootstrap, "--master", "local[1]", "--option", "fetchOffset.numRetries=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "starting Spark on local[1], which takes some seconds"
    assert lines[-1] == (
        "rookery: the archive stopped: option 'subscribe' names topics or partitions that do not exist: nosuch"
    )
    assert not [line for line in lines if line.strip().startswith(("at ", "Traceback", "Caused by"))]
