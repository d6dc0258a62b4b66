"""One node: the roles its configuration asks for, started and stopped together."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.node.controller_role import ControllerRole
from rookery.broker.node.health import Health
from rookery.broker.node.http_listener import http_server, http_tls
from rookery.broker.node.metrics_dialects import publish_dialects
from rookery.broker.node.node_metrics import DiskSpace, LoopLag, publish_io
from rookery.broker.node.recorder import EventsPage, FlightRecorder, RecorderFile
from rookery.broker.node.security_checks import check_security
from rookery.broker.server.tls import ListenerTls, TlsReload, publish_expiry
from rookery.controller.server import control_texts
from rookery.core.clock import Clock, SystemClock
from rookery.core.config import node as keys
from rookery.core.config.listeners import controller_protocol, listeners_of
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import ConfigError, Settings
from rookery.core.disk import Disk, FileDisk
from rookery.core.event_logging import get_logger
from rookery.core.ids import new_id
from rookery.core.log.ownership import FolderLocks, MetaProperties, claim_folder
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.net.http import HttpServer
from rookery.core.net.network import Network, SocketNetwork
from rookery.core.service import Service, ServiceGroup

CONTROLLED_SHUTDOWN_S = 10.0
FSYNC = "rookery_fsync_seconds"
_log = get_logger("node")


@dataclass(slots=True)
class Node:
    """A node's parts; `run` is its life."""

    node_id: int
    controller: ControllerRole | None
    broker: BrokerRole | None
    health: Health
    group: ServiceGroup
    http: HttpServer | None = None
    unlock: Callable[[], None] = lambda: None
    """Lets other processes into the folder of the metadata log."""
    _leaving: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or a failure."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.request_stop)
        try:
            await self.group.run(on_ready=self._ready)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            self.unlock()

    def request_stop(self) -> None:
        """Controlled shutdown: leaderships are handed over first. A second request does not wait for that."""
        if self._leaving is None and self.broker is not None:
            _log.info("node.stopping", node=self.node_id)
            self._leaving = asyncio.get_running_loop().create_task(self._leave(self.broker), name="leave")
        else:
            self.group.request_stop()

    async def _leave(self, broker: BrokerRole) -> None:
        try:
            await broker.leave(CONTROLLED_SHUTDOWN_S)
        finally:
            self.group.request_stop()

    def _ready(self) -> None:
        self.health.started = True
        _log.info("node.ready", node=self.node_id)


async def build_node(
    settings: Settings,
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    network: Network | None = None,
    control: Control = GRPC,
    rng: Random | None = None,
    metrics: Metrics | None = None,
    recorder: FlightRecorder | None = None,
) -> Node:
    """Put a node together; it has the lock of the metadata log's folder until `Node.run` ends. Raises ConfigError
    where the configuration contradicts itself. A recorder's events are kept in that folder and served over HTTP."""
    _check(settings)
    metrics = metrics or Metrics(settings[keys.METRICS_MAX_PARTITIONS])
    clock, network = clock or SystemClock(), network or SocketNetwork()
    disk = disk or FileDisk(synced=metrics.histogram(FSYNC, "What it took to make a file durable.").observe)
    locks = FolderLocks(disk, settings[keys.NODE_ID])
    meta = await asyncio.to_thread(claim_metadata_folder, settings, locks)
    try:
        node = _assemble(settings, meta, locks, clock, network, metrics, control, rng, recorder)
    except BaseException:
        locks.release(metadata_log_dir(settings))
        raise
    node.unlock = lambda: locks.release(metadata_log_dir(settings))
    return node


def claim_metadata_folder(settings: Settings, locks: FolderLocks) -> MetaProperties:
    """Take the folder of the metadata log for this node and process, see `claim_folder`."""
    return claim_folder(
        locks,
        metadata_log_dir(settings),
        cluster_id=settings[keys.CLUSTER_ID],
        new_directory_id=new_id(),
    )


def _assemble(
    settings: Settings,
    meta: MetaProperties,
    locks: FolderLocks,
    clock: Clock,
    network: Network,
    metrics: Metrics,
    control: Control,
    rng: Random | None,
    recorder: FlightRecorder | None,
) -> Node:
    disk, roles = locks.disk, settings[keys.PROCESS_ROLES]
    texts = control_texts(settings)
    control_tls = None if texts is None else ListenerTls(controller_protocol(settings)[0], texts)
    controller = None
    if "controller" in roles:
        controller = ControllerRole(
            settings,
            meta,
            disk=disk,
            clock=clock,
            metrics=metrics,
            tls=control_tls,
            control=control,
            rng=rng,
        )
    broker = None
    if "broker" in roles:
        broker = BrokerRole(
            settings,
            meta,
            listeners_of(settings),
            disk=disk,
            clock=clock,
            network=network,
            metrics=metrics,
            control_tls=control_tls,
            raft=controller.raft if controller is not None else None,
            control=control,
            rng=rng,
            locks=locks,
        )
    health = Health(meta.node_id, metrics, controller, broker)
    metrics.process()
    publish_io(metrics)
    services: list[Service] = [LoopLag(metrics), DiskSpace(metrics, settings[keys.LOG_DIRS])]
    pages = dict(health.pages())
    if recorder is not None:
        services.insert(0, RecorderFile(recorder, disk, metadata_log_dir(settings)))
        pages["/events"] = EventsPage(recorder)
    publish_dialects(metrics, settings[keys.METRICS_DIALECTS], clock.monotonic)
    certificate = http_tls(settings)
    certificates = [each for each in (certificate, control_tls) if each is not None]
    http = http_server(settings, pages, certificate)
    services += [] if http is None else [http]
    services += [TlsReload(certificates)] if certificates else []
    publish_expiry(metrics, [*(broker.security.reload.listeners if broker else ()), *certificates])
    services += controller.services if controller else []
    services += broker.services if broker else []
    return Node(meta.node_id, controller, broker, health, ServiceGroup(services), http)


def _check(settings: Settings) -> None:
    """Checks that concern several options."""
    if settings[keys.NODE_ID] < 0:
        raise ConfigError(keys.NODE_ID.name, settings[keys.NODE_ID], "every node needs a number of its own")
    if settings[keys.BROKER_HEARTBEAT_INTERVAL_MS] * 2 > settings[keys.BROKER_SESSION_TIMEOUT_MS]:
        raise ConfigError(
            keys.BROKER_HEARTBEAT_INTERVAL_MS.name,
            settings[keys.BROKER_HEARTBEAT_INTERVAL_MS],
            f"it must be at most half of {keys.BROKER_SESSION_TIMEOUT_MS.name}, "
            f"{settings[keys.BROKER_SESSION_TIMEOUT_MS]}",
        )
    check_security(settings)
    roles = settings[keys.PROCESS_ROLES]
    found = listeners_of(settings)
    if "broker" in roles and not found.clients:
        raise ConfigError(keys.LISTENERS.name, settings[keys.LISTENERS], "a broker needs a listener for clients")
    if "controller" in roles and not settings[keys.CONTROLLER_QUORUM_VOTERS]:
        raise ConfigError(
            keys.CONTROLLER_QUORUM_VOTERS.name, "", "the first voters are needed, as id@host:port, ..."
        )
