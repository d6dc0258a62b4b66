"""What a local cluster looks like: which nodes there are, where each listens, and its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from rookery.core.config.properties import properties_text

HOST = "127.0.0.1"
CONTROLLER = "CONTROLLER"
PLAINTEXT = "PLAINTEXT"
GRPC_STEP = 100
HTTP_STEP = 200
RACK = "broker.rack"
LISTENER_KEY = "inter.broker.listener.name"
NODES_MAX = 99
"""More would run one kind of port into the next."""


def controllers_for(nodes: int) -> int:
    """How many of `nodes` are controllers too."""
    return 1 if nodes < 3 else 3 if nodes < 5 else 5


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: its number, ports and folders."""

    id: int
    kafka_port: int
    grpc_port: int
    http_port: int
    data: Path
    is_controller: bool

    @property
    def properties(self) -> Path:
        return self.data / "node.properties"

    @property
    def log(self) -> Path:
        return self.data / "node.log"

    @property
    def ports(self) -> tuple[int, int, int]:
        return self.kafka_port, self.grpc_port, self.http_port


@dataclass(frozen=True, slots=True)
class Shape:
    """The whole cluster."""

    cluster_id: str
    folder: Path
    port: int
    nodes: int
    controllers: int

    def plan(self, node_id: int) -> NodePlan:
        place = node_id - 1
        return NodePlan(
            id=node_id,
            kafka_port=self.port + place,
            grpc_port=self.port + GRPC_STEP + place,
            http_port=self.port + HTTP_STEP + place,
            data=self.folder / f"node-{node_id}",
            is_controller=node_id <= self.controllers,
        )

    def plans(self) -> list[NodePlan]:
        return [self.plan(node_id) for node_id in range(1, self.nodes + 1)]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{plan.kafka_port}" for plan in self.plans())

    def defaults(self) -> dict[str, str]:
        """What a local cluster sets besides Kafka's own defaults."""
        return {
            "default.replication.factor": str(min(3, self.nodes)),
            "offsets.topic.replication.factor": str(min(3, self.nodes)),
            "transaction.state.log.replication.factor": str(min(3, self.nodes)),
            "transaction.state.log.min.isr": "2" if self.nodes >= 3 else "1",
            "min.insync.replicas": "2" if self.nodes >= 3 else "1",
        }

    def properties(
        self, plan: NodePlan, overrides: Mapping[str, str], security: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """The text of a node's ``node.properties``; `security` are those of a secure cluster."""
        voters = [self.plan(node_id) for node_id in range(1, self.controllers + 1)]
        roles = "broker,controller" if plan.is_controller else "broker"
        listeners = [f"{security.get(LISTENER_KEY, PLAINTEXT)}://{HOST}:{plan.kafka_port}"]
        if plan.is_controller:
            listeners.append(f"{CONTROLLER}://{HOST}:{plan.grpc_port}")
        keys = {
            "node.id": str(plan.id),
            "process.roles": roles,
            "rookery.cluster.id": self.cluster_id,
            "listeners": ",".join(listeners),
            "controller.listener.names": CONTROLLER,
            "controller.quorum.voters": ",".join(f"{v.id}@{HOST}:{v.grpc_port}" for v in voters),
            "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{v.grpc_port}" for v in voters),
            "rookery.http.listener": f"{HOST}:{plan.http_port}",
            "log.dirs": str(plan.data),
            **self.defaults(),
            **security,
            **overrides,
            **_rack(plan, overrides),
        }
        return properties_text(keys)


def _rack(plan: NodePlan, overrides: Mapping[str, str]) -> dict[str, str]:
    """One rack for all nodes would be of no use: several, separated by commas, are given to the nodes in turn."""
    racks = overrides.get(RACK, "").split(",")
    return {RACK: racks[(plan.id - 1) % len(racks)].strip()} if racks != [""] else {}
