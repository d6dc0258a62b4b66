"""A broker alone in its cluster: real handlers, partitions and logs, with the controller's pure handlers
deciding in memory. Unit tests call it directly, interop tests and benchmarks over sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TypeVar
from uuid import UUID

from rookery.broker.groups.coordinator import GroupCoordinator
from rookery.broker.handlers.table import Broker, request_handlers
from rookery.broker.log.config import TopicLogConfig
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.quotas.client_quotas import ClientQuotas
from rookery.broker.quotas.replication import ReplicationQuota
from rookery.broker.quotas.usage import Window
from rookery.broker.replication.partition import Partition, SingleBroker
from rookery.broker.replication.partitions import Partitions
from rookery.broker.replication.replica_state import Proposal
from rookery.broker.replication.topic_settings import TopicSettings
from rookery.broker.replication.waiters import Waiters
from rookery.broker.server.access import Guard
from rookery.broker.server.request_metrics import TopicMetrics
from rookery.broker.server.server import Server
from rookery.broker.server.settings import ServerSettings
from rookery.broker.transactions.coordinator import TransactionCoordinator
from rookery.broker.transactions.verification import Verification
from rookery.controller.settings import ControllerSettings
from rookery.controller.state.brokers import Liveness, allocate_producer_ids
from rookery.controller.state.decision import Decision
from rookery.controller.state.defaults import Defaults
from rookery.controller.table import HANDLERS, Facts
from rookery.core.clock import Clock, Scheduler, SystemClock
from rookery.core.config import node
from rookery.core.config.listeners import Endpoint, Listener
from rookery.core.config.options import Settings
from rookery.core.config.topic import topic_defaults, topic_settings
from rookery.core.disk import Disk
from rookery.core.metadata import image as images
from rookery.core.metadata import requests as q
from rookery.core.metadata.delta import Delta
from rookery.core.metadata.image import EMPTY, Changes, Image
from rookery.core.metadata.records import PartitionRecord, Record, RegisterBrokerRecord
from rookery.core.metadata.requests import QuorumReplica, QuorumView
from rookery.core.metrics import Metrics
from rookery.core.net.network import Network, SocketNetwork
from rookery.core.net.peers import Peers
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition

R = TypeVar("R")
NODE_ID = 1
LISTENER = "PLAINTEXT"


def directory_of(broker_id: int) -> UUID:
    """The only one of a broker; the smallest ids mean that a replica has none."""
    return UUID(int=100 + broker_id)


class OneNodeCluster:
    """The image, and the controller that changes it: `ClusterView` and `ControllerPort` in one."""

    node_id = NODE_ID
    cluster_id = "rookery-one-node-clust"

    def __init__(self, random: Random) -> None:
        self.image: Image = EMPTY
        self.on_changes: Callable[[Changes], None] = lambda changes: None
        self._random = random
        self._moved = asyncio.Event()

    def commit(self, records: Iterable[Record]) -> Image:
        delta = Delta(self.image)
        for offset, record in enumerate(map(_reported, records), self.image.offset + 1):
            delta.replay(record, offset)
        changes = delta.apply(epoch=1)
        self.image = changes.after
        self.on_changes(changes)
        self._moved.set()
        return self.image

    async def until(self, holds: Callable[[Image], bool], timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while not holds(self.image):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _facts(self) -> Facts:
        return Facts(
            settings=ControllerSettings(NODE_ID, self.cluster_id, Defaults()),
            position=0,
            new_id=lambda: UUID(int=self._random.getrandbits(128), version=4),
            liveness=lambda image, broker_id: Liveness(),
            voter_features=dict,
        )

    async def ask(self, request: q.Request[R]) -> R:
        decision: Decision[R] = HANDLERS[type(request)].decide(self.image, request, self._facts())
        return decision.reply(self.commit(decision.records))

    async def allocate_producer_ids(self) -> range:
        decision = allocate_producer_ids(self.image, q.AllocateProducerIdsRequest(NODE_ID, 0))
        block = decision.reply(self.commit(decision.records))
        return range(block.first, block.first + block.count)

    async def describe_quorum(self) -> QuorumView:
        me = QuorumReplica(NODE_ID, UUID(int=NODE_ID), "127.0.0.1:9093", self.image.offset + 1, -1, -1)
        return QuorumView(NODE_ID, 1, self.image.offset + 1, (me,), ())


def _reported(record: Record) -> Record:
    """Unless a test says otherwise each broker has one directory, and the replicas of new partitions lie there
    already."""
    if isinstance(record, RegisterBrokerRecord) and not record.log_dirs:
        return replace(record, log_dirs=(directory_of(record.broker_id),))
    if isinstance(record, PartitionRecord) and not record.directories:
        return replace(record, directories=tuple(map(directory_of, record.replicas)))
    return record


class OneFolder:
    """The one log directory, holding whatever the broker has open."""

    def __init__(self, disk: Disk, folder: str, partitions: Partitions) -> None:
        self.dirs = [LogDir(disk, folder, UUID(int=NODE_ID))]
        self.offline: dict[str, str] = {}
        self._partitions = partitions

    def in_dir(self, log_dir: LogDir) -> list[PartitionLog]:
        return [partition.log for partition in self._partitions]


class OneBroker:
    """Keeps the partitions in step with the image."""

    def __init__(
        self,
        *,
        disk: Disk | None = None,
        folder: str = "data",
        clock: Clock | None = None,
        config: dict[str, str] | None = None,
        server: ServerSettings | None = None,
        network: Network | None = None,
        scheduler: Scheduler | None = None,
        guard: Guard | None = None,
    ) -> None:
        """With `guard` it has an authorizer."""
        self.guard = guard
        self.settings = Settings(node.TABLE).having(config or {})
        self.clock = clock or SystemClock()
        self.disk = disk or MemoryDisk(Random(1))
        self.folder = folder
        self.random = Random(7)
        self.cluster = OneNodeCluster(self.random)
        self.partitions = Partitions()
        self.brokers = SingleBroker()
        self.storage = OneFolder(self.disk, self.folder, self.partitions)
        self.waiters: Waiters[Partition] = Waiters(scheduler or asyncio.get_running_loop())
        self.topic_metrics = TopicMetrics()
        self.metrics = Metrics()
        self.executor = ThreadPoolExecutor(1)
        self.groups = GroupCoordinator(
            self.settings,
            self.cluster,
            self.partitions,
            self.waiters,
            self.clock,
            asyncio.get_running_loop(),
            self.random,
            self.executor,
        )
        self.transactions = TransactionCoordinator(
            self.settings,
            self.cluster,
            self.cluster,
            self.partitions,
            self.waiters,
            self.clock,
            asyncio.get_running_loop(),
            self.random,
            self.executor,
            Peers("one broker", network=network, rng=self.random),
            listener=LISTENER,
        )
        self.client_quotas = ClientQuotas(self.clock.monotonic, Window.of(self.settings))
        self.verification = Verification(
            self.cluster, Peers("one broker", network=network, rng=self.random), listener=LISTENER
        )
        self._serving: list[asyncio.Task[None]] = []
        end = Endpoint(LISTENER, "127.0.0.1", 0)
        self.broker = Broker(
            self.settings,
            self.cluster,
            self.cluster,
            self.partitions,
            self.waiters,
            self.topic_metrics,
            self.clock,
            self.random,
            self.executor,
            self.groups,
            self.transactions,
            self.storage,
            ReplicationQuota(NODE_ID, self.clock.monotonic),
            self.client_quotas,
            self.verification,
            self._propose_isr,
            session_lasts=lambda: self.brokers.session_lasts,
            brokers=self.brokers,
            authorizes=guard is not None,
        )
        self.server = Server(
            [Listener(LISTENER, end, end, "PLAINTEXT")],
            lambda start_task: request_handlers(self.broker, start_task),
            server or ServerSettings.of(self.settings),
            network or SocketNetwork(),
            self.metrics,
            quotas=self.client_quotas,
            guard=guard,
        )
        self.cluster.on_changes = self._follow

    def _propose_isr(self, partition: Partition, proposal: Proposal) -> None:
        raise AssertionError(f"{partition.topic_partition}: there is no controller to propose {proposal} to")

    @property
    def port(self) -> int:
        return self.server.port(LISTENER)

    async def start(self) -> None:
        await self.server.start()
        self._serving = [asyncio.create_task(service.serve()) for service in (self.groups, self.transactions)]
        self.register(self.port)

    def register(self, port: int) -> None:
        endpoint = images.Endpoint(LISTENER, "127.0.0.1", port, "PLAINTEXT")
        self.cluster.commit([RegisterBrokerRecord(NODE_ID, UUID(int=1), (endpoint,), fenced=False)])

    async def stop(self) -> None:
        await self.server.stop()
        await self.groups.stop()
        await self.verification.stop()
        await self.transactions.stop()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        self.executor.shutdown()
        for partition in self.partitions:
            partition.log.close()

    def strand(self) -> None:
        """From now on neither the controller nor a follower is heard."""
        self.brokers.session_ms, self.brokers.session_lasts = -1, False

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.partitions.named(topic, index)
        assert found is not None, f"{topic}-{index} is not here"
        return found

    def _follow(self, changes: Changes) -> None:
        image = changes.after
        if self.guard is not None:
            self.guard.on_changes(changes)
        wanted = {(topic.id, index) for topic, index, _ in image.partitions()}
        for partition in list(self.partitions):
            if (partition.topic_id, partition.index) not in wanted:
                self.partitions.remove(partition.topic_id, partition.index)
                epoch = partition.state.leader_epoch
                partition.apply(images.Partition(replicas=(), isr=(), leader=-1, leader_epoch=epoch))
        for topic, index, state in image.partitions():
            partition_here = self.partitions.of(topic.id, index) or self._open(image, topic, index)
            if partition_here.state != state:
                partition_here.apply(state)
        self.groups.publish(changes)
        self.transactions.publish(changes)
        if changes.quotas_changed:
            self.client_quotas.apply(image.quotas)

    def _open(self, image: Image, topic: images.Topic, index: int) -> Partition:
        settings = topic_settings(topic_defaults(self.settings), image.topic_config(topic.name))
        name = TopicPartition(topic.name, index)
        log = PartitionLog.open(
            self.disk, f"{self.folder}/{topic.id}-{index}", name, TopicLogConfig.of(settings)
        )
        check = self.settings[node.VALIDATE_RECORDS] == "all"
        partition = Partition(
            topic.id,
            log,
            TopicSettings.of(settings, check_records=check),
            node_id=NODE_ID,
            wake=self.waiters.wake,
            wake_for=self.waiters.wake,
            brokers=self.brokers,
        )
        self.partitions.add(partition)
        return partition


@asynccontextmanager
async def running_broker(**options: object) -> AsyncIterator[OneBroker]:
    """A broker that listens on a free port of the loopback interface."""
    broker = OneBroker(**options)  # type: ignore[arg-type]
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
