"""Three nodes with every way in that is served: SASL_SSL with PLAIN, SCRAM and OAUTHBEARER, and mutual TLS, which the
brokers use among themselves, too."""

import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rookery.client.local import launcher, processes
from rookery.client.local.cluster_file import RunningNode
from rookery.client.local.security import LIBRDKAFKA_PROPERTIES, LISTENER, LocalSecurity, write_private
from rookery.client.local.shape import CONTROLLER, HOST, NodePlan, Shape
from rookery.core.config.properties import properties_text, read_properties
from rookery.core.ids import id_text, new_id
from rookery.core.security.jaas import PLAIN_MODULE
from tests.cluster.local import wait_for
from tests.interop.issuer import AUDIENCE, ISSUER, Issuer
from tests.ports import free_ports

NODES = 3
MUTUAL = "MUTUAL"
"""The listener with client certificates."""
SESSION_MS = 3000
TOPIC = "hello"
PASSWORDS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
TOKENS = "OAUTHBEARER"
ROBOT = "robot"
"""Whom tokens are made for."""


class SecuredCluster:
    """`up` starts it; what it takes for a client to get in lies in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.security = LocalSecurity(folder)
        self._cluster_id = id_text(new_id())
        ports = free_ports(4 * NODES)
        self._mutual_ports = ports[3 * NODES :]
        self._plans = [
            NodePlan(n + 1, ports[3 * n], ports[3 * n + 1], ports[3 * n + 2], folder / f"node-{n + 1}", True)
            for n in range(NODES)
        ]
        self.bootstrap = ",".join(f"{HOST}:{plan.kafka_port}" for plan in self._plans)
        self.mutual_bootstrap = ",".join(f"{HOST}:{port}" for port in self._mutual_ports)
        self.nodes: list[RunningNode] = []
        self.security.prepare(self._plans, self.bootstrap, new=True)
        self.properties = read_properties((folder / LIBRDKAFKA_PROPERTIES).read_text())
        self.issuer = Issuer(self.security.certificate(1), ROBOT)

    @property
    def authority(self) -> str:
        return str(self.security.authority)

    @property
    def password(self) -> str:
        """Of the user admin."""
        return self.properties["sasl.password"]

    def up(self) -> None:
        for plan in self._plans:
            plan.data.mkdir(exist_ok=True)
            write_private(plan.properties, properties_text(self._node_properties(plan)))
            pid, started = processes.start_node(plan)
            http = f"{HOST}:{plan.http_port}"
            self.nodes.append(RunningNode(plan.id, pid, started, "", "", http, str(plan.data)))
        for node in self.nodes:
            wait_for(lambda node=node: self._ready(node), f"node {node.id} to be ready")  # type: ignore[misc]
        admin = AdminClient(self.librdkafka())
        admin.create_topics([NewTopic(TOPIC, NODES, NODES)])[TOPIC].result(30)

    def down(self) -> None:
        """Nobody needs the data any more."""
        for node in self.nodes:
            processes.send_signal(node.pid, node.started, signal.SIGKILL)
        for node in self.nodes:
            wait_for(lambda node=node: launcher.has_ended(node), f"node {node.id} to end")  # type: ignore[misc]

    def librdkafka(self, **other: Any) -> dict[str, Any]:
        return {**self.properties, "log_level": 0, **{key.replace("_", "."): value for key, value in other.items()}}

    def log(self, node: RunningNode) -> str:
        return (Path(node.data) / "node.log").read_text()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels on all nodes."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        found = 0.0
        for node in self.nodes:
            with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=30) as answer:
                lines = str(answer.read(), "utf-8").splitlines()
            found += sum(
                float(line.rpartition(" ")[2])
                for line in lines
                if line.startswith((name + " ", name + "{")) and all(each in line for each in wanted)
            )
        return found

    def _ready(self, node: RunningNode) -> bool:
        assert not launcher.has_ended(node), self.log(node)[-3000:]
        return launcher.readiness(node) == ""

    def _node_properties(self, plan: NodePlan) -> dict[str, str]:
        secured = self.security.node_properties(plan)
        sasl = f"listener.name.{LISTENER.lower()}"
        brokers = [f"User:{self.security.certificate(each.id).stem}" for each in self._plans]
        voters = [f"{each.id}@{HOST}:{each.grpc_port}" for each in self._plans]
        return {
            "node.id": str(plan.id),
            "process.roles": "broker,controller",
            "rookery.cluster.id": self._cluster_id,
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": ",".join(voters),
            "rookery.http.listener": f"{HOST}:{plan.http_port}",
            "log.dirs": str(plan.data),
            **Shape(self._cluster_id, self.folder, 0, NODES, NODES).defaults(),
            **secured,
            "listeners": ",".join(
                f"{name}://{HOST}:{port}"
                for name, port in (
                    (LISTENER, plan.kafka_port),
                    (MUTUAL, self._mutual_ports[plan.id - 1]),
                    (CONTROLLER, plan.grpc_port),
                )
            ),
            "listener.security.protocol.map": f"{secured['listener.security.protocol.map']},{MUTUAL}:SSL",
            "inter.broker.listener.name": MUTUAL,
            f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
            "sasl.enabled.mechanisms": ",".join((*PASSWORDS, TOKENS)),
            f"{sasl}.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="{self.password}";',
            "super.users": ";".join(("User:admin", f"User:{ROBOT}", *brokers)),
            "connections.max.reauth.ms": str(SESSION_MS),
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.keys_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }


@contextmanager
def secured_cluster() -> Iterator[SecuredCluster]:
    """A cluster and the issuer of its tokens, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-secured-"))
    cluster = SecuredCluster(folder)
    try:
        with cluster.issuer:
            cluster.up()
            yield cluster
    except BaseException:
        for node in cluster.nodes:
            print(f"--- node {node.id}\n{cluster.log(node)[-3000:]}")
        raise
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
