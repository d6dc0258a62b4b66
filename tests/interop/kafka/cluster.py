"""Kafka's own brokers, handled like a cluster of ours: what tests ask of the one can be asked of the other."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from kafka import KafkaAdminClient

from rookery.client.local import launcher, processes
from rookery.client.local.cluster_file import ClusterFile, RunningNode
from rookery.client.local.shape import Shape, controllers_for
from tests import needs
from tests.cluster.local import LocalCluster, wait_for
from tests.interop.kafka import jars
from tests.interop.kafka.server import CLUSTER_ID, START_S
from tests.ports import free_ports

HOST = "127.0.0.1"


class KafkaCluster(LocalCluster):
    """Brokers, as many of them controllers too as in a cluster of ours. kill, stop and up work as on ours, and so does
    what goes over the wire."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        options: dict[str, str],
        heap: str = "384m",
        java: tuple[str, ...] = jars.QUICK_START,
    ) -> None:
        self._heap, self._java = heap, java
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ports = free_ports(2 * nodes)
        super().__init__(folder, nodes, options)

    def up(self, nodes: int | None = None, port: int = 0) -> ClusterFile:
        """Start what does not run; the number of nodes cannot change."""
        ids = range(1, self._nodes + 1)
        missing = [n for n in ids if n not in self._processes or self._processes[n].poll() is not None]
        for node_id in missing:
            self._start(node_id)
        self.file = ClusterFile(
            CLUSTER_ID, ",".join(map(self._address, ids)), tuple(map(self._running, ids)), self._nodes, {}
        )
        wait_for(self._all_known, "every broker of Kafka to be known", START_S)
        return self.file

    def down(self) -> None:
        for node in reversed(self.file.nodes):
            launcher.stop_node(node, print)
        for process in self._processes.values():
            process.wait(60)

    def active_controllers(self) -> list[int]:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            quorum = admin.describe_metadata_quorum()
        finally:
            admin.close()
        return [quorum["topics"][0]["partitions"][0]["leader_id"]]

    def http(self, node_id: int, page: str, timeout_s: float = 0) -> str:
        needs.own_server(f"Kafka serves no {page}")
        raise AssertionError("not reached")

    # --- processes ------------------------------------------------------------------------------------------

    def _start(self, node_id: int) -> None:
        data = self._data(node_id)
        config = self.folder / f"node-{node_id}.properties"
        if not data.exists():
            data.mkdir(parents=True)
            config.write_text("".join(f"{key}={value}\n" for key, value in self._properties(node_id).items()))
            words = [*jars.command("kafka.tools.StorageTool"), "format", "-t", CLUSTER_ID, "-c", str(config)]
            subprocess.run(words, check=True, capture_output=True, timeout=120)
        with (data / "node.log").open("ab") as output:
            self._processes[node_id] = subprocess.Popen(
                [*jars.command("kafka.Kafka", heap=self._heap, options=self._java), str(config)],
                stdout=output, stderr=output,
            )  # fmt: skip

    def _properties(self, node_id: int) -> dict[str, str]:
        controllers = controllers_for(self._nodes)
        voters = [f"{n}@{HOST}:{self._ports[2 * n - 1]}" for n in range(1, controllers + 1)]
        given = {name: value for name, value in self._options.items() if not name.startswith("rookery.")}
        control = f",CONTROLLER://{HOST}:{self._ports[2 * node_id - 1]}" if node_id <= controllers else ""
        return {
            "process.roles": "broker,controller" if control else "broker",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{self._address(node_id)}{control}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self._data(node_id)),
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **Shape(CLUSTER_ID, self.folder, 0, self._nodes, self._nodes).defaults(),
            **given,
        }

    def _data(self, node_id: int) -> Path:
        return self.folder / f"node-{node_id}"

    def _address(self, node_id: int) -> str:
        return f"{HOST}:{self._ports[2 * node_id - 2]}"

    def _running(self, node_id: int) -> RunningNode:
        pid = self._processes[node_id].pid
        started = processes.started_at(pid) or 0.0
        return RunningNode(node_id, pid, started, self._address(node_id), "", "", str(self._data(node_id)))

    def _all_known(self) -> bool:
        for node in self.file.nodes:
            if launcher.has_ended(node):
                raise RuntimeError(f"Kafka did not start:\n{self.log(node.id)[-3000:]}")
        if any(_refuses(node.kafka) for node in self.file.nodes):
            return False
        try:
            return len(self.admin().list_topics(timeout=10).brokers) == self._nodes
        except KafkaException:
            return False


def _refuses(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0


def kafka_cluster(nodes: int = 3, **options: str) -> AbstractContextManager[KafkaCluster]:
    """The counterpart of `local_cluster`. Java starts quickly and stays small."""
    return _cluster(nodes, options, "384m", jars.QUICK_START)


def fast_kafka_cluster(nodes: int = 3, **options: str) -> AbstractContextManager[KafkaCluster]:
    """With the settings of Java that Kafka's start script has: to be measured."""
    return _cluster(nodes, options, jars.OWN_HEAP, jars.OWN_SETTINGS)


@contextmanager
def _cluster(nodes: int, options: dict[str, str], heap: str, java: tuple[str, ...]) -> Iterator[KafkaCluster]:
    folder = Path(tempfile.mkdtemp(prefix="rookery-test-kafka-"))
    try:
        given = {name.replace("__", "."): value for name, value in options.items()}
        cluster = KafkaCluster(folder, nodes, given, heap, java)
        try:
            yield cluster
        except BaseException:
            cluster.show_logs()
            raise
        finally:
            cluster.down()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
