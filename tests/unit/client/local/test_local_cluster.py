import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import main
from rookery.client.errors import CliError, UnhealthyError, UsageError
from rookery.client.local import cluster_file, launcher, processes
from rookery.client.local.cluster_file import ClusterFile, RunningNode
from rookery.client.local.shape import NodePlan, Shape, controllers_for
from rookery.core.config import node
from rookery.core.config.listeners import listeners_of
from rookery.core.config.loading import load
from rookery.core.config.properties import read_properties


def running(pid: int = 1, started: float = 0.0, port: int = 9092) -> RunningNode:
    return RunningNode(
        1, pid, started, f"127.0.0.1:{port}", f"127.0.0.1:{port + 100}", f"127.0.0.1:{port + 200}", "d"
    )


def a_cluster(nodes: int = 1) -> ClusterFile:
    return ClusterFile("id", "127.0.0.1:9092", tuple(running() for _ in range(nodes)), 1, {})


@pytest.mark.parametrize(("nodes", "controllers"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)])
def test_how_many_nodes_are_controllers(nodes: int, controllers: int) -> None:
    assert controllers_for(nodes) == controllers


def test_each_node_has_its_block_of_ports_and_a_config_that_loads_without_a_warning(tmp_path: Path) -> None:
    shape = Shape("abc", tmp_path, 9092, 4, 3)
    assert [plan.ports for plan in shape.plans()] == [(9092 + i, 9192 + i, 9292 + i) for i in range(4)]
    assert shape.bootstrap.startswith("127.0.0.1:9092,127.0.0.1:9093,")
    for plan in shape.plans():
        loaded = load([("file", read_properties(shape.properties(plan, {"num.partitions": "7"})))])
        assert loaded.warnings == ()
        settings = loaded.settings
        assert settings[node.NODE_ID] == plan.id
        assert settings[node.NUM_PARTITIONS] == 7
        assert settings[node.DEFAULT_REPLICATION_FACTOR] == 3
        assert settings[node.MIN_INSYNC_REPLICAS] == 2
        assert len(settings[node.CONTROLLER_QUORUM_VOTERS]) == 3
        assert bool(listeners_of(settings).controllers) == (plan.id <= 3)


def test_nodes_take_racks_in_turn(tmp_path: Path) -> None:
    shape = Shape("abc", tmp_path, 9092, 3, 3)
    for racks, expected in [("a, b", ["a", "b", "a"]), ("a", ["a", "a", "a"]), (None, ["", "", ""])]:
        texts = [shape.properties(plan, {"broker.rack": racks} if racks else {}) for plan in shape.plans()]
        settings = [load([("file", read_properties(text))]).settings for text in texts]
        assert [each[node.BROKER_RACK] for each in settings] == expected


def test_one_node_keeps_one_replica(tmp_path: Path) -> None:
    assert Shape("abc", tmp_path, 9092, 1, 1).defaults() == {
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "min.insync.replicas": "1",
    }


def test_the_cluster_file_round_trips_and_has_the_contracted_fields(tmp_path: Path) -> None:
    cluster_file.write(tmp_path, a_cluster())
    assert cluster_file.read(tmp_path) == a_cluster()
    loaded = json.loads((tmp_path / "cluster.json").read_text())
    assert set(loaded) >= {"cluster_id", "bootstrap", "nodes"}
    assert set(loaded["nodes"][0]) == {"id", "pid", "started", "kafka", "grpc", "http", "data"}
    assert list(tmp_path.iterdir()) == [tmp_path / "cluster.json"]


def test_a_damaged_cluster_file_is_explained(tmp_path: Path) -> None:
    assert cluster_file.read(tmp_path) is None
    (tmp_path / "cluster.json").write_text('{"nodes": [{')
    with pytest.raises(cluster_file.DamagedClusterFileError, match="remove the file"):
        cluster_file.read(tmp_path)


def test_a_process_is_known_by_pid_and_start_time() -> None:
    started = processes.started_at(os.getpid())
    assert started is not None
    assert started <= time.time() + 1
    assert processes.is_running(os.getpid(), started)
    assert not processes.is_running(os.getpid(), started - 100)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert processes.started_at(ended.pid) is None


def test_a_busy_port_is_explained_with_its_holder(tmp_path: Path) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert not processes.port_is_free(port)
        assert processes.holder_of(port).startswith(f"pid {os.getpid()} (")
        request = launcher.UpRequest(tmp_path, 1, port, {}, ephemeral=False)
        with pytest.raises(CliError, match=f"port {port}, needed by node 1, is in use by pid {os.getpid()}"):
            launcher.bring_up(request, print)


@pytest.mark.parametrize(
    ("nodes", "port", "says"),
    [(1, 9092, "has 3 nodes"), (3, 9999, "is on port 9092"), (0, 9092, "from 1 to 99")],
)
def test_other_changes_of_shape_are_refused(tmp_path: Path, nodes: int, port: int, says: str) -> None:
    cluster_file.write(tmp_path, a_cluster(3))
    with pytest.raises(UsageError, match=says):
        launcher.bring_up(launcher.UpRequest(tmp_path, nodes, port, {}, ephemeral=False), print)


def test_down_without_a_cluster_says_so(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="there is no cluster in"):
        launcher.bring_down(tmp_path, print)


def test_down_with_nothing_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster_file.write(tmp_path, a_cluster())
    launcher.bring_down(tmp_path, print)
    assert "no node was running" in capsys.readouterr().out


def no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(plan: NodePlan) -> tuple[int, float]:
        raise AssertionError("no node is to be started")

    monkeypatch.setattr(processes, "start_node", start)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("num.partitions", "many", "num.partitions"),
        ("log.retention.ms", "-7", "log.retention.ms"),
        ("node.id", "7", "`rookery up` sets it itself"),
        ("listeners", "PLAINTEXT://:1", "`rookery up` sets it itself"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str, says: str
) -> None:
    no_node(monkeypatch)
    request = launcher.UpRequest(tmp_path, 1, 0, {key: value}, ephemeral=False)
    with pytest.raises(UsageError, match=says):
        launcher.bring_up(request, print)
    assert cluster_file.read(tmp_path) is None
    cluster_file.write(tmp_path, replace(a_cluster(), overrides={"num.partitions": "3"}))
    with pytest.raises(UsageError, match=says):
        launcher.bring_up(request, print)
    stored = cluster_file.read(tmp_path)
    assert stored is not None
    assert stored.overrides == {"num.partitions": "3"}


def test_unknown_options_are_reported_on_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "start_node", lambda plan: (1, 0.0))
    monkeypatch.setattr(launcher, "_wait_ready", lambda *_: None)
    said: list[str] = []
    overrides = {"num.partitons": "3", "background.threads": "3"}
    launcher.bring_up(launcher.UpRequest(tmp_path, 1, 0, overrides, ephemeral=False), said.append)
    assert "note: num.partitons is not an option and is ignored; did you mean num.partitions?" in said
    assert any(text.startswith("note: background.threads has no effect") for text in said)


def test_options_that_ended_a_node_are_not_inherited_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "start_node", lambda plan: (1, 0.0))
    cluster_file.write(tmp_path, replace(a_cluster(), overrides={"num.partitions": "3"}))
    request = launcher.UpRequest(tmp_path, 1, 0, {"message.max.bytes": "5000"}, ephemeral=False)
    with pytest.raises(UnhealthyError, match="node 1 ended while starting"):
        launcher.bring_up(request, print)
    stored = cluster_file.read(tmp_path)
    assert stored is not None
    assert stored.overrides == {"num.partitions": "3"}


@pytest.mark.attack(60)
@pytest.mark.parametrize("secure", [False, True])
def test_secret_options_are_kept_apart_from_the_cluster_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool
) -> None:
    monkeypatch.setattr(processes, "start_node", lambda plan: (1, 0.0))
    monkeypatch.setattr(launcher, "_wait_ready", lambda *_: None)
    folder, overrides = tmp_path / "cluster", {"rookery.http.token": "s3cret", "num.partitions": "3"}
    launcher.bring_up(launcher.UpRequest(folder, 1, 0, overrides, ephemeral=False, secure=secure), print)
    stored = cluster_file.read(folder)
    assert stored is not None
    assert stored.overrides == {"num.partitions": "3"}
    holding = {each.name: each for each in folder.rglob("*") if each.is_file() and "s3cret" in each.read_text()}
    assert holding.keys() == {launcher.SECRET_OPTIONS, launcher.PROPERTIES}
    assert {each.stat().st_mode & 0o777 for each in holding.values()} == {0o600}

    again = launcher.bring_up(launcher.UpRequest(folder, 2, None, {}, ephemeral=False), print)
    assert again.overrides == overrides, "the next start has them, too"
    assert read_properties((folder / "node-2" / launcher.PROPERTIES).read_text())["rookery.http.token"] == "s3cret"
    launcher.remove(folder, print)
    assert not (folder / launcher.SECRET_OPTIONS).exists()


@pytest.mark.parametrize("port", [-1, 65335, 70000])
def test_impossible_ports_are_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(UsageError, match=r"--port .*: the first of 2 node\(s\) can be on port 1 to 65334"):
        launcher.bring_up(launcher.UpRequest(tmp_path, 2, port, {}, ephemeral=False), print)


@pytest.mark.parametrize("folder", ["afile", "afile/below", "/proc/rookery"])
@pytest.mark.parametrize("command", [["up", "--port", "0"], ["down"]])
def test_a_folder_that_cannot_be_used_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: str, command: list[str]
) -> None:
    no_node(monkeypatch)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "afile").write_text("not a folder")
    assert main([*command, "--data", str(tmp_path / folder)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rookery: ")
    assert folder in error
    assert error.count("\n") == 1


def test_a_refused_command_does_not_stop_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bring_down(*_: object) -> None:
        raise AssertionError("the running cluster is stopped")

    no_node(monkeypatch)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(launcher, "bring_down", bring_down)
    cluster_file.write(tmp_path, a_cluster())
    for mistake in (["--port", "70000"], ["--set", "num.partitions=many"], ["--nodes", "0"]):
        assert main(["up", "--data", str(tmp_path), *mistake]) == 2
