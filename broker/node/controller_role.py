"""The controller role: Raft, the controller on top of it, and the gRPC port both are reached by."""

from pathlib import Path
from random import Random

from rookery.broker.node.partition_metrics import publish_cluster
from rookery.controller.loop import ControllerLoop
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.service import RaftService
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.rpc import ControllerService
from rookery.controller.server import ControlServer, controller_listener
from rookery.controller.settings import ControllerSettings
from rookery.core import first_users
from rookery.core.clock import Clock
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import Settings
from rookery.core.disk import Disk
from rookery.core.log.ownership import MetaProperties
from rookery.core.metadata.features import RELEASE
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.net.tls import CurrentTls
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
        tls: CurrentTls | None = None,
        control: Control = GRPC,
        rng: Random | None = None,
    ) -> None:
        listener = controller_listener(settings)
        self.raft = RaftNode(
            RaftSettings.of(settings, meta, tls),
            disk=disk,
            clock=clock,
            chance=(rng or Random()).random,
            metrics=metrics,
            level=self._level,
            control=control,
        )
        self.loop = ControllerLoop(
            ControllerSettings.of(settings, meta.cluster_id, first_users.read(Path(metadata_log_dir(settings)))),
            self.raft,
            clock,
        )
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
