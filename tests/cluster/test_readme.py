"""What the README tells people to type."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rookery.client.cli.cluster import EXIT_UNHEALTHY
from tests.cluster.local import wait_for

README = Path(__file__).parents[2] / "README.md"
TIMEOUT_S = 120


class Shell:
    """A terminal in a folder of its own, where `rookery` is on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        tools = folder / "bin"
        tools.mkdir()
        command = tools / "rookery"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m rookery.client.cli "$@"\n')
        command.chmod(0o755)
        self._environ = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}
        for name in ("ROOKERY_BOOTSTRAP", "ROOKERY_CONTROLLERS", "ROOKERY_CONTEXT", "XDG_CONFIG_HOME"):
            self._environ.pop(name, None)

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line, shell=True, cwd=self.folder, env=self._environ,
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    def shows(self, line: str) -> bool:
        return BECOMES[line](self.run(line))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    try:
        yield shell
    finally:
        shell.run("rookery down")


def section(title: str) -> list[str]:
    """The commands of a section of the README."""
    text = README.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (.*?)(?:\s+#.*)?$", text, re.MULTILINE)


def has_another_leader(done: subprocess.CompletedProcess[str]) -> bool:
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    return done.returncode == 0 and len(rows) == 3 and all(row[1] != "1" and row[5] == "1" for row in rows)


BECOMES: dict[str, Callable[[subprocess.CompletedProcess[str]], bool]] = {
    "rookery topic describe orders": has_another_leader,
    "rookery cluster status": lambda done: done.returncode == 0,
}
"""What a line shows after a moment, if not at once: nodes come and go, and a person types more slowly than this."""


@pytest.mark.row(186)
def test_try_to_break_it_works_line_by_line(shell: Shell) -> None:
    up = shell.run("rookery up --detach --port 0")
    assert up.returncode == 0, up.stderr
    cluster = json.loads((shell.folder / ".rookery" / "cluster.json").read_text())
    statuses = [shell.run(f"rookery cluster status -o json --bootstrap {node['kafka']}") for node in cluster["nodes"]]
    controllers = {json.loads(status.stdout)[0]["controller"] for status in statuses}
    assert len(controllers) == 1, "the active one, whoever answers"
    lines = section("Try to break it")
    assert set(BECOMES) < set(lines)
    outcomes = {}
    for line in lines:
        done = outcomes[line] = shell.run(line)
        assert done.returncode in (0, EXIT_UNHEALTHY), f"{line}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        if line in BECOMES:
            wait_for(partial(shell.shows, line), line)
            assert "cluster.json)" in done.stderr, "it says which cluster it chose"
        else:
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    produced = next(done for line, done in outcomes.items() if "produce" in line)
    assert "wrote 100000 record(s) to orders" in produced.stderr
    assert "stopped" in outcomes["rookery down"].stdout
