"""The built wheel is whole: it installs into an empty environment, and the command works there."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from tests.tidy.source import FOLDERS, ROOT

TIMEOUT_S = 240


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{command} failed: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_wheel_installs_into_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for folder in FOLDERS:
        assert any(name.startswith(f"rookery/{folder}/") for name in names)
    assert "rookery/py.typed" in names
    assert {"rookery/proto/raft.proto", "rookery/proto/raft_pb2.py"} <= set(names)
    assert not any(name.startswith("tests/") for name in names)

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    command = tmp_path / "empty" / "bin" / "rookery"
    assert "run one node in the foreground" in run(command, "--help", cwd=tmp_path)
    assert run(command, "--version", cwd=tmp_path).startswith("rookery 0.")
    assert "--config" in run(command, "node", "--help", cwd=tmp_path)
