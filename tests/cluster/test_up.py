"""`rookery up`, `down`, `node` and the first commands, as a person uses them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.client.local import launcher, processes
from tests.cluster.local import LocalCluster, local_cluster, wait_for

TIMEOUT_S = 90


def rookery(*arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "rookery.client.cli", *arguments],
        input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if check and done.returncode:
        raise AssertionError(f"rookery {' '.join(arguments)} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with local_cluster(1) as running:
        yield running


@pytest.mark.row(186)
def test_version_and_help_need_no_cluster() -> None:
    assert rookery("--version").stdout.startswith("rookery 0.")
    assert "start a cluster on this machine" in rookery("--help").stdout


@pytest.mark.row(46)
def test_topics_records_and_status_from_the_command_line(cluster: LocalCluster) -> None:
    at = ["--bootstrap", cluster.bootstrap]
    assert "with 2 partition(s)" in rookery("topic", "create", "cli", "-p", "2", *at).stdout
    assert rookery("topic", "list", "-o", "name", *at).stdout.split() == ["cli"]
    rookery("produce", "cli", "-p", "1", "-H", "kind=test", "--key-separator", ":", *at, stdin="k:one\nk:two\n")
    lines = rookery("consume", "cli", "-o", "jsonl", *at).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["partition"], r["offset"], r["key"], r["value"]) for r in records] == [
        (1, 0, "k", "one"), (1, 1, "k", "two"),
    ]  # fmt: skip
    assert records[0]["headers"] == [["kind", "test"]]
    assert rookery("consume", "cli", "-p", "1", "--from", "-1", *at).stdout == "two\n"
    rookery("topic", "add-partitions", "cli", "3", *at)
    described = json.loads(rookery("topic", "describe", "cli", "-o", "json", *at).stdout)
    assert [(p["leader"], p["isr"], p["osr"]) for p in described] == [(1, [1], [])] * 3
    assert "healthy" in rookery("cluster", "status", *at).stdout
    rookery("topic", "delete", "cli", "--yes", *at)
    assert rookery("topic", "describe", "cli", *at, check=False).returncode == 4


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_from_the_command_line(cluster: LocalCluster, codec: str) -> None:
    at = ["--bootstrap", cluster.bootstrap]
    rookery("produce", f"codec-{codec}", "--compression", codec, *at, stdin="a" * 500 + "\n")
    assert rookery("consume", f"codec-{codec}", *at).stdout == "a" * 500 + "\n"


def test_mistakes_are_explained(cluster: LocalCluster) -> None:
    at = ["--bootstrap", cluster.bootstrap]
    refused = rookery("topic", "create", "many", "-r", "7", *at, check=False)
    assert refused.returncode == 1
    assert "INVALID_REPLICATION_FACTOR" in refused.stderr
    assert "Traceback" not in refused.stderr
    rookery("topic", "create", "short", *at)
    rookery("produce", "short", *at, stdin="one\ntwo\n")
    beyond = rookery("consume", "short", "--from", "7", "-n", "1", *at, check=False)
    assert beyond.returncode == 1
    assert "short-0 at offset 7: it holds 0 to 1" in beyond.stderr
    typo = rookery("produce", "shrot", *at, stdin="three\n")
    assert "created topic shrot with 1 partition(s): there was none" in typo.stderr
    nobody = rookery("topic", "list", "--bootstrap", "127.0.0.1:1", check=False)
    assert "Is the cluster running?" in nobody.stderr


def test_health_pages(cluster: LocalCluster) -> None:
    assert cluster.http(1, "/livez") == "ok\n"
    assert cluster.http(1, "/readyz") == "ok\n"
    report = cluster.health(1)
    assert report["ready"]
    assert report["broker"]["state"] == "RUNNING"
    assert report["controller"] == {"leader": 1, "epoch": report["controller"]["epoch"], "active": True}
    assert cluster.metric(1, "kafka_controller_kafkacontroller_activecontrollercount") == 1


@pytest.mark.row(182)
def test_what_nodes_recorded_and_the_path_of_a_record(cluster: LocalCluster) -> None:
    at = ["--bootstrap", cluster.bootstrap]
    rookery("topic", "create", "traced", *at)
    rookery("produce", "traced", *at, stdin="one\ntwo\n")
    rows = json.loads(rookery("events", "--topic", "traced", "-o", "json", *at).stdout)
    assert [row["event"] for row in rows] == ["topic.created", "leadership.begun"]
    steps = json.loads(rookery("trace", "traced", "0", "1", "-o", "json", *at).stdout)
    assert [(step["step"], step["who"]) for step in steps][:2] == [("appended", "broker 1"), ("committed", "in sync 1")]
    assert steps[1]["what"] == "yes: the high watermark is 2"
    assert "the high watermark is 2" in rookery("trace", "traced", "0", "7", *at).stdout
    assert rookery("trace", "traced", "9", "0", *at, check=False).returncode == 4
    follow = subprocess.Popen(
        [sys.executable, "-m", "rookery.client.cli", "events", "-f", "--event", "topic.", "-o", "jsonl", *at],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert follow.stdout is not None
        told = follow.stdout.readline()
        assert "topic.created" in told
        rookery("topic", "create", "live", *at)
        while json.loads(told)["fields"]["topic"] != "live":
            told = follow.stdout.readline()
    finally:
        follow.kill()
        follow.communicate()


@pytest.mark.row(185)
def test_the_terminal_shows_the_core_metrics(cluster: LocalCluster) -> None:
    at = ["--bootstrap", cluster.bootstrap]
    rookery("topic", "create", "measured", *at)
    watch = subprocess.Popen(
        [sys.executable, "-m", "rookery.client.cli", "cluster", "watch", "--metrics", "-o", "jsonl", *at],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["node"] == 1, "it has had its first look"
        rookery("produce", "measured", *at, stdin="1\n2\n3\n")
        counted = 0.0
        while not counted:
            row = json.loads(watch.stdout.readline())
            assert row["leaders"] > 0
            counted = row["messages-in/s"]
        assert 0 < counted <= 3.5, "three records in about a second; not counted twice"
        assert row["MB-in/s"] >= 0
    finally:
        watch.kill()
        watch.communicate()
    printed = rookery("cluster", "watch", "--metrics", "-n", "1", "--interval", "0.2", *at).stdout
    clock, head, one, both = printed.splitlines()
    assert clock.count(":") == 2
    assert head.split()[:4] == ["NODE", "MESSAGES-IN/S", "MB-IN/S", "MB-OUT/S"]
    assert (one.split()[0], both.split()[0]) == ("1", "all")


@pytest.mark.row(186)
def test_up_detached_restart_on_the_same_data_and_down(tmp_path: Path) -> None:
    data = str(tmp_path / "c")
    first = rookery("up", "--nodes", "1", "--port", "0", "--data", data, "--detach", "--set", "num.partitions=2")
    assert "1 node(s) up in" in first.stdout
    cluster = json.loads((tmp_path / "c" / "cluster.json").read_text())
    at = ["--bootstrap", cluster["bootstrap"]]
    rookery("produce", "kept", *at, stdin="survives\n")
    node = launcher.existing(tmp_path / "c")
    assert node is not None
    os.kill(node.nodes[0].pid, signal.SIGKILL)
    wait_for(lambda: not processes.is_running(node.nodes[0].pid, node.nodes[0].started), "the node to be gone")
    rookery("up", "--data", data, "--detach")
    again = json.loads((tmp_path / "c" / "cluster.json").read_text())
    assert again["cluster_id"] == cluster["cluster_id"]
    assert again["nodes"][0]["pid"] != cluster["nodes"][0]["pid"]
    assert rookery("consume", "kept", *at).stdout == "survives\n"
    described = json.loads(rookery("topic", "describe", "kept", "-o", "json", *at).stdout)
    assert len(described) == 2, "options given with --set stay with the cluster"
    here = ["--data", data]
    restarted = rookery("up", "restart", "1", *here).stdout
    assert "node 1 is ready again" in restarted
    assert "node.ready" in rookery("up", "logs", "1", *here).stdout
    assert rookery("up", "logs", "7", *here, check=False).returncode == 4
    assert "stopped node 1" in rookery("up", "stop", "1", *here).stdout
    assert "was not running" in rookery("up", "stop", "1", *here).stdout
    rookery("up", "restart", "1", *here)
    assert rookery("consume", "kept", *at).stdout == "survives\n"
    assert "stopped 1 node(s)" in rookery("down", "--data", data).stdout
    log = (tmp_path / "c" / "node-1" / "node.log").read_text()
    assert "node.stopped" in log
    lines = (tmp_path / "c" / "node-1" / "flight-recorder.jsonl").read_text().splitlines()
    lived = [json.loads(line)["event"] for line in lines]
    assert (lived.count("node.ready"), lived.count("node.stopped")) == (4, 3), "kept over kill -9 and restart"
    assert (tmp_path / "c" / "node-1" / ".kafka_cleanshutdown").exists()
    assert "needs --yes" in rookery("up", "reset", *here, check=False).stderr
    assert "removed the data" in rookery("up", "reset", "--yes", *here).stdout
    assert list((tmp_path / "c").iterdir()) == []


def test_ephemeral_data_is_removed(tmp_path: Path) -> None:
    data = str(tmp_path / "c")
    rookery("up", "--nodes", "1", "--port", "0", "--data", data, "--detach", "--ephemeral")
    assert "removed the data" in rookery("down", "--data", data).stdout
    assert not (tmp_path / "c" / "node-1").exists()


def test_ctrl_c_stops_a_cluster_in_the_foreground(tmp_path: Path) -> None:
    """Also where the tests run in the background of a shell, which has its children ignore SIGINT."""
    up = subprocess.Popen(
        [sys.executable, "-m", "rookery.client.cli", "up", "--nodes", "1", "--port", "0", "--data", str(tmp_path)],
        stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert up.stdout is not None
        assert "1 node(s) up" in up.stdout.readline()
        up.send_signal(signal.SIGINT)
        rest = up.communicate(timeout=TIMEOUT_S)[0]
        assert "stopped 1 node(s)" in rest
        assert up.returncode == 0
    finally:
        up.kill()
        up.communicate()


def test_a_node_with_a_wrong_option_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "bad.properties"
    config.write_text("node.id=1\nnum.partitions=none\n")
    refused = rookery("node", "--config", str(config), check=False)
    assert refused.returncode == 2
    assert "num.partitions='none' cannot be used: a whole number from 1" in refused.stderr
    missing = rookery("node", "--config", str(tmp_path / "absent"), check=False)
    assert "it cannot be read" in missing.stderr


def test_the_log_of_another_node_is_refused(tmp_path: Path) -> None:
    """A folder says whose it is."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "meta.properties").write_text(
        "version=1\ncluster.id=other\nnode.id=7\ndirectory.id=AAAAAAAAAAAAAAAAAAAABQ\n"
    )
    refused = rookery(
        "node", "--set", "node.id=1", "--set", f"log.dirs={folder}", "--set", "rookery.cluster.id=mine",
        "--set", "controller.quorum.voters=1@127.0.0.1:1", check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "belongs to cluster other" in refused.stderr
    assert "Traceback" not in refused.stderr
