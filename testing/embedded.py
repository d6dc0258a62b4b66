"""Nodes in this process: each one the whole of a node, on an event loop in a thread of its own.

Clients connect by TCP. Among themselves the nodes talk over a network in memory, whose links can be cut and slowed
down. Every node is a process of the loop, so it can be killed between any two of its callbacks, or stopped.
"""

import asyncio
import itertools
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from itertools import combinations
from pathlib import Path
from random import Random
from ssl import SSLContext
from typing import Any, TypeVar

from rookery.broker.node.command import causes
from rookery.broker.node.node import Node, build_node
from rookery.client.local.shape import controllers_for
from rookery.core.clock import SystemClock
from rookery.core.config.loading import load
from rookery.core.config.options import Settings
from rookery.core.disk import FileDisk
from rookery.core.ids import id_text, new_id
from rookery.core.net.network import Listening, ProtocolFactory, SocketNetwork
from rookery.core.net.tls_listener import TlsAdmission
from rookery.core.testing.control import SimControl
from rookery.core.testing.disk import MemoryDisk
from rookery.core.testing.host_disk import HostDisk, LifeDisk
from rookery.core.testing.hosts import HostNetwork, SimNetwork
from rookery.core.testing.loop import ProcessLoop
from rookery.core.testing.process import Process
from rookery.testing.faults import UnsupportedFault, flip_in_file
from rookery.testing.lost_answers import LostAnswers
from rookery.testing.timeline import NODE_EVENTS, Timeline
from rookery.testing.trails import Trails

T = TypeVar("T")
HOST = "127.0.0.1"
START_S = 60.0
STOP_S = 40.0
CONTROL_PORT = 9093
CONTROLLER_PAUSE_S = (0.01, 0.05)
"""Nodes that start together ask for a controller before there is one, and here there are few of them."""


class NodeFailedError(Exception):
    """A node ended by itself."""


class JumpingClock(SystemClock):
    """The machine's clock, but what it says of the date can be set off."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class _NodeNetwork:
    """The network of one node: clients by TCP, other nodes in memory."""

    def __init__(self, host: str, hosts: SimNetwork, owners: Mapping[int, str]) -> None:
        self._host = host
        self._between = HostNetwork(hosts)
        self._outside = SocketNetwork()
        self._owners = owners

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int, tls: SSLContext | None = None
    ) -> asyncio.Transport:
        owner = self._owners.get(port)
        if owner is None or tls is not None:
            return await self._outside.connect(factory, host, port, tls)
        return await self._between.connect(factory, owner, port)

    async def listen(
        self,
        factory: ProtocolFactory,
        host: str,
        port: int,
        backlog: int = 50,
        tls: TlsAdmission | None = None,
    ) -> Listening:
        outside = await self._outside.listen(factory, host, port, backlog, tls)
        inside = await self._between.listen(factory, self._host, port) if tls is None else None
        return _BothListening(outside, inside)


class _BothListening:
    def __init__(self, outside: Listening, inside: Listening | None) -> None:
        self._outside = outside
        self._inside = inside

    @property
    def address(self) -> tuple[str, int]:
        return self._outside.address

    async def close(self) -> None:
        await self._outside.close()
        if self._inside is not None:
            await self._inside.close()


class EmbeddedNode:
    """One node, over all its lives."""

    def __init__(self, node_id: int, port: socket.socket, disk: HostDisk) -> None:
        self.id = node_id
        self.host = f"node-{node_id}"
        self.reserved = port
        self.port: int = port.getsockname()[1]
        self.disk = disk
        self.clock = JumpingClock()
        self.lost_answers = LostAnswers()
        self.process: Process | None = None
        self.node: Node | None = None
        self.life: LifeDisk | None = None
        self.task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()
        self.failure: Exception | None = None

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.paused

    @property
    def lost_its_disk(self) -> bool:
        return self.node is not None and self.node.broker is not None and bool(self.node.broker.log_dirs.offline)


class _Network(SimNetwork):
    """Delays are what they were set to, not drawn."""

    def delay_s(self, source: str, target: str) -> float:
        return self._slow.get((source, target), 0.0)


class EmbeddedNodes:
    """The nodes of a cluster, and the thread they run in. Methods are for the caller's thread."""

    def __init__(
        self,
        nodes: int,
        config: Mapping[str, str],
        folder: Path | None,
        timeline: Timeline,
        *,
        port: int = 0,
        seed: int = 0,
    ) -> None:
        reserved = _reserved_ports(nodes, port)
        self._config = dict(config)
        self._folder = folder
        self._cluster_id = id_text(new_id())
        self._controllers = controllers_for(nodes)
        self.loop = ProcessLoop()
        self.rng = Random(seed)
        self.network = _Network(self.loop, Random(f"{seed} network"), 0.0)
        self.control = SimControl(self.loop, self.network, Random(f"{seed} control"))
        self._owners: dict[int, str] = {}
        self._lives = itertools.count(1)
        self._cuts: Counter[tuple[int, int]] = Counter()
        self._delays: defaultdict[int, float] = defaultdict(float)
        self._timeline = timeline
        self._trails = Trails(timeline)
        self.nodes: dict[int, EmbeddedNode] = {}
        for node_id in range(1, nodes + 1):
            node = EmbeddedNode(node_id, reserved[node_id - 1], self._disk(node_id))
            self.nodes[node_id] = node
            self._owners[node.port] = node.host
        NODE_EVENTS.install(id(self), timeline)
        self._thread = threading.Thread(target=self._serve, name="rookery-testing", daemon=True)
        self._thread.start()

    def _disk(self, node_id: int) -> HostDisk:
        if self._folder is not None:
            return HostDisk(FileDisk())
        memory = MemoryDisk(Random(f"disk {node_id}"), now_ms=lambda: time.time_ns() // 1_000_000)
        return HostDisk(memory, one_at_a_time=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes.values())

    @property
    def ids(self) -> list[int]:
        return list(self.nodes)

    @property
    def answering(self) -> str:
        """The addresses of the nodes that can be asked; of all if there is none."""
        return ",".join(f"{HOST}:{self.nodes[node_id].port}" for node_id in self.connected) or self.bootstrap

    @property
    def connected(self) -> list[int]:
        """The nodes that are neither down nor paused. If the network is cut, those of the side with most controllers:
        the other one does not know what happens."""
        awake = [node.id for node in self.nodes.values() if node.is_up and not node.is_paused]
        links = {link for link in combinations(awake, 2) if not self._cuts[link]}
        sides = [_reached(start, links) for start in awake]
        best = max(sides, key=lambda side: (sum(each <= self._controllers for each in side), len(side)), default=set())
        return sorted(best)

    def know(self, topic: str) -> bool:
        """Whether every node that can be asked knows a topic."""
        brokers = [node.broker for node_id in self.connected if (node := self.nodes[node_id].node) is not None]
        return all(broker is not None and broker.view.image.topic(topic) is not None for broker in brokers)

    def is_up(self, node_id: int) -> bool:
        return self.nodes[node_id].is_up

    def held_since(self, topic: str, partition: int, offset: int) -> dict[int, float]:
        """Which nodes hold a record, and since when as far as it is known. For the loop."""
        trails = self._trails.of(topic, partition, self.ids)
        found = ((node_id, trail.held_since(offset)) for node_id, trail in trails.items())
        return {node_id: at_s for node_id, at_s in found if at_s is not None}

    def committed_since(self, topic: str, partition: int, offset: int) -> float | None:
        """When the first node knew that a record is committed. For the loop."""
        trails = self._trails.of(topic, partition, self.ids).values()
        return min((at_s for trail in trails if (at_s := trail.committed_since(offset)) is not None), default=None)

    # --- the thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run `work` on the nodes' loop, outside of all processes."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run `work` on the nodes' loop and wait for it."""
        return self.submit(work).result(timeout_s)

    # --- life ------------------------------------------------------------------------------------------------

    def start(self, *node_ids: int) -> None:
        self.call(self._start_all(*node_ids))

    async def _start_all(self, *node_ids: int) -> None:
        """Start nodes, all or those named, and wait until they are ready."""
        wanted = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in wanted:
            if not node.is_up:
                self._start(node)
        async with asyncio.timeout(START_S):
            for node in wanted:
                await self._until_ready(node)
        NODE_EVENTS.cover()

    def _start(self, node: EmbeddedNode) -> None:
        node.process = process = Process(node.host)
        process.cluster = id(self)
        node.ready = asyncio.Event()
        node.failure = None
        node.life = node.disk.life()
        self.network.power_on(node.host)
        node.task = process.context.run(
            self.loop.create_task, self._main(node, process, node.life), name=f"node {node.id}"
        )

    async def _main(self, node: EmbeddedNode, process: Process, life: LifeDisk) -> None:
        try:
            node.node = built = await build_node(
                self._settings(node),
                clock=node.clock,
                disk=life,
                network=_NodeNetwork(node.host, self.network, self._owners),
                control=self.control,
                rng=Random(f"{self.rng.random()} node {node.id} {next(self._lives)}"),
            )
            if built.broker is not None:
                built.broker.client.pause_s = CONTROLLER_PAUSE_S
                self._trails.watch(node.id, built.broker.waiters)
                node.lost_answers.begin_life(built.broker.server.dispatch)
            await built.group.run(on_ready=node.ready.set)
            built.unlock()
        except Exception as error:
            node.failure = error
            self._timeline.add(node.host, f"ended by itself: {_words(error)}")
        finally:
            if process.alive and node.process is process:
                process.alive = False
                self.network.killed(process)
                self.control.killed(process)
                life.end()
                node.ready.set()

    async def _until_ready(self, node: EmbeddedNode) -> None:
        await node.ready.wait()
        if node.failure is not None:
            raise NodeFailedError(f"node {node.id} ended: {_words(node.failure)}") from node.failure

    def stop(self, *node_ids: int) -> None:
        self.call(self._stop_all(*node_ids))

    async def _stop_all(self, *node_ids: int) -> None:
        """Controlled shutdown of nodes, all or those named, the last first."""
        wanted = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in reversed(wanted):
            if node.is_paused:
                self._resume(node)
            if node.is_up and node.node is not None and node.process is not None and node.task is not None:
                self.loop.call_soon(node.node.request_stop, context=node.process.context)
                await asyncio.wait((node.task,), timeout=STOP_S)
                if not node.task.done():
                    self._kill(node)
            elif node.is_up:
                self._kill(node)
            if node.life is not None:
                node.life.end()

    def close(self) -> None:
        """End all nodes at once, and the thread."""
        if self._thread.is_alive():
            self.call(self._kill_all())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
        NODE_EVENTS.remove(id(self))
        for node in self.nodes.values():
            node.reserved.close()

    async def _kill_all(self) -> None:
        for node in self.nodes.values():
            if node.is_up:
                self._kill(node)
        for _ in range(3):  # callbacks that close sockets
            await asyncio.sleep(0)

    # --- faults ----------------------------------------------------------------------------------------------

    def kill(self, node_id: int) -> None:
        self._on_loop(self._kill, self.nodes[node_id])

    def _kill(self, node: EmbeddedNode) -> None:
        process = node.process
        if process is None or not process.alive:
            return
        self.loop.kill(process)
        self.network.killed(process)
        self.control.killed(process)
        if node.life is not None:
            node.life.end()
        node.node = None

    def pause(self, node_id: int) -> None:
        self._on_loop(self._pause, self.nodes[node_id])

    def _pause(self, node: EmbeddedNode) -> None:
        if node.process is not None and node.process.alive:
            self.loop.pause(node.process)
            self.control.review_all()

    def resume(self, node_id: int) -> None:
        self._on_loop(self._resume, self.nodes[node_id])

    def _resume(self, node: EmbeddedNode) -> None:
        if node.process is not None and node.process.paused:
            self.loop.resume(node.process)
            self.control.review_all()

    def lose_power(self, node_id: int) -> None:
        """The machine goes dark: what was not synced may be gone, and its peers get no notice."""
        node = self.nodes[node_id]
        below = node.disk.below
        if not isinstance(below, MemoryDisk):
            raise UnsupportedFault("files of this machine keep what was written: use data in memory (data=None)")
        self._on_loop(self.network.power_off, node.host)
        self._on_loop(self._kill, node)
        below.power_cut()

    def cut(self, one: int, other: int) -> None:
        """Nothing passes between two nodes, until it was mended as often as it was cut."""
        self._cuts[min(one, other), max(one, other)] += 1
        self._on_loop(self.network.cut, self.nodes[one].host, self.nodes[other].host)
        self._on_loop(self.network.cut, self.nodes[other].host, self.nodes[one].host)

    def mend(self, one: int, other: int) -> None:
        link = (min(one, other), max(one, other))
        self._cuts[link] -= 1
        if not self._cuts[link]:
            self._on_loop(self.network.mend, self.nodes[one].host, self.nodes[other].host)
            self._delay(one)
            self._delay(other)

    def slow(self, node_id: int, delay_s: float) -> None:
        """In sum with what other calls asked for; a negative one takes it back."""
        self._delays[node_id] += delay_s
        self._delay(node_id)

    def _delay(self, node_id: int) -> None:
        here = self.nodes[node_id].host
        for other in self.nodes.values():
            if other.host != here:
                delay_s = max(0.0, self._delays[node_id] + self._delays[other.id])
                self._on_loop(self.network.slow, here, other.host, delay_s)
                self._on_loop(self.network.slow, other.host, here, delay_s)

    def set_full(self, node_id: int, full: bool) -> None:
        """With room again, a node that it cost its log dir, or its life, is started anew: as an operator would."""
        node = self.nodes[node_id]
        node.disk.is_full = full
        if not full and (node.failure is not None or node.lost_its_disk):
            self.kill(node_id)
            self.start(node_id)

    def shift_clock(self, node_id: int, by_ms: int) -> None:
        """In sum with what other calls asked for."""
        self.nodes[node_id].clock.ahead_ms += by_ms

    def contents(self, node_id: int, path: str) -> bytes:
        below = self.nodes[node_id].disk.below
        return below.contents(path) if isinstance(below, MemoryDisk) else Path(path).read_bytes()

    def flip(self, node_id: int, path: str, place: int) -> None:
        """Change one bit of a file behind the node's back."""
        below = self.nodes[node_id].disk.below
        if isinstance(below, MemoryDisk):
            self._on_loop(below.flip, path, place)
        else:
            flip_in_file(path, place)

    def replica_files(self, node_id: int, folder: str) -> list[str]:
        """The segments of one replica, oldest first."""
        below, place = self.nodes[node_id].disk.below, f"{self._folder_of(node_id)}/{folder}"
        return [f"{place}/{name}" for name in sorted(below.list(place)) if name.endswith(".log")]

    def lose_answers(self, node_id: int, api: str, take: Callable[[], bool]) -> Callable[[], None]:
        """Close the connection instead of answering requests of one kind, as long as `take` says so, also after a
        restart. Returns how to undo it."""

        async def work() -> Callable[[], None]:
            return self.nodes[node_id].lost_answers.add(api, take)

        undo = self.call(work())
        return lambda: self._on_loop(undo)

    def _on_loop(self, act: Callable[..., Any], *args: Any) -> None:
        async def work() -> None:
            act(*args)

        self.call(work())

    def _folder_of(self, node_id: int) -> str:
        return str(self._folder / f"node-{node_id}") if self._folder is not None else "/data"

    # --- settings --------------------------------------------------------------------------------------------

    def _settings(self, node: EmbeddedNode) -> Settings:
        is_controller = node.id <= self._controllers
        voters = [self.nodes[node_id] for node_id in range(1, self._controllers + 1)]
        listeners = [f"PLAINTEXT://{HOST}:{node.port}"]
        if is_controller:
            listeners.append(f"CONTROLLER://{node.host}:{CONTROL_PORT}")
        many = len(self.nodes)
        folder = self._folder_of(node.id)
        if self._folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        values = {
            "node.id": str(node.id),
            "process.roles": "broker,controller" if is_controller else "broker",
            "rookery.cluster.id": self._cluster_id,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{v.id}@{v.host}:{CONTROL_PORT}" for v in voters),
            "controller.quorum.bootstrap.servers": ",".join(f"{v.host}:{CONTROL_PORT}" for v in voters),
            "rookery.http.listener": "",
            "rookery.allow.plaintext.controller": "true",  # it does not leave this process
            "log.dirs": folder,
            **defaults(many),
            **self._config,
        }
        return load([("testing", values)]).settings


def _reached(start: int, links: set[tuple[int, int]]) -> set[int]:
    """All nodes between which there is a way of links."""
    found: set[int] = set()
    grown = {start}
    while grown != found:
        found = set(grown)
        grown = found.union(*(link for link in links if not found.isdisjoint(link)))
    return found


def defaults(nodes: int) -> dict[str, str]:
    """What a cluster for tests sets besides Kafka's defaults: everything is small and quick."""
    return {
        "default.replication.factor": str(min(3, nodes)),
        "offsets.topic.replication.factor": str(min(3, nodes)),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(min(3, nodes)),
        "transaction.state.log.min.isr": "2" if nodes >= 3 else "1",
        "transaction.state.log.num.partitions": "4",
        "min.insync.replicas": "2" if nodes >= 3 else "1",
        "group.initial.rebalance.delay.ms": "0",
        "broker.heartbeat.interval.ms": "200",  # a controlled shutdown waits for a heartbeat of every other broker
    }


def _words(failure: Exception) -> str:
    return "; ".join(str(cause) or type(cause).__name__ for cause in causes(failure))


def _reserved_ports(count: int, first: int) -> list[socket.socket]:
    """Ports of this machine that stay ours while the sockets are open, whether or not a node listens on them."""
    reserved: list[socket.socket] = []
    try:
        for number in range(count):
            reserved.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            reserved[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved[-1].bind((HOST, first + number if first else 0))
    except (OSError, OverflowError) as error:
        for each in reserved:
            each.close()
        raise ValueError(f"port {first + len(reserved) - 1} of {HOST} cannot be had: {error}") from error
    return reserved
