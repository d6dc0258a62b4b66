"""The controller role: Raft, the controller on top of it, and the gRPC port both are reached by."""

from random import Random

from rookery.broker.node.partition_metrics import publish_cluster
from rookery.controller.loop import ControllerLoop
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.service import RaftService
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.rpc import ControllerService
from rookery.controller.server import ControlServer, control_tls, controller_listener
from rookery.controller.settings import ControllerSettings
from rookery.core.clock import Clock
from rookery.core.config.options import Settings
from rookery.core.disk import Disk
from rookery.core.log.folder_files import MetaProperties
from rookery.core.metadata.features import RELEASE
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.service import Service


class ControllerRole:
    """The parts of a controller, in the order in which they start."""

    def __init__(
        self,
        settings: Settings,
        meta: MetaProperties,
        *,
        disk: Disk,
        clock: Clock,
        metrics: Metrics,
        control: Control = GRPC,
        rng: Random | None = None,
    ) -> None:
        listener = controller_listener(settings)
        tls = control_tls(settings, listener)
        self.raft = RaftNode(
            RaftSettings.of(settings, meta, tls),
            disk=disk,
            clock=clock,
            chance=(rng or Random()).random,
            metrics=metrics,
            level=self._level,
            control=control,
        )
        self.loop = ControllerLoop(ControllerSettings.of(settings, meta.cluster_id), self.raft, clock)
        self.raft.subscribe(self.loop.controller)
        peers = RaftService(self.raft)
        brokers = ControllerService(self.loop, peers.access, self.raft.leader_hint)
        self.server = ControlServer(
            f"{listener.bind.host or '0.0.0.0'}:{listener.bind.port}",
            [peers.register, brokers.register],
            tls=tls,
            control=control,
        )
        self.loop.controller.metrics.register(metrics)
        publish_cluster(metrics, self.loop.controller)
        self.services: list[Service] = [self.server, self.raft, self.loop]

    def _level(self) -> int:
        return RELEASE.level(self.loop.controller.committed)
