"""Whole nodes in virtual time, from one seed: everything a node is runs as it is, on simulated machines."""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial, wraps
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

from rookery.broker.log.background import Throttle
from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.log_dirs import LogDirs
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.metadata.follower import MetadataFollowerSettings
from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.replication.partition import Partition
from rookery.controller.raft.errors import MetadataDamagedError
from rookery.controller.raft.node import RaftNode
from rookery.controller.state.defaults import Defaults
from rookery.core.metadata import image as im
from rookery.core.metadata_log import CommittedBatch, SnapshotId
from rookery.core.testing import disk
from rookery.core.testing.control import NO_PROCESS, SimControl
from rookery.core.testing.hosts import SimNetwork
from tests.simulation import nodes_expiry
from tests.simulation.controller_rules import Observer, Violation, require
from tests.simulation.loop import PROCESS, Killed, Process, SimLoop, current
from tests.simulation.nodes_consumer_load import ConsumerLoad
from tests.simulation.nodes_disks import DiskFaults, excused
from tests.simulation.nodes_host import Place, SimNode
from tests.simulation.nodes_operator import Operator
from tests.simulation.nodes_oracles import Oracles
from tests.simulation.nodes_own_load import OwnLoad
from tests.simulation.nodes_swarm import Swarm, TopicPlan
from tests.simulation.nodes_transaction_oracles import TransactionOracles

QUIET_S = 3600.0


class OrderedSet(dict[Any, None]):
    """A set that is the same in every process: the order of real sets of strings and objects is not."""

    def add(self, item: object) -> None:
        self[item] = None

    def discard(self, item: object) -> None:
        self.pop(item, None)

    def pop(self, *item: Any) -> Any:
        return super().pop(*item) if item else self.popitem()[0]


class Witness:
    """Hears what one node's Raft calls committed, before the node's own controller does."""

    def __init__(self, world: World, node_id: int) -> None:
        self._world = world
        self._node_id = node_id

    def on_commit(self, batch: CommittedBatch) -> None:
        self._world.committed(batch)

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        known = self._world.image.offset
        require(snapshot.end_offset - 1 <= known, "R3", "a snapshot of what nobody committed", snapshot)

    def on_leader(self, leader_id: int, epoch: int) -> None:
        if leader_id == self._node_id:
            self._world.oracles.leads(leader_id, epoch)


def _refuses(error: BaseException) -> bool:
    """Whether a node ends because its metadata is damaged."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_refuses, error.exceptions))
    return isinstance(error, MetadataDamagedError)


class World:
    """Everything there is in one simulation."""

    cluster_id = "simulated-cluster-0002"

    def __init__(self, seed: int, swarm: Swarm) -> None:
        self.seed = seed
        self.swarm = swarm
        self.rng = Random(f"{seed} world")
        self._ids = count(1)
        self._hash = hashlib.sha256()
        self.tell: Callable[[str], None] | None = None
        draw = Random(f"{seed} threads")
        self.loop = SimLoop(  # type: ignore[abstract]
            lambda: draw.expovariate(1.0) * swarm.thread_s, swarm.pauses, Random(f"{seed} pauses")
        )
        self.network = SimNetwork(self.loop, Random(f"{seed} network"), swarm.delay_s)
        self.control = SimControl(self.loop, self.network, Random(f"{seed} control"))
        self.control.loses_reply = self._loses_reply
        self.observer = Observer(Defaults(min_insync_replicas=1))
        self.oracles = Oracles(self)
        self.transactions = TransactionOracles(self)
        self.group = ConsumerLoad(self, swarm.consumers) if swarm.consumers is not None else None
        self.own = OwnLoad(self, swarm.own) if swarm.own is not None else None
        self.disks = DiskFaults(self, Random(f"{seed} disks"))
        self.brokers = list(swarm.brokers)
        everybody = sorted({*swarm.voters, *swarm.brokers})
        self.nodes = {n: SimNode(self, n) for n in everybody}
        self.plans: dict[str, TopicPlan] = {}
        self.victim: int | None = None
        self.operator: Operator | None = None
        self.quiet = False
        """Clients stop after what they have begun."""
        self.calm = False
        """No more faults at named points."""
        self.calm_since = float("inf")
        """When the last fault ended, and nothing is down any more."""
        self.teasing = False
        """Members of groups leave without a word between join and sync."""
        self.over = False
        self.closing = False
        self.exits: list[tuple[int, BaseException]] = []
        self.open_files: dict[Process | None, dict[Any, str]] = {}
        self._points = Random(f"{seed} points")
        self._places: tuple[im.Image, list[Place]] = (self.image, [])

    # --- what others ask -------------------------------------------------------------------------------------

    def trace(self, *what: object) -> None:
        line = f"{self.loop.time():.6f} {' '.join(map(str, what))}"
        self._hash.update(line.encode() + b"\n")
        if self.tell is not None:
            self.tell(line)

    @property
    def trace_hash(self) -> str:
        return self._hash.hexdigest()[:16]

    @property
    def image(self) -> im.Image:
        return self.observer.image

    def new_id(self) -> UUID:
        return UUID(int=(0x5EED << 100) + next(self._ids))

    def places(self) -> list[Place]:
        """Every partition that the cluster has decided on."""
        image, found = self._places
        if image.topics is not self.image.topics:
            found = [Place(topic.name, topic.id, index) for topic, index, _ in self.image.partitions()]
            found.sort(key=lambda place: (place.topic, place.index))
            self._places = (self.image, found)
        return found

    def partition(self, place: Place) -> im.Partition | None:
        return self.image.partition(place.id, place.index)

    def places_of(self, node: int) -> list[Place]:
        found = ((place, self.partition(place)) for place in self.places())
        return [place for place, partition in found if partition is not None and node in partition.replicas]

    def node_of(self, process: Process) -> SimNode | None:
        return next((node for node in self.nodes.values() if node.process is process), None)

    def here(self) -> SimNode | None:
        """The node whose code runs now."""
        return self.node_of(current())

    def place_of(self, log: PartitionLog) -> Place | None:
        """The partition that a log of the running node belongs to."""
        node = self.here()
        role = node.role if node is not None else None
        if role is None or role.log_dirs.partitions.get(log.partition) is not log:
            return None
        topic_id = role.log_dirs.topic_ids.get(log.partition)
        return Place(log.partition.topic, topic_id, log.partition.partition) if topic_id is not None else None

    def votes_change(self) -> bool:
        """Whether a voter more or less is on its way: then each of the others is needed."""
        return self.operator is not None and self.operator.busy

    def exited(self, node: SimNode, error: BaseException) -> None:
        if self.over:
            return
        self.trace("failed", node.id, type(error).__name__)
        if node.metadata_damage is not None and _refuses(error):
            node.metadata_damage, node.away = None, True  # until somebody has rebuilt it
            self.oracles.count("refused damaged metadata")
        elif node.disk.hits and excused(error):
            self.oracles.count("ended by its disk")
        else:
            self.exits.append((node.id, error))

    def add_node(self) -> SimNode:
        """A new broker joins."""
        number = max(self.nodes) + 1
        self.brokers.append(number)
        self.nodes[number] = node = SimNode(self, number)
        node.start()
        return node

    # --- the metadata log ------------------------------------------------------------------------------------

    def committed(self, batch: CommittedBatch) -> None:
        """A node calls a batch committed: the first time it is news, later it must be the same."""
        if not self.oracles.is_news(batch):
            return
        before = self.image
        self.observer.committed(batch)
        self.trace("commit", batch.base_offset, len(batch.values))
        if self.image.topics is not before.topics or self.image.configs is not before.configs:
            self.oracles.topics_changed(before)
            for place in self.places():
                partition = self.partition(place)
                for number in partition.isr if partition is not None else ():
                    known = self.image.brokers.get(number)
                    self.nodes[number].caught_up(place, known.epoch if known is not None else -1)
                self.oracles.check_copies(place)

    # --- faults at named points ------------------------------------------------------------------------------

    def may_fail(self, node: SimNode) -> bool:
        """In a siege faults hit nobody else."""
        return self.victim is None or node.id == self.victim

    def may_kill(self, node: SimNode) -> bool:
        """Killing a broker while another has lost unsynced data may be more than was promised."""
        return all(self.tolerates(place, node, cut=False) for place in self.places_of(node.id))

    def tolerates(self, place: Place, node: SimNode, *, cut: bool) -> bool:
        """Whether one more replica may stop uncleanly: with a power cut among them, fewer than min.insync."""
        partition, history = self.partition(place), self.oracles.history(place)
        rotten = self.disks.rotten(place)
        if history.unclean or (history.sync and not rotten) or partition is None:
            return True
        doubtful = {n for n in partition.replicas if self.nodes[n].disk.endangered} | rotten
        unclean = {n for n in partition.replicas if place in self.nodes[n].unclean_for} | {node.id} | doubtful
        lost = cut or doubtful or any(place in self.nodes[n].lost_for for n in partition.replicas)
        return not lost or len(unclean) < min(history.min_insync, len(partition.replicas))

    def tolerates_loss(self, place: Place, node: SimNode) -> bool:
        """Whether a replica may be lost with everything in it: another in sync has what is committed."""
        partition = self.partition(place)
        others = partition is None or set(partition.isr) - {node.id} - self.disks.rotten(place)
        return self.tolerates(place, node, cut=True) and (bool(others) or self.oracles.history(place).unclean)

    def at(self, point: str) -> None:
        """A process passes a named point; perhaps it dies there."""
        if self.calm or self._points.random() >= self.swarm.points.get(point, 0.0):
            return
        node = self.here()
        if node is not None and self.may_fail(node) and self.may_kill(node):
            self.trace("at", point)
            node.kill()
            raise Killed

    def strike(self, number: int, when: str) -> bool:
        """Kill a node between two steps of somebody else, if it may be."""
        node = self.nodes.get(number)
        if node is None or not node.up or self.calm or not self.may_fail(node) or not self.may_kill(node):
            return False
        self.trace("strikes", number, when)
        self.oracles.count("killed between steps")
        self.loop.call_soon(node.kill, context=NO_PROCESS)
        return True

    def _loses_reply(self, path: str) -> bool:
        point = "/" + path.rpartition("/")[2]
        if self.calm or point not in self.swarm.points or self._points.random() >= self.swarm.points[point]:
            return False
        self.trace("lost", point)
        return True

    # --- the real code, put into this world ------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While this holds, the product's code meets the simulation where it would meet the machine."""
        wait_ms = self.swarm.raft_ms // 2
        with ExitStack() as stack:
            for target, value in (
                ("rookery.core.ids.uuid4", self.new_id),
                ("rookery.broker.server.server.perf_counter", self.loop.time),
                ("rookery.broker.log.background.ThreadPoolExecutor", self.loop.threads.executor),
                ("rookery.broker.node.broker_role.ThreadPoolExecutor", self.loop.threads.executor),
                ("rookery.controller.raft.driver.ThreadPoolExecutor", self.loop.threads.executor),
                ("rookery.broker.node.node_metrics.spaces", lambda folders: {}),
                ("rookery.broker.node.node_metrics.LAG_INTERVAL_S", QUIET_S),
                ("rookery.controller.raft.settings.FETCH_WAIT_MS_MAX", wait_ms),
                ("rookery.client.cli.quorum.open_channel", self.control.open_channel),
                (
                    "rookery.broker.node.broker_role.MetadataFollowerSettings",
                    partial(MetadataFollowerSettings, max_wait_ms=wait_ms),
                ),
            ):
                stack.enter_context(patch(target, value))
            for module in ("log.log_dir", "log.log_dirs", "log.housekeeper"):
                stack.enter_context(patch(f"rookery.broker.{module}.set", OrderedSet, create=True))
            if self.swarm.days:
                stack.enter_context(patch("rookery.controller.loop.TICK_S", 0.5))
            stack.enter_context(patch.object(Throttle, "breathe", lambda throttle: None))
            if self.swarm.expiry is not None:
                stack.enter_context(nodes_expiry.installed(self.swarm.expiry))
            if self.swarm.transactions is not None:
                stack.enter_context(self.transactions.installed())
            if self.own is not None:
                stack.enter_context(self.own.installed())
            self._hook(stack)
            stack.enter_context(patch.object(sys, "unraisablehook", lambda _: None))
            gc.disable()
            stack.callback(gc.enable)
            stack.callback(self._end)
            yield

    def _end(self) -> None:
        self.over = True
        self.loop.abandon()

    def _hook(self, stack: ExitStack) -> None:
        """Oracles look at what passes, and named points are where processes die."""

        def around(
            owner: type, name: str, before: Callable[..., Any] | None = None, after: Callable[..., None] | None = None
        ) -> None:
            inner = getattr(owner, name)

            @wraps(inner)
            def hooked(*args: Any, **more: Any) -> Any:
                try:
                    noted = before(*args) if before is not None else None
                    result = inner(*args, **more)
                    if after is not None:
                        after(noted, *args)
                except Violation as violation:  # a supervisor of the product may catch it
                    self.loop.failures.append(("oracle", violation))
                    raise
                return result

            stack.enter_context(patch.object(owner, name, hooked))

        oracles = self.oracles
        around(PartitionLog, "advance_high_watermark", before=oracles.watermark_moved)
        around(PartitionLog, "truncate_to", before=lambda log, offset, *_: oracles.truncates(log, offset))
        around(PartitionLog, "truncate_fully_and_start_at", before=oracles.begins_anew)
        around(PartitionLog, "truncate_to", after=lambda *_: self.at("truncated"))
        around(PartitionLog, "delete_old_segments", oracles.before_retention, oracles.after_retention)
        around(PartitionLog, "delete_records", after=oracles.records_deleted)
        around(PartitionLog, "follow_log_start", after=oracles.log_start_followed)
        around(Partition, "append_as_leader", after=self._appended)
        around(Partition, "apply_fetched", before=lambda partition, *_: oracles.applies(partition), after=self._fetched)
        around(Partition, "_begin_to_lead", before=oracles.begins_to_lead, after=lambda *_: self.at("elected"))
        around(LogDirs, "_add", after=self._log_opened)
        around(LogDir, "mark_clean", before=lambda *_: self.at("clean marker"), after=self._marked)
        around(BrokerRole, "_follower_failed", before=self._follower_failed)
        around(RaftNode, "__init__", after=self._witness)
        around(disk._MemoryFile, "__init__", after=self._file_opened)
        around(disk._MemoryFile, "close", after=self._file_closed)
        if self.swarm.transactions is not None:
            self.transactions.hook(around)
        if self.group is not None:
            self.group.hook(around)
        self._small_segments(stack)

    def _witness(self, _: None, raft: RaftNode, *args: Any) -> None:
        raft.subscribe(Witness(self, raft.settings.node_id))

    def _log_opened(self, _: None, dirs: LogDirs, log_dir: LogDir, opened: PartitionLog, *rest: Any) -> None:
        """Remembered at once: its dir may go offline before anybody looks, with all that was written."""
        place = self.place_of(opened)
        node = self.here()
        if place is not None and node is not None:
            node.log(place)

    def _file_opened(self, _: None, file: Any, disk: Any, path: str, *rest: Any) -> None:
        self.open_files.setdefault(PROCESS.get(), {})[file] = path

    def _file_closed(self, _: None, file: Any) -> None:
        for held in self.open_files.values():
            held.pop(file, None)

    def _appended(self, _: None, partition: Partition, batch: Any, *rest: Any) -> None:
        self.oracles.landed(partition, batch)
        self.at("leader append")

    def _fetched(self, _: None, partition: Partition, records: Any, *rest: Any) -> None:
        if len(records):
            self.at("follower append")

    def _marked(self, _: None, log_dir: LogDir, epoch: int) -> None:
        node = self.here()
        if node is not None:
            self.observer.clean_stops[node.id] = epoch

    def _follower_failed(self, role: BrokerRole, partition: Any, error: Exception) -> None:
        node = self.here()
        if node is not None:
            self.oracles.stopped(node, partition, error)

    def _small_segments(self, stack: ExitStack) -> None:
        """Segments smaller than the options allow."""
        inner = BrokerRole._options_of

        def options_of(role: BrokerRole, topic: str) -> Any:
            settings, config = inner(role, topic)
            plan = self.plans.get(topic)
            size = plan.segment_bytes if plan is not None else 3000
            return settings, replace(config, log=replace(config.log, segment_bytes=size))

        stack.enter_context(patch.object(BrokerRole, "_options_of", options_of))
