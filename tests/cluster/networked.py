"""A cluster whose nodes are apart: each in a network of its own, and the clients in another.

Connections can be cut without a word, between some nodes or around one of them.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.client.local import launcher, processes
from rookery.client.local.cluster_file import ClusterFile, RunningNode
from rookery.client.local.shape import NodePlan, Shape
from rookery.core.ids import id_text, new_id
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.netns import Network, network

PORT = 9092
CLIENTS_MORE = 1


class NetworkedCluster(LocalCluster):
    """Nodes with addresses of their own. Whoever uses it must be on the clients' network."""

    def __init__(self, folder: Path, nodes: int, options: dict[str, str], wires: Network) -> None:
        self.wires = wires
        self._shape = Shape(id_text(new_id()), folder, PORT, nodes, nodes)
        self._running: dict[int, RunningNode] = {}
        super().__init__(folder, nodes, options)

    def up(self, nodes: int | None = None, port: int = 0) -> ClusterFile:
        """Start what does not run, and wait until it is ready."""
        dead = [plan for plan in self._shape.plans() if not self._lives(plan.id)]
        for plan in dead:
            self._running[plan.id] = self._start(plan)
        started = tuple(self._running[plan.id] for plan in self._shape.plans())
        bootstrap = ",".join(node.kafka for node in started)
        self.file = ClusterFile(self._shape.cluster_id, bootstrap, started, self._shape.controllers, self._options)
        for plan in dead:
            wait_for(lambda node=self._running[plan.id]: not launcher.readiness(node), f"node {plan.id}", 60)  # type: ignore[misc]
        return self.file

    def down(self) -> None:
        self.heal()
        self.resume_all()
        for node in reversed(self.file.nodes):
            launcher.stop_node(node, print)

    # --- faults ---------------------------------------------------------------------------------------------

    def cut_from_nodes(self, node_id: int) -> None:
        """The other nodes do not hear of this one any more; clients do."""
        self.wires.part(node_id, [other for other in self.ids if other != node_id])
        self._paused.add(node_id)

    def cut_from_all(self, node_id: int) -> None:
        self.wires.cut(node_id)
        self._paused.add(node_id)

    def heal(self) -> None:
        self.wires.heal()
        self._paused.clear()

    # --- inside ---------------------------------------------------------------------------------------------

    def _lives(self, node_id: int) -> bool:
        return node_id in self._running and not launcher.has_ended(self._running[node_id])

    def _start(self, plan: NodePlan) -> RunningNode:
        plan.data.mkdir(parents=True, exist_ok=True)
        plan.properties.write_text(self._shape.properties(plan, {**self._addresses(plan), **self._options}))
        with self.wires.here(plan.id):
            pid, started = processes.start_node(plan)
        host = self.wires.address(plan.id)
        kafka, grpc, http = (f"{host}:{port}" for port in plan.ports)
        return RunningNode(plan.id, pid, started, kafka, grpc, http, str(plan.data))

    def _addresses(self, plan: NodePlan) -> dict[str, str]:
        host = self.wires.address(plan.id)
        voters = [(voter.id, f"{self.wires.address(voter.id)}:{voter.grpc_port}") for voter in self._shape.plans()]
        return {
            "listeners": f"PLAINTEXT://{host}:{plan.kafka_port},CONTROLLER://{host}:{plan.grpc_port}",
            "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in voters),
            "controller.quorum.bootstrap.servers": ",".join(address for _, address in voters),
            "rookery.http.listener": f"{host}:{plan.http_port}",
        }


@contextmanager
def networked_cluster(nodes: int = 3, **options: str) -> Iterator[NetworkedCluster]:
    """A cluster and the network around it, with this thread on the clients' side of it. Logs are shown when the
    test fails."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-test-"))
    given = {name.replace("__", "."): value for name, value in options.items()}
    with network(nodes + CLIENTS_MORE) as wires, wires.here(nodes + CLIENTS_MORE):
        cluster = None
        try:
            cluster = NetworkedCluster(folder, nodes, given, wires)
            yield cluster
        except BaseException:
            if cluster is not None:
                cluster.show_logs()
            raise
        finally:
            if cluster is not None:
                cluster.down()
            shutil.rmtree(folder, ignore_errors=True)
