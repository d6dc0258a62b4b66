"""A cluster of containers for tests, started from a compose file of the checkout, and what an engine can do to it."""

import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testcontainers.compose import DockerCompose

from rookery.client.local.cluster_file import ClusterFile
from tests.cluster.local import WAIT_S, LocalCluster, wait_for
from tests.containers.image import run
from tests.ports import free_ports
from tests.tidy.source import ROOT

STOP_S = 30
NODES = (1, 2, 3)


class ContainerCluster(LocalCluster):
    """Asked and waited for like a cluster of processes; its nodes are services of compose."""

    def __init__(self, compose: DockerCompose, project: str, prefix: str, kafka: list[int], http: list[int]) -> None:
        self._compose = compose
        self._project = project
        self._prefix = prefix
        self._kafka = kafka
        self._http = http
        self._paused = set()
        self._away: set[int] = set()
        self._admin = None

    # --- life -----------------------------------------------------------------------------------------------

    def up(self, nodes: int | None = None, port: int = 0) -> ClusterFile:
        raise NotImplementedError("containers are started one by one, or by the compose file")

    def down(self) -> None:
        self._compose.stop()

    def compose(self, *command: str) -> str:
        return run(*self._compose.compose_command_property, *command)

    def remove_volume(self, name: str) -> None:
        """Of a service whose profile is not active: `down()` leaves it. It may be of an earlier run of the tests."""
        run("docker", "volume", "rm", "--force", f"{self._project}_{name}")

    def service(self, node_id: int) -> str:
        return f"{self._prefix}-{node_id}"

    def container(self, node_id: int) -> str:
        return f"{self._project}-{self.service(node_id)}-1"

    @property
    def ids(self) -> list[int]:
        return list(NODES)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._kafka)

    @property
    def awake(self) -> str:
        reachable = [n for n in NODES if n not in self._paused | self._away]
        return ",".join(f"127.0.0.1:{self._kafka[n - 1]}" for n in reachable)

    def targets(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._http]

    # --- faults ---------------------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        self.compose("kill", self.service(node_id))
        self._away.add(node_id)

    def stop(self, node_id: int) -> None:
        """Controlled shutdown: the node must end by itself."""
        self.compose("stop", "--timeout", str(STOP_S), self.service(node_id))
        self._away.add(node_id)
        code = run("docker", "inspect", "--format", "{{.State.ExitCode}}", self.container(node_id)).strip()
        assert code == "0", f"node {node_id} ended with {code}"

    def start(self, *node_ids: int) -> None:
        """Start nodes again, and wait until they are ready."""
        self.compose("start", *map(self.service, node_ids))
        for node_id in node_ids:
            wait_for(lambda node_id=node_id: self.health(node_id).get("ready"), f"node {node_id} to be ready", 60)  # type: ignore[misc]
        self._away.difference_update(node_ids)

    def pause(self, node_id: int) -> None:
        self.compose("pause", self.service(node_id))
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        self.compose("unpause", self.service(node_id))
        self._paused.discard(node_id)

    def disconnect(self, node_id: int) -> None:
        """Cut a node off from the others and from clients."""
        run("docker", "network", "disconnect", f"{self._project}_default", self.container(node_id))
        self._away.add(node_id)

    def reconnect(self, node_id: int) -> None:
        network, alias = f"{self._project}_default", self.service(node_id)
        run("docker", "network", "connect", "--alias", alias, network, self.container(node_id))
        self._away.discard(node_id)

    def mend(self) -> None:
        """Undo what a failed test left behind."""
        for node_id in list(self._paused):
            self.resume(node_id)
        joined = run("docker", "network", "inspect", f"{self._project}_default")
        for node_id in list(self._away):
            running = run("docker", "inspect", "--format", "{{.State.Running}}", self.container(node_id)).strip()
            if running == "true" and self.container(node_id) not in joined:
                self.reconnect(node_id)
        self.start(*NODES)

    # --- facts ----------------------------------------------------------------------------------------------

    def http(self, node_id: int, page: str, timeout_s: float = WAIT_S) -> str:
        return fetch(f"http://127.0.0.1:{self._http[node_id - 1]}{page}", timeout_s)

    def log(self, node_id: int) -> str:
        return self.compose("logs", "--no-log-prefix", "--no-color", self.service(node_id))

    def memory_mb(self, node_id: int) -> float:
        """Resident memory of the node's process."""
        return self.metric(node_id, "process_resident_memory_bytes") / 1e6

    def wait_healthy(self) -> None:
        """Every node is ready, and no partition lacks a replica."""
        for node_id in self.ids:
            wait_for(lambda node_id=node_id: self.health(node_id).get("healthy"), f"node {node_id} to be healthy", 60)  # type: ignore[misc]


def fetch(url: str, timeout_s: float = 5) -> str:
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:
        return str(answer.read(), "utf-8")


@contextmanager
def compose_cluster(
    file: str, prefix: str, image: str, project: str, **other: str
) -> Iterator[ContainerCluster]:
    """The services of a compose file on free ports, gone afterwards with all their data; `other` variables of the
    file."""
    ports = free_ports(11)
    kafka, http, controllers = ports[:3], ports[3:6], ports[6:9]
    variables = {"COMPOSE_PROJECT_NAME": project, "ROOKERY_IMAGE": image, **other}
    variables |= {"SPARK_PORT": str(ports[9]), "PIPELINE_METRICS_PORT": str(ports[10])}
    for number in NODES:
        variables[f"ROOKERY_PORT_{number}"] = str(kafka[number - 1])
        variables[f"ROOKERY_HTTP_PORT_{number}"] = str(http[number - 1])
        variables[f"ROOKERY_CONTROLLER_HTTP_PORT_{number}"] = str(controllers[number - 1])
    with tempfile.TemporaryDirectory(prefix="rookery-test-") as folder:
        env_file = Path(folder) / "variables.env"
        env_file.write_text("".join(f"{key}={value}\n" for key, value in variables.items()))
        compose = DockerCompose(
            context=ROOT, compose_file_name=f"deploy/{file}", env_file=str(env_file), build=False, wait=True
        )
        cluster = ContainerCluster(compose, project, prefix, kafka, http)
        cluster.down()  # what a run that was cut short left behind
        try:
            compose.start()
            yield cluster
        except BaseException:
            cluster.show_logs()
            raise
        finally:
            cluster.down()
