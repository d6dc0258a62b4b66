"""The testing kit over real processes: the same interface, and a reason where a process cannot do it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.client.local import processes
from rookery.testing import Cluster, UnsupportedFault
from tests.unit.testing import fault_table

CASES = [(name, *row) for name, row in fault_table.read("processes").items()]
KILLED = """
import time
from rookery.testing import Cluster
cluster = Cluster(nodes=1, processes=True).start()
print(cluster.nodes.pid(1), cluster.nodes.folder, flush=True)
time.sleep(600)
"""
GONE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, processes=True, config=fault_table.OPTIONS) as running:
        running.create_topic(fault_table.TOPIC)
        yield running


@pytest.mark.parametrize(("name", "call", "can"), CASES)
def test_each_fault_does_what_it_says_and_is_undone(cluster: Cluster, name: str, call: str, can: bool) -> None:
    if can:
        fault_table.check(cluster, name, call)
    else:
        with pytest.raises(UnsupportedFault, match="use nodes in this process"):
            fault_table.inject(cluster, call)


def test_a_node_that_is_started_again_takes_no_other_with_it(cluster: Cluster) -> None:
    first, second = cluster.kill(1), cluster.stop_node(2)
    first.undo()
    assert (cluster.nodes.is_up(1), cluster.nodes.is_up(2)) == (True, False)
    second.undo()
    cluster.wait_in_sync(fault_table.TOPIC)


def test_the_timeline_has_what_processes_logged(cluster: Cluster) -> None:
    cluster.create_topic("logged", replication_factor=3)
    began, leader = cluster.timeline.now_s, cluster.leader("logged")
    with cluster.kill(leader):
        cluster.wait_for(lambda: cluster.leader("logged") != leader, "another leader")
    story = cluster.story(began)
    assert story.index(f"kill node {leader}") < story.index("leader.elected topic=logged")
    assert "isr.changed topic=logged partition=0" in story
    assert "topic.created" not in story, "that was before"


def test_nodes_end_with_a_test_run_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid, folder = run.stdout.readline().split()
        started = processes.started_at(int(pid))
        assert started is not None
        assert Path(folder).is_dir()
        run.send_signal(signal.SIGKILL)
        assert processes.wait_until(lambda: not processes.is_running(int(pid), started), GONE_S)
        assert processes.wait_until(lambda: not Path(folder).exists(), GONE_S)
