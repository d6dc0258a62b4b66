"""What stops a node at its start is told in one sentence."""

import argparse
import os
from pathlib import Path

import pytest

from rookery.broker.node.command import EXIT_FAILED, run
from rookery.core.disk import FileDisk
from rookery.core.log.ownership import FolderLocks
from rookery.core.metadata_log import METADATA_LOG


def start(folder: Path, roles: str) -> int:
    options = {
        "process.roles": roles,
        "node.id": 1,
        "rookery.cluster.id": "c",
        "log.dirs": folder / "logs",
        "metadata.log.dir": folder / "metadata",
        "listeners": "CONTROLLER://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "rookery.log.style": "json",
    }
    if roles == "controller":
        options["listeners"] = "CONTROLLER://127.0.0.1:0"
    given = [f"{key}={value}" for key, value in options.items()]
    return run(argparse.Namespace(config=None, set=given, format=False, add_scram=[]))


@pytest.mark.invariant("S11")
@pytest.mark.parametrize("roles", ["controller", "broker", "broker,controller"])
def test_no_role_opens_the_metadata_log_of_a_running_node(
    roles: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "metadata"
    folder.mkdir()
    running = FolderLocks(FileDisk(), 1)
    running.take(str(folder))
    assert start(tmp_path, roles) == EXIT_FAILED
    running.release(str(folder))
    printed = "".join(capfd.readouterr())
    assert f"{folder} is in use by node 1 (process {os.getpid()} on " in printed
    assert "Traceback" not in printed
    assert os.listdir(folder) == [".lock"], "nothing was opened"


@pytest.mark.invariant("S10")
def test_a_damaged_quorum_state_is_reported_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "metadata" / METADATA_LOG
    folder.mkdir(parents=True)
    (folder / "quorum-state").write_text("{")
    assert start(tmp_path, "controller") == EXIT_FAILED
    printed = "".join(capfd.readouterr())
    [failed] = [line for line in printed.splitlines() if "node.failed" in line]
    assert f"{folder}/quorum-state: it cannot be read" in failed
    assert "rookery quorum remove-voter ID DIRECTORY" in failed
    assert "Traceback" not in printed
