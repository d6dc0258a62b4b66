"""The processes of a cluster on this machine, started as `rookery up` does, and what signals do to them."""

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from rookery.client.local import launcher, processes
from rookery.client.local.cluster_file import ClusterFile, RunningNode

GONE_S = 60.0


def _silent(_: str) -> None:
    """Say nothing."""


class NodeProcesses:
    """Nothing runs before `up`. Faults are real ones: `kill` is kill -9, `pause` is SIGSTOP."""

    def __init__(
        self, folder: Path, nodes: int, options: Mapping[str, str], report: Callable[[str], None] = _silent
    ) -> None:
        self.folder = folder
        self._nodes = nodes
        self._options = dict(options)
        self._report = report
        self._paused: set[int] = set()
        self._file: ClusterFile | None = None

    @property
    def file(self) -> ClusterFile:
        """As it was when nodes were started last."""
        if self._file is None:
            raise RuntimeError("the cluster has not been started")
        return self._file

    @file.setter
    def file(self, file: ClusterFile) -> None:
        self._file = file

    @property
    def bootstrap(self) -> str:
        return self.file.bootstrap

    @property
    def ids(self) -> list[int]:
        return [node.id for node in self.file.nodes]

    def node(self, node_id: int) -> RunningNode:
        return next(node for node in self.file.nodes if node.id == node_id)

    def is_up(self, node_id: int) -> bool:
        return self._file is not None and not launcher.has_ended(self.node(node_id))

    @property
    def awake(self) -> str:
        """Addresses of nodes that run and are not paused: they answer."""
        nodes = [node for node in self.file.nodes if node.id not in self._paused and not launcher.has_ended(node)]
        return ",".join(node.kafka for node in nodes)

    # --- life ------------------------------------------------------------------------------------------------

    def up(self, nodes: int | None = None, port: int = 0) -> ClusterFile:
        """Start what does not run, and wait until it is ready; port 0 finds free ones."""
        self._nodes = nodes or self._nodes
        return self._bring_up(port)

    def start(self, *node_ids: int) -> None:
        """Start these nodes of a cluster that was started before, and no other."""
        self._bring_up(0, node_ids)

    def _bring_up(self, port: int, only: tuple[int, ...] = ()) -> ClusterFile:
        request = launcher.UpRequest(
            self.folder, self._nodes, port, self._options, ephemeral=False, only=frozenset(only)
        )
        self.file = launcher.bring_up(request, self._report)
        return self.file

    def down(self) -> None:
        """Controlled shutdown of all."""
        self.resume_all()
        launcher.bring_down(self.folder, self._report)

    def stop(self, node_id: int) -> None:
        """Controlled shutdown of one node."""
        self.resume(node_id)
        launcher.stop_node(self.node(node_id), self._report)

    # --- faults ----------------------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        """kill -9, and wait until the process is gone."""
        node = self.node(node_id)
        self._paused.discard(node_id)
        if not processes.send_signal(node.pid, node.started, signal.SIGKILL):
            return
        if not processes.wait_until(lambda: launcher.has_ended(node), GONE_S):
            raise TimeoutError(f"node {node_id}, process {node.pid}, is still there {GONE_S:g} s after SIGKILL")

    def kill_all(self) -> None:
        """Every node of the folder, also of one that did not come up."""
        self._file = launcher.existing(self.folder.resolve()) or self._file
        for node in self._file.nodes if self._file is not None else ():
            self.kill(node.id)

    def pause(self, node_id: int) -> None:
        if self.is_up(node_id):
            os.kill(self.node(node_id).pid, signal.SIGSTOP)
            self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        self._paused.discard(node_id)
        if self.is_up(node_id):
            os.kill(self.node(node_id).pid, signal.SIGCONT)

    def resume_all(self) -> None:
        for node_id in self.ids:
            self.resume(node_id)

    def wipe(self, node_id: int) -> None:
        """An empty disk for a node that is down."""
        shutil.rmtree(self.node(node_id).data)
