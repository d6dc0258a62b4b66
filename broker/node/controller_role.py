"""The controller role: Raft, the controller on top of it, and the gRPC port both are reached by."""

from random import Random

import grpc.aio

from rookery.broker.node.partition_metrics import publish_cluster
from rookery.controller.access import Access
from rookery.controller.app import control_plane
from rookery.controller.loop import ControllerLoop
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.service import NotServingError
from rookery.controller.rpc import ControllerService
from rookery.controller.settings import ControllerSettings
from rookery.core.clock import Clock
from rookery.core.config.options import Settings
from rookery.core.disk import Disk
from rookery.core.log.folder_files import MetaProperties
from rookery.core.metadata.features import RELEASE
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.service import Service
from rookery.proto import raft_pb2


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
        plane = control_plane(
            settings,
            meta,
            registers=[self._register],
            metrics=metrics,
            disk=disk,
            level=self._level,
            clock=clock,
            chance=(rng or Random()).random,
            control=control,
        )
        self.raft: RaftNode = plane.node
        own = ControllerSettings.of(settings, meta.cluster_id)
        self.loop = ControllerLoop(own, plane.node, clock)
        plane.node.subscribe(self.loop.controller)
        mutual = plane.node.settings.tls is not None
        access = Access(meta.cluster_id, meta.node_id, mutual)
        self._service = ControllerService(self.loop, access, self._leader_hint)
        self.loop.controller.metrics.register(metrics)
        publish_cluster(metrics, self.loop.controller)
        self.services: list[Service] = [plane.server, plane.node, self.loop]

    def _level(self) -> int:
        return RELEASE.level(self.loop.controller.committed)

    def _register(self, server: grpc.aio.Server) -> None:
        self._service.register(server)

    def _leader_hint(self) -> raft_pb2.Leader:
        """The active controller as this node knows it."""
        try:
            replica = self.raft.running().engine.core.replica
        except NotServingError:
            return raft_pb2.Leader(id=-1)  # starting or stopping: it knows of nobody
        return raft_pb2.Leader(id=replica.leader_id, epoch=replica.epoch, endpoint=replica.leader_endpoint)
