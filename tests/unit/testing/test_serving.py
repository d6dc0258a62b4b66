"""A cluster for test suites in other languages: it lives as long as whoever started it."""

import signal
import subprocess
import sys

import pytest

from rookery.client.cli.__main__ import main
from rookery.client.local import processes

PARENT = """
import subprocess, sys, time
command = [sys.executable, "-m", "rookery.client.cli", "up", "--in-process", "--nodes", "1"]
child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), flush=True)
time.sleep(600)
"""
GONE_S = 60.0


def test_it_ends_when_its_parent_is_killed() -> None:
    """Also one that gives no pipe as standard input, as Go's exec.Command."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, bootstrap = parent.stdout.readline().split()
        started = processes.started_at(int(pid))
        assert bootstrap.startswith("127.0.0.1:")
        assert started is not None
        parent.send_signal(signal.SIGKILL)
        assert processes.wait_until(lambda: not processes.is_running(int(pid), started), GONE_S)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--detach"], "--detach needs nodes that are processes of their own"),
        (["--secure"], "--secure needs nodes that are processes of their own"),
        (["--ephemeral", "--data", "somewhere"], "the data is in memory"),
        (["--nodes", "0"], "a cluster has at least one"),
        (["--nodes", "2", "--port", "65535"], "port 65536 of 127.0.0.1 cannot be had"),
        (["--nodes", "1", "--set", "min.insync.replicas=many"], "node 1 ended: min.insync.replicas='many'"),
    ],
)
def test_what_cannot_be_is_reported_in_a_sentence(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert main(["up", "--in-process", *arguments]) in (1, 2)
    assert reason in capsys.readouterr().err
