"""The controller role of a node, put together from its configuration."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rookery.controller.raft.config import RaftConfig
from rookery.controller.raft.node import RaftNode
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter, VoterSet
from rookery.controller.server import ControlServer, Register
from rookery.core.clock import Clock
from rookery.core.config import node as keys
from rookery.core.config.defaults import metadata_log_dir
from rookery.core.config.listeners import Listener, listeners_of
from rookery.core.config.options import ConfigError, Settings
from rookery.core.disk import Disk, FileDisk
from rookery.core.ids import new_id
from rookery.core.log import LogConfig
from rookery.core.log.folder_files import MetaProperties
from rookery.core.log.ownership import FolderLocks, claim_folder
from rookery.core.metadata_log import MetadataListener
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.net.tls import Tls, read_tls
from rookery.core.service import Service, ServiceGroup

FETCH_WAIT_MS_MAX = 500


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Raft and the server it is reached by."""

    node: RaftNode
    server: ControlServer

    @property
    def services(self) -> list[Service]:
        """In the order in which they start."""
        return [self.server, self.node]


def control_plane(
    settings: Settings,
    meta: MetaProperties,
    *,
    registers: Sequence[Register] = (),
    metrics: Metrics | None = None,
    disk: Disk | None = None,
    level: Callable[[], int] | None = None,
    clock: Clock | None = None,
    chance: Callable[[], float] = random.random,
    control: Control = GRPC,
) -> ControlPlane:
    """Build Raft and its server; `registers` add further gRPC services to the same port, `level` tells which
    metadata.version the cluster is at."""
    listener = controller_listener(settings)
    tls = control_tls(settings, listener)
    node = RaftNode(
        raft_settings(settings, meta, tls),
        disk=disk,
        clock=clock,
        chance=chance,
        metrics=metrics,
        level=level,
        control=control,
    )
    address = f"{listener.bind.host or '0.0.0.0'}:{listener.bind.port}"
    server = ControlServer(address, [node.service.register, *registers], tls=tls, control=control)
    return ControlPlane(node, server)


async def run_controller(
    settings: Settings,
    listeners: Sequence[MetadataListener],
    *,
    registers: Sequence[Register] = (),
    metrics: Metrics | None = None,
    started: Callable[[ControlPlane, ServiceGroup], None] = lambda plane, group: None,
) -> None:
    """Run the controller role alone until the group that `started` is given is asked to stop."""
    disk = FileDisk()
    locks = FolderLocks(disk, settings[keys.NODE_ID])
    meta = await asyncio.to_thread(claim_metadata_folder, settings, locks)
    plane = control_plane(settings, meta, registers=registers, metrics=metrics, disk=disk)
    for listener in listeners:
        plane.node.subscribe(listener)
    group = ServiceGroup(plane.services)
    try:
        await group.run(on_ready=lambda: started(plane, group))
    finally:
        locks.release(metadata_log_dir(settings))


def claim_metadata_folder(settings: Settings, locks: FolderLocks) -> MetaProperties:
    """Take the folder of the metadata log for this node and process, see `claim_folder`."""
    return claim_folder(
        locks,
        metadata_log_dir(settings),
        cluster_id=settings[keys.CLUSTER_ID],
        new_directory_id=new_id(),
    )


def controller_listener(settings: Settings) -> Listener:
    found = listeners_of(settings).controllers
    if not found:
        names = ",".join(settings[keys.CONTROLLER_LISTENER_NAMES])
        raise ConfigError(keys.LISTENERS.name, settings[keys.LISTENERS], f"a controller needs a listener {names}")
    return found[0]


def control_tls(settings: Settings, listener: Listener) -> Tls | None:
    """Between nodes TLS is always mutual."""
    if listener.protocol != "SSL":
        return None
    return read_tls(
        {
            "ssl.keystore.location": settings[keys.SSL_KEYSTORE_LOCATION],
            "ssl.truststore.location": settings[keys.SSL_TRUSTSTORE_LOCATION],
            "ssl.key.password": settings[keys.SSL_KEY_PASSWORD],
            "ssl.client.auth": "required",
        }
    )


def raft_settings(settings: Settings, meta: MetaProperties, tls: Tls | None) -> RaftSettings:
    fetch_timeout_ms = settings[keys.CONTROLLER_QUORUM_FETCH_TIMEOUT_MS]
    return RaftSettings(
        cluster_id=meta.cluster_id,
        node_id=meta.node_id,
        directory_id=meta.directory_id,
        folder=metadata_log_dir(settings),
        voters=first_voters(settings[keys.CONTROLLER_QUORUM_VOTERS]),
        bootstrap=settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS],
        tls=tls,
        raft=RaftConfig(
            election_timeout_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
            election_backoff_max_ms=settings[keys.CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
            fetch_timeout_ms=fetch_timeout_ms,
            request_timeout_ms=settings[keys.CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
            fetch_max_wait_ms=max(1, min(FETCH_WAIT_MS_MAX, fetch_timeout_ms // 2)),
        ),
        log=LogConfig(segment_bytes=settings[keys.METADATA_LOG_SEGMENT_BYTES]),
    )


def first_voters(texts: Sequence[str]) -> VoterSet:
    """``id@host:port`` of each voter of a new cluster."""
    key = keys.CONTROLLER_QUORUM_VOTERS.name
    voters = []
    for text in texts:
        number, separator, endpoint = text.partition("@")
        if not separator or not number.isdecimal() or ":" not in endpoint:
            raise ConfigError(key, text, "id@host:port is needed")
        voters.append(Voter(ReplicaKey(int(number), UNKNOWN_DIRECTORY), endpoint))
    try:
        return VoterSet(voters)
    except ValueError as error:
        raise ConfigError(key, ",".join(texts), str(error)) from error
