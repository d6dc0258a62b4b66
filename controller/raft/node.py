"""One member of the metadata quorum, as the rest of its process sees it.

    node = RaftNode(settings, metrics=metrics)
    node.subscribe(controller)
    server = ControlServer(address, [RaftService(node).register, ...])

Start the server before the node and stop it after: a stopping leader needs it to hand over. What a started node does
is in `driver.py`.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence

from rookery.controller.quorum import VoterFeatures
from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.describe import QuorumDescription
from rookery.controller.raft.driver import Driver
from rookery.controller.raft.errors import CorruptStateError, MetadataDamagedError, NotServingError
from rookery.controller.raft.messages import NO_LEADER
from rookery.controller.raft.metrics import RaftMetrics, publish
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.raft.storage import RaftStorage
from rookery.controller.raft.translation import CallerIdentity
from rookery.core.clock import Clock, SystemClock
from rookery.core.disk import Disk, FileDisk
from rookery.core.errors import NotControllerError
from rookery.core.event_logging import get_logger
from rookery.core.metadata_log import METADATA_LOG, MetadataListener, SnapshotId
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.service import Service
from rookery.proto import raft_pb2 as pb

_log = get_logger("controller.raft")


class RaftNode(Service):
    """A voter, or a controller that is not (yet) one. Implements `controller.quorum.Quorum`."""

    name = "raft"

    def __init__(
        self,
        settings: RaftSettings,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        metrics: Metrics | None = None,
        level: Callable[[], int] | None = None,
        control: Control = GRPC,
    ) -> None:
        """`level` returns the cluster's finalised metadata.version, as far as this node knows."""
        self.settings = settings
        self._level = level or (lambda: settings.release.levels.min_version)
        self._disk = disk or FileDisk()
        self._clock = clock or SystemClock()
        self._chance = chance
        self._control = control
        self._listeners: list[MetadataListener] = []
        self._driver: Driver | None = None
        self.metrics = RaftMetrics(self._clock)
        if metrics is not None:
            publish(metrics, self.metrics, self)

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what is on disk and join the quorum."""
        settings = self.settings
        storage = await asyncio.to_thread(
            RaftStorage.open, self._disk, settings.folder, settings.log, self._clock.wall_ms()
        )
        found, now_ms = storage.recovered, self._clock.monotonic() * 1000
        try:
            core = RaftCore(
                settings.key, settings.voters, found.log, found.state, now_ms, self._chance, settings.raft
            )
        except CorruptStateError as error:
            await asyncio.to_thread(storage.close)
            raise MetadataDamagedError(f"{settings.folder}/{METADATA_LOG}", str(error)) from error
        driver = self._driver = Driver(
            settings,
            core,
            storage,
            caller=self._caller,
            clock=self._clock,
            metrics=self.metrics,
            control=self._control,
        )
        _log.info(
            "raft.started",
            node=settings.node_id,
            epoch=found.state.epoch,
            log_end=found.log.end_offset,
            snapshot=None if found.log.snapshot is None else found.log.snapshot.end_offset,
        )
        for listener in self._listeners:
            driver.delivery.subscribe(listener)
        driver.start()

    async def serve(self) -> None:
        if self._driver is not None:
            await asyncio.shield(self._driver.task)

    async def stop(self) -> None:
        """Hand leadership over, then stop and leave the files in order."""
        driver = self._driver
        if driver is not None:
            failure = await driver.stop()
            self._driver = None
            await driver.close()
            _log.info("raft.stopped", node=self.settings.node_id, failure=failure)

    def _caller(self) -> CallerIdentity:
        settings = self.settings
        version = settings.release.rpc_version(self._level())
        return CallerIdentity(settings.cluster_id, settings.key, version, settings.release.features)

    def driver(self) -> Driver:
        """Raises NotServingError while the node is not started."""
        if self._driver is None:
            raise NotServingError
        return self._driver

    # -- the application's side ------------------------------------------------------------------------------

    def subscribe(self, listener: MetadataListener) -> None:
        """Give `listener` everything that is committed, from the beginning; before or after `start`."""
        self._listeners.append(listener)
        if self._driver is not None:
            self._driver.delivery.subscribe(listener)

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        if self._driver is None:
            raise NotControllerError(f"node {self.settings.node_id} is not running")
        return self._driver.propose(epoch, values)

    def write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        self.driver().write_snapshot(snapshot, values)

    def voter_features(self) -> VoterFeatures:
        driver = self.driver()
        return {
            voter.id: driver.features.get(voter.id)
            for voter in driver.core.voters
            if voter.id != self.settings.node_id
        }

    @property
    def leader(self) -> tuple[int, int]:
        if self._driver is None:
            return NO_LEADER, 0
        replica = self._driver.core.replica
        return replica.leader_id, replica.epoch

    def leader_hint(self) -> pb.Leader:
        """The leader, as far as this node knows: none while it is starting or stopping."""
        if self._driver is None:
            return pb.Leader(id=NO_LEADER)
        replica = self._driver.core.replica
        return pb.Leader(
            id=replica.leader_id,
            epoch=replica.epoch,
            endpoint=replica.leader_endpoint,
            reported_by=self.settings.node_id,
        )

    def describe_core(self) -> QuorumDescription | None:
        """None while the node is not started."""
        driver = self._driver
        return None if driver is None else driver.core.describe(driver.now_ms())
