"""The broker role: logs, partitions, replication, membership and the Kafka server, wired together.

Start: the logs are recovered, the metadata log is followed, the broker registers, makes its replicas what the image
says, is unfenced, and only then opens its listeners. Stop is the same way back.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from uuid import UUID

from rookery.broker.controller_client import ControllerClient
from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.groups.lag_meter import TIMEOUT_S as LAG_TIMEOUT_S
from rookery.broker.groups.lag_meter import LagMeter
from rookery.broker.groups.metrics import GroupMetrics
from rookery.broker.handlers.table import Broker, request_handlers
from rookery.broker.lifecycle import Lifecycle, Membership
from rookery.broker.log.cleaner import Cleaner, CleanerOptions
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.housekeeper import Housekeeper, HousekeepingOptions
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.log.scrubber import Scrubber, ScrubOptions
from rookery.broker.log.start_up import NodeIdentity
from rookery.broker.metadata.cluster_view import ClusterView
from rookery.broker.metadata.follower import MetadataFollower, MetadataFollowerSettings
from rookery.broker.metadata.replicas import Replicas
from rookery.broker.node.authorization import guard_of, note_on_brokers
from rookery.broker.node.directories import DirectoryReports
from rookery.broker.node.metadata_source import LocalMetadata, MetadataSource
from rookery.broker.node.node_metrics import publish_peers
from rookery.broker.node.partition_metrics import Failovers, publish_replicas
from rookery.broker.node.security import secure
from rookery.broker.quotas.client_quotas import ClientQuotas, publish_quotas
from rookery.broker.quotas.replication import UNLIMITED, Replica, ReplicationQuota
from rookery.broker.quotas.usage import Window
from rookery.broker.replication.isr import InSyncSets
from rookery.broker.replication.partition import Partition
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.replica_fetcher import FIRST_PAUSE_S, FetcherSettings, Followed
from rookery.broker.replication.replica_fetchers import ReplicaFetchers
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.broker.server.server import Server
from rookery.broker.server.settings import ServerSettings
from rookery.broker.transactions.coordinator import TransactionCoordinator
from rookery.broker.transactions.verification import TIMEOUT_S as VERIFICATION_TIMEOUT_S
from rookery.broker.transactions.verification import Verification
from rookery.controller.raft.node import RaftNode
from rookery.core.clock import Clock
from rookery.core.config import node as keys
from rookery.core.config import transactions
from rookery.core.config.listeners import Listeners
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.topic import topic_defaults, topic_settings
from rookery.core.disk import Disk
from rookery.core.event_logging import get_logger
from rookery.core.ids import new_id
from rookery.core.log.ownership import FolderLocks, MetaProperties
from rookery.core.metadata import image as im
from rookery.core.metadata.features import RELEASE
from rookery.core.metadata.image import Changes
from rookery.core.metrics import Metrics, as_it_is, digest
from rookery.core.net.backoff import BackoffSettings
from rookery.core.net.control import GRPC, Control
from rookery.core.net.network import Network
from rookery.core.net.peers import PeerLimits, Peers
from rookery.core.net.tls import CurrentTls
from rookery.core.service import Service

NO_CONTROLLER_S = 1.5
LOOK_S = 0.1
UNFENCE_TIMEOUT_S = 60.0
_log = get_logger("broker")


class BrokerRole:
    """The parts of a broker, in the order in which they start."""

    def __init__(
        self,
        settings: Settings,
        meta: MetaProperties,
        listeners: Listeners,
        *,
        disk: Disk,
        clock: Clock,
        network: Network,
        metrics: Metrics,
        control_tls: CurrentTls | None,
        raft: RaftNode | None,
        control: Control = GRPC,
        rng: Random | None = None,
        locks: FolderLocks | None = None,
    ) -> None:
        """`raft` is this node's own member of the quorum, where it has that role too; `locks` are those the node
        holds already."""
        self.settings = settings
        self._options: tuple[object, dict[str, tuple[TopicSettings, TopicLogConfig]]] = (None, {})
        """The options of topics that were asked for since the image had these configs; by name, "" for all others."""
        self._meta = meta
        self._listeners = listeners
        self.clock = clock
        self._rng = rng or Random()
        bootstrap = controllers(settings)
        loop = asyncio.get_running_loop()
        self.view = ClusterView(node_id=meta.node_id, cluster_id=meta.cluster_id)
        self.guard = guard_of(settings, clock.monotonic, metrics)
        if self.guard is not None:
            self.view.add_publisher(self.guard.on_changes)
        self.partitions = Partitions()
        self.waiters: Waiters[Partition] = Waiters(loop)
        self.leader_quota = ReplicationQuota(meta.node_id, clock.monotonic)
        self.follower_quota = ReplicationQuota(meta.node_id, clock.monotonic)
        self.client_quotas = ClientQuotas(clock.monotonic, Window.of(settings))
        self.client = ControllerClient(
            meta.cluster_id,
            meta.node_id,
            bootstrap,
            tls=control_tls,
            level=lambda: RELEASE.level(self.view.image),
            control=control,
        )
        self.log_dirs = LogDirs(
            disk,
            list(settings[keys.LOG_DIRS]),
            NodeIdentity(meta.cluster_id, meta.node_id),
            clock=clock,
            config_of=lambda topic: self._options_of(topic)[1],
            new_id=new_id,
            recovery_threads=settings[keys.NUM_RECOVERY_THREADS_PER_DATA_DIR],
            locks=locks,
        )
        self.security = secure(settings, listeners, lambda: self.view.image, meta.cluster_id, clock)
        note = self.guard and note_on_brokers(self.guard.authorizer, self.security.principal)
        if note:
            _log.warning("config.warning", reason=note)
        retry = BackoffSettings(FIRST_PAUSE_S, settings[keys.REPLICA_FETCH_BACKOFF_MS] / 1000)
        self._peers = {
            purpose: Peers(
                f"broker-{meta.node_id}-{purpose}",
                network=network,
                security=self.security.inter_broker,
                limits=limits,
                rng=self._rng,
            )
            for purpose, limits in (
                ("fetcher", PeerLimits(backoff=retry)),
                ("lag", PeerLimits(connect_timeout_s=LAG_TIMEOUT_S)),
                ("transactions", PeerLimits(connect_timeout_s=VERIFICATION_TIMEOUT_S)),
                ("markers", PeerLimits()),
            )
        }
        publish_peers(metrics, self._peers)
        self.in_sync = InSyncSets(
            self.view,
            self.partitions,
            self.client,
            clock,
            lag_ms_max=settings[keys.REPLICA_LAG_TIME_MAX_MS],
            session_ms=settings[keys.BROKER_SESSION_TIMEOUT_MS],
        )
        self.followers = ReplicaFetchers(
            node_id=meta.node_id,
            broker_epoch=lambda: self.lifecycle.epoch,
            settings=_fetcher_settings(settings),
            clock=clock,
            peers=self._peers["fetcher"],
            on_failed=self._follower_failed,
            limit_of=self._limit_of,
        )
        self.directories = DirectoryReports(self.view, self.client)
        self.replicas = Replicas(
            self.view,
            self.partitions,
            self.log_dirs,
            self.followers,
            listener=listeners.inter_broker,
            options_of=self._options_of,
            make=self._make_partition,
            assigned=self.directories.report,
        )
        followed = MetadataFollowerSettings(meta.cluster_id, meta.node_id, tuple(bootstrap), control_tls)
        self.metadata: MetadataSource
        following: list[Service] = []
        if raft is not None:
            self.metadata = LocalMetadata(raft, self.view)
        else:
            self.metadata = follower = MetadataFollower(followed, self.view, self._rpc_version, control=control)
            following = [follower]
        self.lifecycle = Lifecycle(
            self._membership(),
            self.client,
            image=lambda: self.view.image,
            offline_dirs=self._offline_dirs,
            on_session=self.in_sync.set_session,
        )
        self.log_dirs.on_offline = self._dir_offline
        self.log_dirs.on_damaged = self.replicas.damaged
        failovers = Failovers(metrics, meta.node_id, clock.monotonic, self.followers.answered_at)
        self.view.add_publisher(failovers.publish)
        self.view.add_publisher(self.replicas.publish)
        self.view.settles_with(self.replicas.settled)
        self.view.add_publisher(self._published)
        self.topic_metrics = TopicMetrics()
        self._executor = ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1), thread_name_prefix="records")
        self.groups = GroupCoordinator(
            settings, self.view, self.partitions, self.waiters, clock, loop, self._rng, self._executor
        )
        self.view.add_publisher(self.groups.publish)
        lag_meter = LagMeter(
            self.groups,
            self.view,
            self.partitions,
            clock,
            self._peers["lag"],
            listener=listeners.inter_broker,
            interval_ms=settings[keys.LAG_INTERVAL_MS],
        )
        names = digest if settings[keys.METRICS_HIDE_NAMES] else as_it_is
        GroupMetrics(self.groups, lag_meter, clock, names).publish(metrics)
        self.verification = Verification(
            self.view,
            self._peers["transactions"],
            listener=listeners.inter_broker,
            enabled=settings[transactions.PARTITION_VERIFICATION_ENABLE],
            retry_ms=settings[transactions.ADD_PARTITIONS_RETRY_BACKOFF_MS],
            retry_ms_max=settings[transactions.ADD_PARTITIONS_RETRY_BACKOFF_MAX_MS],
        )
        self.verification.publish(metrics)
        self.transactions = TransactionCoordinator(
            settings,
            self.view,
            self.client,
            self.partitions,
            self.waiters,
            clock,
            loop,
            self._rng,
            self._executor,
            self._peers["markers"],
            listener=listeners.inter_broker,
        )
        self.transactions.publish_metrics(metrics)
        self.view.add_publisher(self.transactions.publish)
        self.server = self._server(network, metrics)
        self.housekeeper = Housekeeper(self.log_dirs, clock, _housekeeping(settings))
        self.topic_metrics.publish(metrics)
        self.waiters.publish(metrics, ("Produce", "Fetch", "DeleteRecords"))
        publish_replicas(metrics, self)
        publish_quotas(metrics, self.client_quotas, names)
        cleaners: list[Service] = []
        if settings[keys.LOG_CLEANER_ENABLE]:
            cleaners.append(Cleaner(self.log_dirs, self.housekeeper, clock, CleanerOptions.of(settings)))
        self.scrubber = Scrubber(self.log_dirs, clock, ScrubOptions.of(settings))
        if settings[keys.SCRUB_ENABLE]:
            cleaners.append(self.scrubber)
        boot = Boot(self)
        self.services: list[Service] = [
            LogDirService(self),
            self.followers,
            self.in_sync,
            self.replicas,
            self.directories,
            *following,
            self.lifecycle,
            boot,
            self.groups,
            self.transactions,
            lag_meter,
            self.verification,
            *self.security.services,
            self.server,
            self.housekeeper,
            *cleaners,
        ]

    # --- building -------------------------------------------------------------------------------------------

    def _membership(self) -> Membership:
        settings = self.settings
        return Membership(
            cluster_id=self._meta.cluster_id,
            node_id=self._meta.node_id,
            incarnation_id=new_id(),
            endpoints=tuple(
                im.Endpoint(each.name, each.advertised.host or "127.0.0.1", each.advertised.port, each.protocol)
                for each in self._listeners.clients
            ),
            features=RELEASE.features,
            rack=settings[keys.BROKER_RACK] or None,
            heartbeat_s=settings[keys.BROKER_HEARTBEAT_INTERVAL_MS] / 1000,
            session_s=settings[keys.BROKER_SESSION_TIMEOUT_MS] / 1000,
            registration_timeout_s=settings[keys.INITIAL_BROKER_REGISTRATION_TIMEOUT_MS] / 1000,
        )

    def _rpc_version(self) -> int:
        """What is spoken to controllers at the level that the cluster has agreed on."""
        return RELEASE.rpc_version(RELEASE.level(self.view.image))

    def _server(self, network: Network, metrics: Metrics) -> Server:
        settings = self.settings
        broker = Broker(
            settings=settings,
            cluster=self.view,
            controller=self.client,
            partitions=self.partitions,
            waiters=self.waiters,
            topic_metrics=self.topic_metrics,
            clock=self.clock,
            random=self._rng,
            executor=self._executor,
            groups=self.groups,
            transactions=self.transactions,
            storage=self.log_dirs,
            leader_quota=self.leader_quota,
            propose_isr=self.in_sync.propose,
            session_lasts=lambda: self.in_sync.session_lasts,
            brokers=self.in_sync,
            client_quotas=self.client_quotas,
            verification=self.verification,
            authorizes=self.guard is not None,
        )
        return Server(
            self._listeners.clients,
            partial(request_handlers, broker),
            ServerSettings.of(settings),
            network,
            metrics,
            settings[keys.SOCKET_LISTEN_BACKLOG_SIZE],
            protections=self.security.protections,
            quotas=self.client_quotas,
            guard=self.guard,
            inter_broker=self._listeners.inter_broker,
        )

    def _make_partition(self, topic_id: UUID, log: PartitionLog, settings: TopicSettings) -> Partition:
        return Partition(
            topic_id,
            log,
            settings,
            node_id=self._meta.node_id,
            wake=self.waiters.wake,
            wake_for=self.waiters.wake,
            brokers=self.in_sync,
            storage=self.log_dirs,
        )

    def _options_of(self, topic: str) -> tuple[TopicSettings, TopicLogConfig]:
        """A topic's options as the image has them now, on top of this broker's own."""
        image, (configs, known) = self.view.image, self._options
        if configs is not image.configs:
            known = {}
            self._options = (image.configs, known)
        own = image.topic_config(topic)
        name = topic if own else ""  # topics without options of their own share one object
        found = known.get(name)
        if found is None:
            settings = topic_settings(topic_defaults(self._settings_now(image)), own)
            check = self.settings[keys.VALIDATE_RECORDS] == "all"
            found = known[name] = (TopicSettings.of(settings, check_records=check), TopicLogConfig.of(settings))
        return found

    def _settings_now(self, image: im.Image) -> Settings:
        """This broker's settings with what was set for all brokers, and for this one, while running."""
        for_all = image.config(im.ResourceType.BROKER, "")
        for_this = image.config(im.ResourceType.BROKER, str(self._meta.node_id))
        return self.settings.overlaid(for_all, for_this)

    # --- events ---------------------------------------------------------------------------------------------

    def _published(self, changes: Changes) -> None:
        for topic in changes.topics_removed:
            self.topic_metrics.forget(topic.name)
        if changes.configs:
            self._reconfigure(self._settings_now(changes.after))
        if changes.quotas_changed:
            self.client_quotas.apply(changes.after.quotas)
        self.lifecycle.metadata_changed()

    def _reconfigure(self, settings: Settings) -> None:
        """What may change while the broker runs, besides the options that topics stand on."""
        self.leader_quota.rate = settings[keys.LEADER_REPLICATION_THROTTLED_RATE]
        self.verification.enabled = settings[transactions.PARTITION_VERIFICATION_ENABLE]
        self.follower_quota.rate = settings[keys.FOLLOWER_REPLICATION_THROTTLED_RATE]
        self.security.reconfigure(settings)
        try:
            self.server.limits.settings = ServerSettings.of(settings)
        except ConfigError as error:
            _log.warning("config.unusable", reason=str(error), todo="the limits on connections stay as they were")

    def _limit_of(self, followed: Followed) -> ReplicationQuota | None:
        """What holds a replica of this broker back while it catches up."""
        quota = self.follower_quota
        partition = self.partitions.of(followed.topic_id, followed.index) if quota.rate < UNLIMITED else None
        if partition is None:
            return None
        in_sync = self._meta.node_id in partition.state.isr
        replica = Replica(partition.settings.follower_throttled, partition.index, in_sync)
        return quota if quota.applies_to(replica) else None

    def _follower_failed(self, partition: Followed, error: Exception) -> None:
        _log.error("replica.stopped", partition=str(partition.topic_partition), reason=str(error))

    def _dir_offline(self, *failure: object) -> None:
        self.replicas.dir_failed(*failure)  # type: ignore[arg-type]
        self.lifecycle.dirs_changed()

    def _offline_dirs(self) -> tuple[UUID, ...]:
        return tuple(each.directory_id for each in self.log_dirs.dirs if each.failure is not None)

    async def leave(self, timeout_s: float) -> None:
        """Hand over all leaderships before stopping."""
        if not self.settings[keys.CONTROLLED_SHUTDOWN_ENABLE] or not self.lifecycle.running:
            return
        leaving = asyncio.ensure_future(self.lifecycle.leave(timeout_s))
        alone = asyncio.ensure_future(self._without_controller(NO_CONTROLLER_S))
        try:
            await asyncio.wait((leaving, alone), return_when=asyncio.FIRST_COMPLETED)
            if not leaving.done():
                _log.info("broker.leave.no_controller", reason="no controller is left to hand leaderships over")
        finally:
            leaving.cancel()
            alone.cancel()

    async def _without_controller(self, seconds: float) -> None:
        """Wait until the quorum has had no leader for some time, as for the last nodes of a cluster that stops as a
        whole."""
        lost = 0.0
        while lost < seconds:
            await asyncio.sleep(LOOK_S)
            lost = lost + LOOK_S if self.view.controller_id < 0 else 0.0

    async def close(self) -> None:
        self._executor.shutdown(wait=False)
        await self.client.close()


def controllers(settings: Settings) -> list[str]:
    """Addresses of controllers: as configured, or those of the first voters."""
    bootstrap = list(settings[keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS])
    voters = [text.partition("@")[2] for text in settings[keys.CONTROLLER_QUORUM_VOTERS]]
    if not bootstrap and not voters:
        raise ConfigError(
            keys.CONTROLLER_QUORUM_BOOTSTRAP_SERVERS.name, "", "a broker needs host:port of some controllers"
        )
    return bootstrap or voters


def _fetcher_settings(settings: Settings) -> FetcherSettings:
    return FetcherSettings(
        wait_ms_max=settings[keys.REPLICA_FETCH_WAIT_MAX_MS],
        bytes_min=settings[keys.REPLICA_FETCH_MIN_BYTES],
        response_bytes_max=settings[keys.REPLICA_FETCH_RESPONSE_MAX_BYTES],
        partition_bytes_max=settings[keys.REPLICA_FETCH_MAX_BYTES],
        backoff_ms_max=settings[keys.REPLICA_FETCH_BACKOFF_MS],
        request_timeout_ms=settings[keys.REQUEST_TIMEOUT_MS],
    )


def _housekeeping(settings: Settings) -> HousekeepingOptions:
    return HousekeepingOptions(
        log_retention_check_interval_ms=settings[keys.LOG_RETENTION_CHECK_INTERVAL_MS],
        log_flush_offset_checkpoint_interval_ms=settings[keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS],
        log_flush_start_offset_checkpoint_interval_ms=settings[
            keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS
        ],
        replica_high_watermark_checkpoint_interval_ms=settings[
            keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS
        ],
        producer_id_expiration_ms=settings[keys.PRODUCER_ID_EXPIRATION_MS],
        log_segment_delete_delay_ms=settings[keys.LOG_SEGMENT_DELETE_DELAY_MS],
    )


class LogDirService(Service):
    """The log directories: recovered first, closed last, and marked clean with the epoch this broker had."""

    name = "log dirs"

    def __init__(self, role: "BrokerRole") -> None:
        self._role = role

    async def start(self) -> None:
        await self._role.log_dirs.start()

    async def stop(self) -> None:
        await self._role.log_dirs.stop(self._role.lifecycle.epoch)
        await self._role.close()


class Boot(Service):
    """From a process that follows the metadata log to a broker that may serve."""

    name = "boot"

    def __init__(self, role: "BrokerRole") -> None:
        self._role = role

    async def start(self) -> None:
        role = self._role
        role.lifecycle.storage_found(
            tuple(each.directory_id for each in role.log_dirs.dirs),
            previous_epoch=previous_epoch([each.clean_epoch for each in role.log_dirs.dirs]),
        )
        await role.lifecycle.register()
        role.in_sync.broker_epoch = role.lifecycle.epoch
        role.replicas.activate()
        await role.replicas.settled()
        role.lifecycle.ready()
        await role.lifecycle.unfenced(UNFENCE_TIMEOUT_S)


def previous_epoch(clean_epochs: list[int | None]) -> int:
    """The epoch of the last clean shutdown, if all directories agree on one; else -1: what this broker had may be
    lost."""
    first = clean_epochs[0] if clean_epochs else None
    return first if first is not None and all(epoch == first for epoch in clean_epochs) else -1
