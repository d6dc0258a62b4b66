"""A simulated broker: the real node on a disk, a clock and a network of the simulation, and what can happen to it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from rookery.broker.lifecycle import RegistrationError
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.metadata.follower import MetadataFollowerSettings
from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.node.node import Node, build_node
from rookery.core.clock import Clock
from rookery.core.config import node as keys
from rookery.core.config.options import Settings
from rookery.core.metadata_log import MetadataListener
from rookery.core.service import Service, ServiceGroup
from rookery.core.testing.disk import MemoryDisk
from rookery.core.types import TopicPartition
from tests.simulation.cluster_loop import Killed, Process, SimLoop, current
from tests.simulation.cluster_net import HostNetwork
from tests.simulation.cluster_quorum import Reader

if TYPE_CHECKING:
    from tests.simulation.cluster_world import World

PORT = 9092
EPOCH_MS = 1_700_000_000_000


class SimClock:
    """Time of one host: the monotonic clock is everybody's, the wall clock can jump."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.skew_ms = 0

    def monotonic(self) -> float:
        return self._loop.time()

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000) + self.skew_ms


class SimMetadataFollower(Service):
    """Takes the place of the reader that fetches the metadata log over gRPC."""

    name = "metadata-follower"

    def __init__(self, world: World, listener: MetadataListener) -> None:
        self._world = world
        self._reader = Reader(world.quorum, current(), listener, snapshots=True)

    @classmethod
    def maker(cls, world: World) -> object:
        def make(
            settings: MetadataFollowerSettings, listener: MetadataListener, version: object, control: object
        ) -> SimMetadataFollower:
            return cls(world, listener)

        return make

    @property
    def position(self) -> int:
        return self._reader.delivered

    @property
    def high_watermark(self) -> int:
        return self._world.quorum.committed

    async def start(self) -> None:
        self._world.quorum.readers.append(self._reader)
        self._world.quorum.later(self._reader, 0.001)

    async def stop(self) -> None:
        self._world.quorum.readers.remove(self._reader)


class SimBroker:
    """One host with one broker on it."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self.id = node_id
        self.host = f"b{node_id}"
        self.clock: Clock
        self.sim_clock = SimClock(world.loop)
        self.disk = MemoryDisk(Random(f"{world.seed} disk {node_id}"), now_ms=self.sim_clock.wall_ms)
        self.process: Process | None = None
        self.node: Node | None = None
        self.ready = False
        self.leaving = False
        self.lost_for: dict[TopicPartition, int] = {}
        """Partitions whose ISR it has not joined since its power was cut, and the epoch it had then."""
        self.unclean_for: dict[TopicPartition, int] = {}
        """The same since it was killed."""
        self._graves: list[tuple[Process, Node | None]] = []
        self._ends: dict[TopicPartition, PartitionLog] = {}
        self.lives = 0

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def running(self) -> bool:
        return self.up and self.process is not None and not self.process.paused

    @property
    def role(self) -> BrokerRole | None:
        return self.node.broker if self.node is not None else None

    def log(self, place: TopicPartition) -> PartitionLog | None:
        """The replica's log, as it is or as it was when the broker stopped."""
        role = self.role
        if role is not None and place in role.log_dirs.partitions:
            self._ends[place] = role.log_dirs.partitions[place]
        return self._ends.get(place)

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.up:
            return
        self.lives += 1
        self.leaving = self.ready = False
        self._world.network.power_on(self.host)
        self.process = process = Process(self.host)
        self.disk.restart()
        process.context.run(self._world.loop.create_task, self._main(process), name=f"broker {self.id}")
        self._world.trace("start", self.id)

    async def _main(self, process: Process) -> None:
        """The process: whatever ends it is judged here."""
        world = self._world
        try:
            self.node = node = await build_node(
                world.node_settings(self.id),
                clock=self.sim_clock,
                disk=self.disk,
                network=HostNetwork(world.network),
                control=world.rpc,  # type: ignore[arg-type]
                rng=Random(f"{world.seed} {self.id} {self.lives}"),
            )
            if node.broker is None:
                raise RuntimeError("not a broker")
            node.group = ServiceGroup(node.broker.services)
            await node.group.run(on_ready=self._on_ready)
        except Killed:
            raise
        except (RegistrationError, ExceptionGroup) as error:
            world.exited(self, error)
        except Exception as error:
            world.exited(self, error)
        finally:
            if process.alive and self.process is process and not world.over:
                self._gone()

    def _on_ready(self) -> None:
        self.ready = True
        self._world.trace("ready", self.id)
        if self.role is not None:
            self._world.oracles.recovered(self, self.role.log_dirs.damaged)

    def _gone(self) -> None:
        """The process ended by itself."""
        if self.process is not None:
            self._forget(self.process)
        self._world.trace("exited", self.id)

    def _forget(self, process: Process) -> None:
        for place in list(self._world.places):
            self.log(place)
        process.alive = False
        self._world.network.killed(process)
        self._world.rpc.killed(process)
        self._world.quorum.readers[:] = [r for r in self._world.quorum.readers if r.process is not process]
        self._graves.append((process, self.node))
        self.process, self.node, self.ready = None, None, False

    def kill(self) -> None:
        """kill -9: what was written stays written."""
        if self.process is not None:
            self._world.trace("kill", self.id)
            self._doubt(self.unclean_for)
            self._forget(self.process)

    def power_cut(self) -> None:
        """The machine goes dark: what was not synced may be gone."""
        self._world.trace("power cut", self.id)
        self._world.network.power_off(self.host)
        self._doubt(self.unclean_for)
        self._doubt(self.lost_for)
        if self.process is not None:
            self._forget(self.process)
        self.disk.power_cut()

    def reset(self) -> None:
        """The machine starts anew at once: what was not synced may be gone, and its peers hear that it is."""
        self._world.trace("reset", self.id)
        self._doubt(self.unclean_for)
        self._doubt(self.lost_for)
        if self.process is not None:
            self._forget(self.process)
        self.disk.power_cut()
        self.start()

    def stop(self) -> None:
        """SIGTERM."""
        if self.up and self.node is not None and self.process is not None and not self.leaving:
            self.leaving = True
            self._world.trace("stop", self.id)
            self._world.loop.call_soon(self.node.request_stop, context=self.process.context)

    def pause(self) -> None:
        if self.process is not None and not self.process.paused:
            self._world.trace("pause", self.id)
            self.process.paused = True
            self._world.rpc.disturbed()

    def resume(self) -> None:
        if self.process is not None and self.process.paused:
            self._world.trace("resume", self.id)
            self._world.loop.resume(self.process)

    def caught_up(self, place: TopicPartition, epoch: int) -> None:
        """It is in the ISR of `place`, registered with `epoch`."""
        for doubted in (self.lost_for, self.unclean_for):
            if epoch > doubted.get(place, epoch):
                del doubted[place]

    def _doubt(self, doubted: dict[TopicPartition, int]) -> None:
        known = self._world.observer.image.brokers.get(self.id)
        epoch = known.epoch if known is not None else -1
        doubted.update(dict.fromkeys(self._world.places_of(self.id), epoch))


def broker_settings(world: World, node_id: int) -> Settings:
    swarm = world.swarm
    return Settings(keys.TABLE).having(
        {
            "process.roles": "broker",
            "node.id": str(node_id),
            "rookery.cluster.id": world.cluster_id,
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://b{node_id}:{PORT}",
            "rookery.http.listener": "",
            "controller.quorum.bootstrap.servers": "c1:1,c2:1,c3:1",
            "broker.session.timeout.ms": str(swarm.session_ms),
            "broker.heartbeat.interval.ms": str(swarm.heartbeat_ms),
            "replica.lag.time.max.ms": str(swarm.lag_ms),
            "replica.fetch.wait.max.ms": str(swarm.fetch_wait_ms),
            "replica.fetch.response.max.bytes": str(swarm.response_bytes),
            "replica.high.watermark.checkpoint.interval.ms": str(swarm.watermark_checkpoint_ms),
            "request.timeout.ms": str(swarm.request_timeout_ms),
            "auto.create.topics.enable": "false",
            "initial.broker.registration.timeout.ms": "60000",
        }
    )
