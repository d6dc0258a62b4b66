"""One simulated host: a whole node on a disk, a clock and networks of the simulation, and what can happen to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.node.node import Node, build_node
from rookery.controller.raft.node import RaftNode
from rookery.core.config import node as keys
from rookery.core.config.options import Settings
from rookery.core.disk import FolderInUseError
from rookery.core.metadata_log import METADATA_LOG
from rookery.core.testing.hosts import HostNetwork
from rookery.core.types import TopicPartition
from tests.simulation.controller_rules import require
from tests.simulation.loop import Killed, Process, SimLoop
from tests.simulation.nodes_disks import SimDisk

if TYPE_CHECKING:
    from tests.simulation.nodes_world import World

KAFKA, CONTROL, SECOND = 9092, 9093, 9193
EPOCH_MS = 1_700_000_000_000
"""The wall clock when a simulation begins."""
LAST_S = 0.01
"""What a process that stops has begun already may end meanwhile."""


class SimClock:
    """Time of one host: the monotonic clock is everybody's, the wall clock can jump."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.skew_ms = 0

    def monotonic(self) -> float:
        return self._loop.time()

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000) + self.skew_ms


class Place(NamedTuple):
    """A partition of one topic, and not of another that has the same name later."""

    topic: str
    id: UUID
    index: int  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.topic}({self.id.int & 0xFFFF})-{self.index}"

    @property
    def named(self) -> TopicPartition:
        return TopicPartition(self.topic, self.index)


class SimNode:
    """A host and the node on it."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self.id = node_id
        self.host = f"n{node_id}"
        self.clock = SimClock(world.loop)
        self.clock.skew_ms = Random(f"{world.seed} skew {node_id}").randint(-1, 1) * world.swarm.skews_ms
        self.disk = SimDisk(Random(f"{world.seed} disk {node_id}"), now_ms=self.clock.wall_ms)
        self.disk.point = world.loop.threads.point
        self.disk.threaded = True
        self.process: Process | None = None
        self.node: Node | None = None
        self.ready = False
        self.leaving = False
        self.lives = 0
        self.unwell_at = 0.0
        """When it was last down, stopped, or without its disk."""
        self.lost_for: dict[Place, int] = {}
        """Partitions whose ISR it has not joined since its power was cut, and the epoch it had then."""
        self.unclean_for: dict[Place, int] = {}
        """The same since it was killed."""
        self.away = False
        """Nobody starts it."""
        self.metadata_damage: Callable[[], bool] | None = None
        """Its metadata was damaged: whether what it must read at a start still is, and it has yet to refuse that."""
        self.graves: list[tuple[Process, Node | None]] = []
        self._ends: dict[Place, PartitionLog] = {}

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def is_broker(self) -> bool:
        return self.id in self._world.brokers

    @property
    def is_voter(self) -> bool:
        return self.id in self._world.swarm.voters

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def running(self) -> bool:
        return self.up and self.process is not None and not self.process.paused

    @property
    def is_crippled(self) -> bool:
        """Whether a log dir is offline though its disk works again: somebody must restart the node."""
        disk = self.disk
        return self.role is not None and bool(self.role.log_dirs.offline) and not disk.faults and not disk.room

    @property
    def metadata_dir(self) -> str:
        return log_folders(self._world, self.id)[0]

    @property
    def metadata_folder(self) -> str:
        return f"{self.metadata_dir}/{METADATA_LOG}"

    def has_unsynced_metadata(self) -> bool:
        """Whether a power cut could take records of the metadata log."""
        folder = self.disk._folders.get(self.metadata_folder)
        return folder is not None and any(inode.dirty for name, inode in folder.names.items() if name.endswith(".log"))

    @property
    def role(self) -> BrokerRole | None:
        return self.node.broker if self.node is not None else None

    @property
    def raft(self) -> RaftNode | None:
        controller = self.node.controller if self.node is not None else None
        return controller.raft if controller is not None else None

    def open_log(self, place: Place) -> PartitionLog | None:
        """The replica's log, if the node has it open."""
        role = self.role
        if role is None or role.log_dirs.topic_ids.get(place.named) != place.id:
            return None
        return role.log_dirs.partitions.get(place.named)

    def log(self, place: Place) -> PartitionLog | None:
        """The replica's log, as it is or as it was when the node stopped."""
        found = self.open_log(place)
        if found is not None:
            self._ends[place] = found
        return self._ends.get(place)

    def forget(self, place: Place) -> None:
        for known in (self._ends, self.lost_for, self.unclean_for):
            known.pop(place, None)

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up or self.away:
            return
        world = self._world
        self.lives += 1
        self.leaving = self.ready = False
        world.network.power_on(self.host)
        self.process = process = Process(self.host)
        if self.disk.sync_failed:
            self._doubt(self.lost_for)
            self._doubt(self.unclean_for)
        self.disk.restart()
        process.context.run(world.loop.create_task, self._main(process), name=f"node {self.id}")
        world.trace("start", self.id)

    async def _main(self, process: Process) -> None:
        """The process: whatever ends it is judged here."""
        world = self._world
        try:
            self.node = node = await build_node(
                node_settings(world, self.id),
                clock=self.clock,
                disk=self.disk,
                network=HostNetwork(world.network),
                control=world.control,
                rng=Random(f"{world.seed} node {self.id} {self.lives}"),
            )
            await node.group.run(on_ready=self._on_ready)
            await asyncio.sleep(LAST_S)
            world.oracles.left_over(self, process)
        except Killed:
            raise
        except Exception as error:
            world.exited(self, error)
        finally:
            if process.alive and self.process is process and not world.over:
                self._gone(process)

    def start_twice(self) -> Process:
        """A second process, in the controller's role, on the folders of the first."""
        self._world.trace("start twice", self.id)
        process = Process(self.host)
        process.context.run(self._world.loop.create_task, self._second(), name=f"second node {self.id}")
        return process

    async def _second(self) -> None:
        world = self._world
        settings = node_settings(world, self.id).having(
            {"process.roles": "controller", "listeners": f"CONTROLLER://{self.host}:{SECOND}"}
        )
        try:
            node = await build_node(
                settings,
                clock=self.clock,
                disk=self.disk,
                network=HostNetwork(world.network),
                control=world.control,
                rng=Random(f"{world.seed} second {self.id} {self.lives}"),
            )
            await node.group.run()
        except FolderInUseError:
            world.trace("refused", self.id)
        except Killed:
            raise
        except Exception as error:
            world.exited(self, error)

    def end_second(self, process: Process) -> None:
        process.alive = False
        self._world.network.killed(process)
        self._world.control.killed(process)

    def _on_ready(self) -> None:
        rotten = self.metadata_damage is not None and self.metadata_damage()
        require(not rotten, "R18", f"node {self.id} runs on damaged metadata")
        self.ready = True
        self.unwell_at = self._world.loop.time()
        self._world.trace("ready", self.id)
        if self.role is not None:
            self._world.oracles.recovered(self, self.role.log_dirs.damaged)

    def _gone(self, process: Process) -> None:
        """The process ended by itself."""
        self._world.trace("exited", self.id)
        self._forget(process)

    def _forget(self, process: Process) -> None:
        for place in self._world.places():
            self.log(place)
        process.alive = False
        self._world.open_files.pop(process, None)
        self._world.network.killed(process)
        self._world.control.killed(process)
        self.graves.append((process, self.node))
        self.process, self.node, self.ready = None, None, False

    def kill(self) -> None:
        """kill -9: what was written stays written."""
        if self.process is not None:
            self._world.trace("kill", self.id)
            self._doubt(self.unclean_for)
            self._forget(self.process)

    def ended_uncleanly(self) -> None:
        """Its next start is one after a crash, however it ends: what says otherwise is damaged."""
        self._doubt(self.unclean_for)

    def power_cut(self) -> None:
        """The machine goes dark: what was not synced may be gone."""
        self._world.trace("power cut", self.id)
        self._world.network.power_off(self.host)
        self._doubt(self.unclean_for)
        self._doubt(self.lost_for)
        if self.process is not None:
            self._forget(self.process)
        self.disk.power_cut()

    def wipe(self) -> None:
        """Its disks are replaced by empty ones, while it is down."""
        self._world.trace("wiped", self.id)
        self._ends.clear()
        self.disk.wipe()

    def stop(self) -> None:
        """SIGTERM."""
        if self.up and self.node is not None and self.process is not None and not self.leaving:
            self.leaving = True
            self._world.trace("stop", self.id)
            self._world.loop.call_soon(self.node.request_stop, context=self.process.context)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.process is not None and not self.process.paused:
            self._world.trace("pause", self.id)
            self.process.paused = True
            self._world.control.review_all()

    def resume(self) -> None:
        if self.process is not None and self.process.paused:
            self._world.trace("resume", self.id)
            self.unwell_at = self._world.loop.time()
            self._world.loop.resume(self.process)
            self._world.control.review_all()

    def caught_up(self, place: Place, epoch: int) -> None:
        """It is in the ISR of `place`, registered with `epoch`."""
        for doubted in (self.lost_for, self.unclean_for):
            if epoch > doubted.get(place, epoch):
                del doubted[place]

    def _doubt(self, doubted: dict[Place, int]) -> None:
        known = self._world.image.brokers.get(self.id)
        epoch = known.epoch if known is not None else -1
        doubted.update(dict.fromkeys(self._world.places_of(self.id), epoch))


def log_folders(world: World, node_id: int) -> list[str]:
    several = world.swarm.dirs > 1 and node_id in world.brokers
    return [f"/data/{n}" for n in range(world.swarm.dirs)] if several else ["/data"]


def node_settings(world: World, node_id: int) -> Settings:
    swarm, host = world.swarm, f"n{node_id}"
    voter, broker = node_id in swarm.voters, node_id in world.brokers
    listeners = [f"PLAINTEXT://{host}:{KAFKA}"] * broker + [f"CONTROLLER://{host}:{CONTROL}"] * voter
    voters = ",".join(f"{n}@n{n}:{CONTROL}" for n in swarm.voters)
    options = {
        "process.roles": ",".join(["broker"] * broker + ["controller"] * voter),
        "node.id": node_id,
        "rookery.cluster.id": world.cluster_id,
        "log.dirs": ",".join(log_folders(world, node_id)),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "rookery.http.listener": "",
        "controller.quorum.bootstrap.servers": ",".join(f"n{n}:{CONTROL}" for n in swarm.voters),
        "controller.quorum.fetch.timeout.ms": swarm.raft_ms,
        "controller.quorum.election.timeout.ms": swarm.raft_ms // 2,
        "controller.quorum.election.backoff.max.ms": swarm.raft_ms // 2,
        "controller.quorum.request.timeout.ms": swarm.raft_ms,
        "metadata.max.idle.interval.ms": swarm.raft_ms // 2,
        "metadata.log.max.record.bytes.between.snapshots": swarm.snapshot_bytes,
        "metadata.log.max.snapshot.interval.ms": swarm.snapshot_ms,
        "broker.session.timeout.ms": swarm.session_ms,
        "broker.heartbeat.interval.ms": swarm.heartbeat_ms,
        "rookery.broker.reconnect.grace.ms": swarm.grace_ms,
        "replica.lag.time.max.ms": swarm.lag_ms,
        "replica.fetch.wait.max.ms": swarm.fetch_wait_ms,
        "replica.fetch.response.max.bytes": swarm.response_bytes,
        "replica.high.watermark.checkpoint.interval.ms": swarm.checkpoint_ms,
        "log.flush.offset.checkpoint.interval.ms": swarm.checkpoint_ms,
        "log.flush.start.offset.checkpoint.interval.ms": swarm.checkpoint_ms,
        "log.retention.check.interval.ms": swarm.retention_check_ms,
        "log.segment.delete.delay.ms": swarm.delete_delay_ms,
        "log.cleaner.backoff.ms": swarm.cleaner_ms,
        "rookery.scrub.interval.ms": swarm.scrub_ms if "rot" in swarm.faults else 604_800_000,
        "log.cleaner.dedupe.buffer.size": 1 << 16,
        "leader.imbalance.check.interval.seconds": swarm.rebalance_s,
        "request.timeout.ms": swarm.request_timeout_ms,
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": swarm.offsets_partitions,
        "offsets.topic.replication.factor": min(3, len(swarm.brokers)),
        "group.min.session.timeout.ms": 1000,
        "group.initial.rebalance.delay.ms": 500,
        "rookery.group.lag.interval.ms": int(5000 * swarm.pace),
        "initial.broker.registration.timeout.ms": 600_000,
    }
    if swarm.transactions is not None:
        options |= {
            "transaction.state.log.num.partitions": swarm.transactions.state_partitions,
            "transaction.state.log.replication.factor": min(3, len(swarm.brokers)),
            "transaction.state.log.min.isr": 2,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        }
    groups = swarm.consumers or swarm.own
    if swarm.own is not None:
        options |= {
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": min(3, len(swarm.brokers)),
            "transaction.state.log.min.isr": 2,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        }
    if groups is not None:
        session_ms, heartbeat_ms = groups.session_ms, groups.heartbeat_ms
        options |= {
            "group.consumer.min.session.timeout.ms": session_ms,
            "group.consumer.session.timeout.ms": session_ms,
            "group.consumer.min.heartbeat.interval.ms": heartbeat_ms,
            "group.consumer.heartbeat.interval.ms": heartbeat_ms,
            "group.consumer.assignment.interval.ms": 0 if swarm.consumers is None else swarm.consumers.assignment_ms,
        }
    if swarm.expiry is not None:
        options |= swarm.expiry.options
    if voter:
        options["controller.quorum.voters"] = voters
    return Settings(keys.TABLE).having({key: str(value) for key, value in options.items()})
