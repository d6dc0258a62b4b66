"""One member of the metadata quorum: the pure core with disk, network, clock and application around it.

    node = RaftNode(settings, metrics=metrics)
    node.subscribe(controller)
    server = ControlServer(address, [node.service.register, ...])

Start the server before the node and stop it after: a stopping leader needs it to hand over.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from rookery.controller.access import Access
from rookery.controller.quorum import VoterFeatures
from rookery.controller.raft import messages as m
from rookery.controller.raft.answers import NodeAnswers
from rookery.controller.raft.batches import data_batch
from rookery.controller.raft.calls import FETCH_BYTES_MAX, Calls
from rookery.controller.raft.commits import Commits
from rookery.controller.raft.core import RaftCore
from rookery.controller.raft.delivery import Delivery
from rookery.controller.raft.describe import QuorumDescription
from rookery.controller.raft.election import is_first
from rookery.controller.raft.engine import Engine
from rookery.controller.raft.errors import CorruptStateError, MetadataDamagedError, RaftRefusedError
from rookery.controller.raft.metrics import RaftMetrics, publish
from rookery.controller.raft.ready import RoleChange, Send
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Candidate, Prospective
from rookery.controller.raft.running import Running
from rookery.controller.raft.service import NotServingError, RaftService
from rookery.controller.raft.settings import RaftSettings
from rookery.controller.raft.snapshotting import Snapshotting
from rookery.controller.raft.storage import RaftStorage
from rookery.controller.raft.translation import Speaker
from rookery.controller.raft.transport import Transport
from rookery.core.clock import Clock, SystemClock
from rookery.core.disk import Disk, FileDisk
from rookery.core.errors import NotControllerError, RecordListTooLargeError
from rookery.core.event_logging import get_logger
from rookery.core.metadata_log import METADATA_LOG, MetadataListener, SnapshotId
from rookery.core.metrics import Metrics
from rookery.core.net.control import GRPC, Control
from rookery.core.service import Service

_log = get_logger("controller.raft")
LEADER = "leader"
HANDOVER_EXTRA_S = 1.0
START_ALL = "start all of controller.quorum.voters: the first leader of a new quorum needs the votes of all of them"


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
        """`level` tells the metadata.version that the cluster has agreed on, as far as this node knows."""
        self.settings = settings
        self._level = level or (lambda: settings.release.levels.min_version)
        self._disk = disk or FileDisk()
        self._clock = clock or SystemClock()
        self._chance = chance
        self._control = control
        self._listeners: list[MetadataListener] = []
        self._running: Running | None = None
        self._task: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._role: RoleChange | None = None
        self._not_leading = asyncio.Event()
        self._not_leading.set()
        self._leaderless_since: float | None = None
        self._missing: list[int] = []
        self.metrics = RaftMetrics(self._clock)
        mutual = settings.tls is not None and settings.tls.client_auth == "required"
        access = Access(settings.cluster_id, settings.node_id, mutual, settings.release)
        self.service = RaftService(
            NodeAnswers(settings, self.running), access, held_ms_max=settings.raft.fetch_max_wait_ms
        )
        if metrics is not None:
            publish(metrics, self.metrics, self)

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Recover what is on disk and join the quorum."""
        settings = self.settings
        storage = await asyncio.to_thread(
            RaftStorage.open, self._disk, settings.folder, settings.log, self._clock.wall_ms()
        )
        found = storage.recovered
        try:
            core = RaftCore(
                settings.key,
                settings.voters,
                found.log,
                found.state,
                self._clock.monotonic() * 1000,
                self._chance,
                settings.raft,
            )
        except CorruptStateError as error:
            await asyncio.to_thread(storage.close)
            raise MetadataDamagedError(f"{settings.folder}/{METADATA_LOG}", str(error)) from error
        self._running = self._assemble(core, storage)
        _log.info(
            "raft.started",
            node=settings.node_id,
            epoch=found.state.epoch,
            log_end=found.log.end_offset,
            snapshot=None if found.log.snapshot is None else found.log.snapshot.end_offset,
        )
        for listener in self._listeners:
            self._running.delivery.subscribe(listener)
        self._task = asyncio.create_task(self._run(self._running), name="raft-node")
        self._running.engine.input(core.tick)

    def _assemble(self, core: RaftCore, storage: RaftStorage) -> Running:
        settings = self.settings
        engine = Engine(core, storage, self, self._clock, self.metrics)
        return Running(
            engine=engine,
            calls=Calls(storage),
            commits=Commits(self._clock, self.metrics),
            delivery=Delivery(storage),
            snapshotting=Snapshotting(engine, self._clock),
            transport=Transport(
                self._speaker,
                settings.raft,
                engine,
                me=settings.node_id,
                endpoints=settings.endpoints,
                bootstrap=settings.bootstrap,
                tls=settings.tls,
                control=self._control,
            ),
            clock=self._clock,
        )

    def _speaker(self) -> Speaker:
        settings = self.settings
        version = settings.release.rpc_version(self._level())
        return Speaker(settings.cluster_id, settings.key, version, settings.release.features)

    async def _run(self, running: Running) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(running.engine.run(), name="raft-engine")
            group.create_task(running.delivery.run(), name="raft-delivery")
            group.create_task(self._keep_house(running), name="raft-housekeeping")

    async def serve(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Hand leadership over, then stop and leave the files in order."""
        running, task = self._running, self._task
        if running is None or task is None:
            return
        if not task.done():
            await self._hand_over(running)
        task.cancel()
        await asyncio.wait([task])
        self._running = self._group = None
        await running.transport.close()
        await asyncio.to_thread(running.engine.storage.close)
        failure = None if task.cancelled() else task.exception()
        _log.info("raft.stopped", node=self.settings.node_id, failure=failure)

    async def _hand_over(self, running: Running) -> None:
        running.engine.input(lambda now_ms: running.engine.core.transfer_leadership(now_ms, for_good=True))
        patience_s = self.settings.raft.election_timeout_ms / 1000 + HANDOVER_EXTRA_S
        try:
            async with asyncio.timeout(patience_s):
                await self._not_leading.wait()
        except TimeoutError:
            _log.warning("raft.handover.failed", node=self.settings.node_id, waited_s=patience_s)
        await running.transport.drain(patience_s)

    async def _keep_house(self, running: Running) -> None:
        """Note now and then how much is committed, and say what a new quorum waits for."""
        noted, engine = 0, running.engine
        while True:
            await asyncio.sleep(self.settings.checkpoint_interval_ms / 1000)
            self._tell_who_is_missing(engine.core.replica)
            high_watermark = min(engine.core.replica.high_watermark, engine.storage.flushed_offset)
            if high_watermark > noted and engine.core.replica.installing is None:
                await engine.in_thread(lambda offset=high_watermark: engine.storage.save_committed(offset))  # type: ignore[misc]
                noted = high_watermark

    def _tell_who_is_missing(self, replica: Replica) -> None:
        ballot = replica.role.ballot if isinstance(replica.role, Prospective | Candidate) else None
        missing = [] if ballot is None else [voter.id for voter in replica.voters if voter.id not in ballot.granted]
        if missing and is_first(replica) and missing != self._missing:
            _log.warning("raft.first_election.waits", node=replica.me.id, voters=missing, todo=START_ALL)
            self._missing = missing

    # -- the application's side ------------------------------------------------------------------------------

    def subscribe(self, listener: MetadataListener) -> None:
        """Tell `listener` everything that is committed, from the beginning; before or after `start`."""
        self._listeners.append(listener)
        if self._running is not None:
            self._running.delivery.subscribe(listener)

    def propose(self, epoch: int, values: Sequence[bytes]) -> int:
        running = self._running
        if running is None:
            raise NotControllerError(f"node {self.settings.node_id} is not running")
        batch = data_batch(values, self._clock.wall_ms())
        if len(batch) > FETCH_BYTES_MAX:
            raise RecordListTooLargeError(f"{len(values)} values of {len(batch)} bytes; at most {FETCH_BYTES_MAX}")
        engine = running.engine
        try:
            offset, ready = engine.guard(
                lambda: engine.core.propose(epoch, len(values), batch, engine.now_ms())
            )
        except RaftRefusedError as error:
            raise NotControllerError(str(error)) from error
        engine.take(ready)
        running.commits.proposed(offset, len(values))
        return offset

    def write_snapshot(self, snapshot: SnapshotId, values: Iterable[bytes]) -> None:
        running = self.running()
        running.snapshotting.check(snapshot)
        self._spawn(running.snapshotting.write(snapshot, values))

    def voter_features(self) -> VoterFeatures:
        voters = self.running().engine.core.voters
        told = self.service.features
        return {voter.id: told.get(voter.id) for voter in voters if voter.id != self.settings.node_id}

    @property
    def leader(self) -> tuple[int, int]:
        if self._running is None:
            return m.NO_LEADER, 0
        replica = self._running.engine.core.replica
        return replica.leader_id, replica.epoch

    @property
    def leader_endpoint(self) -> str:
        """Where the leader listens, empty if it is not known."""
        return "" if self._running is None else self._running.engine.core.replica.leader_endpoint

    def running(self) -> Running:
        if self._running is None:
            raise NotServingError
        return self._running

    def describe_core(self) -> QuorumDescription | None:
        if self._running is None:
            return None
        return self._running.engine.core.describe(self._running.engine.now_ms())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start `work` with this node's tasks. While these are being cancelled it is dropped: it would be, too."""
        if self._group is None:
            work.close()
            raise NotServingError
        try:
            self._group.create_task(work)
        except RuntimeError:
            work.close()

    # -- what the core decided (engine.Effects) --------------------------------------------------------------

    def send(self, send: Send) -> None:
        running = self.running()
        if isinstance(send.message, m.Response):
            running.calls.respond(send.message)
        else:
            running.transport.send(send, self._spawn)

    def committed(self, high_watermark: int) -> None:
        running = self.running()
        running.commits.committed(high_watermark)
        running.delivery.committed(high_watermark)

    def role_changed(self, role: RoleChange) -> None:
        running, before = self.running(), self._role
        self._role = role
        self._log_change(before, role)
        if role.role == LEADER:
            self._not_leading.clear()
        elif not self._not_leading.is_set():
            self._not_leading.set()
            running.commits.leadership_lost()
        if before is None or (before.leader_id, before.epoch) != (role.leader_id, role.epoch):
            running.delivery.leader(role.leader_id, role.epoch, role.epoch_start_offset)

    def snapshot_installed(self, snapshot: SnapshotId) -> None:
        _log.info("raft.snapshot.installed", end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        self.running().delivery.snapshot_installed()

    def _log_change(self, before: RoleChange | None, now: RoleChange) -> None:
        if before is None or before.voters != now.voters:
            voters = [f"{voter.key}@{voter.endpoint}" for voter in now.voters]
            _log.info("raft.voters", node=self.settings.node_id, epoch=now.epoch, voters=voters)
        if before is None or (before.role, before.epoch, before.leader_id) != (now.role, now.epoch, now.leader_id):
            _log.info(
                "raft.role", node=self.settings.node_id, role=now.role, epoch=now.epoch, leader=now.leader_id
            )
        clock = self._clock.monotonic()
        if now.leader_id == m.NO_LEADER:
            self._leaderless_since = self._leaderless_since or clock
        elif self._leaderless_since is not None:
            self.metrics.election_latency_ms.add((clock - self._leaderless_since) * 1000)
            self._leaderless_since = None
