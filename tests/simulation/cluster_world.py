"""A whole cluster in virtual time, from one seed: real brokers and controllers, simulated machines between them."""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID

from rookery.broker.log.log_dir import LogDir
from rookery.broker.log.partition_log import PartitionLog
from rookery.broker.node.broker_role import BrokerRole
from rookery.broker.replication.partition import Partition
from rookery.controller.settings import ControllerSettings
from rookery.controller.state.defaults import Defaults
from rookery.core.config.options import Settings
from rookery.core.errors import KafkaError
from rookery.core.metadata import image as im
from rookery.core.metadata import requests as q
from rookery.core.metadata_log import CommittedBatch
from rookery.core.types import TopicPartition
from tests.simulation.cluster_broker import SimBroker, SimClock, SimMetadataFollower, broker_settings
from tests.simulation.cluster_loop import Killed, Process, SimLoop, current
from tests.simulation.cluster_net import SimNetwork
from tests.simulation.cluster_oracles import Oracles, Violation
from tests.simulation.cluster_quorum import Controller, Quorum, QuorumTimes, Rpc, Seat
from tests.simulation.cluster_swarm import Swarm, TopicPlan
from tests.simulation.cluster_workload import Consumer, Deleter, Producer
from tests.simulation.controller_rules import Observer

CONTROLLERS = (1, 2, 3)


class OrderedSet(dict[Any, None]):
    """A set that is the same in every process: the order of real sets of strings and objects is not."""

    def add(self, item: object) -> None:
        self[item] = None

    def discard(self, item: object) -> None:
        self.pop(item, None)

    def pop(self, *item: Any) -> Any:
        return super().pop(*item) if item else self.popitem()[0]


class World:
    """Everything there is in one simulation."""

    cluster_id = "simulated-cluster-0001"

    def __init__(self, seed: int, swarm: Swarm) -> None:
        self.seed = seed
        self.swarm = swarm
        self.rng = Random(f"{seed} world")
        self._ids = count(1)
        self._hash = hashlib.sha256()
        self.tell: Callable[[str], None] | None = None
        draw = Random(f"{seed} threads")
        self.loop = SimLoop(lambda: draw.expovariate(1.0) * swarm.thread_s)  # type: ignore[abstract]
        self.network = SimNetwork(self.loop, Random(f"{seed} network"), swarm.delay_s)
        self.clock = SimClock(self.loop)
        self.observer = Observer(Defaults(min_insync_replicas=1))
        self.quorum = Quorum(
            self.loop,
            self.network,
            Random(f"{seed} quorum"),
            QuorumTimes(swarm.commit_s, swarm.election_s, swarm.zombie_s),
            self._committed,
            lambda: self.observer.image,
            self.clock.wall_ms,
            swarm.snapshots,
        )
        self.rpc = Rpc(self.loop, self.network, self.quorum)
        self.rpc.buggify = self._lose_reply
        self.oracles = Oracles(self)
        self.places = [TopicPartition(t.name, index) for t in swarm.topics for index in range(t.partitions)]
        self._plans = {t.name: t for t in swarm.topics}
        self.brokers = {n: SimBroker(self, n) for n in range(1, swarm.brokers + 1)}
        self.producers: list[Producer] = []
        self.quiet = False
        self.calm = False
        """No more faults at named points."""
        self.deleted_to: dict[TopicPartition, int] = {}
        self.over = False
        self.exits: list[tuple[int, BaseException]] = []
        self._lossy: dict[TopicPartition, None] = {}
        self._points = Random(f"{seed} points")
        self._by_log: dict[int, tuple[SimBroker, Partition]] = {}

    # --- what others ask -------------------------------------------------------------------------------------

    def trace(self, *what: object) -> None:
        line = f"{self.loop.time():.6f} {' '.join(map(str, what))}"
        self._hash.update(line.encode() + b"\n")
        if self.tell is not None:
            self.tell(line)

    @property
    def trace_hash(self) -> str:
        return self._hash.hexdigest()[:16]

    def new_id(self) -> UUID:
        return UUID(int=(0x5EED << 100) + next(self._ids))

    def plan(self, place: TopicPartition) -> TopicPlan:
        return self._plans[place.topic]

    def lossy(self, place: TopicPartition) -> bool:
        """Whether acknowledged records of a partition may be lost by what was configured."""
        return self._plans[place.topic].unclean

    def places_of(self, node: int) -> list[TopicPartition]:
        found = ((place, self.image_partition(place)) for place in self.places)
        return [place for place, partition in found if partition is not None and node in partition.replicas]

    def image_partition(self, place: TopicPartition) -> im.Partition | None:
        topic = self.observer.image.topic(place.topic)
        return topic.partitions.get(place.partition) if topic is not None else None

    def partition_of(self, log: PartitionLog) -> tuple[SimBroker | None, Partition | None]:
        """The broker and the partition that a log belongs to."""
        for broker in self.brokers.values():
            role = broker.role
            found = role.partitions.named(*log.partition) if role is not None else None
            if found is not None and found.log is log:
                return broker, found
        return None, None

    def broker_of(self, process: Process) -> SimBroker | None:
        return next((b for b in self.brokers.values() if b.process is process), None)

    def node_settings(self, node_id: int) -> Settings:
        return broker_settings(self, node_id)

    def exited(self, broker: SimBroker, error: BaseException) -> None:
        if self.over:
            return
        self.exits.append((broker.id, error))
        self.trace("failed", broker.id, type(error).__name__)

    # --- controllers -----------------------------------------------------------------------------------------

    def start_controllers(self) -> None:
        for node in CONTROLLERS:
            self.quorum.seats[node] = Seat(self.quorum, node)
        for node in CONTROLLERS:
            self.start_controller(node)
        self.quorum.elect()
        self.quorum.watch()

    def start_controller(self, node: int) -> None:
        if node in self.quorum.controllers:
            return
        settings = ControllerSettings(
            node,
            self.cluster_id,
            Defaults(min_insync_replicas=1),
            session_s=self.swarm.session_ms / 1000,
            reconnect_grace_s=self.swarm.grace_ms / 1000,
            rebalance_check_s=10.0,
            snapshot_bytes=1 << 30,
            snapshot_interval_s=0.0,
        )
        self.quorum.controllers[node] = Controller(self.quorum, node, settings, self.clock)

    def kill_controller(self, node: int) -> None:
        if node in self.quorum.controllers:
            self.trace("kill controller", node)
            process = self.quorum.controllers[node].process
            self.quorum.killed(node)
            self.rpc.killed(process)

    def _committed(self, batch: CommittedBatch) -> None:
        """The metadata log grew: the observer sees it first."""
        self.observer.committed(batch)
        self.trace("commit", batch.base_offset, len(batch.values))
        for place in self.places:
            partition = self.image_partition(place)
            if partition is None:
                continue
            for node in partition.isr:
                known = self.observer.image.brokers.get(node)
                self.brokers[node].caught_up(place, known.epoch if known is not None else -1)
            self.oracles.check_copies(place)

    def create_topics(self) -> bool:
        """Ask the active controller for the topics; False if there is none."""
        controller = self.quorum.controllers.get(self.quorum.leader)
        if controller is None or not controller.loop.controller.active:
            return False
        topics = tuple(
            q.NewTopic(
                plan.name,
                plan.partitions,
                plan.replication_factor,
                configs=tuple(q.ConfigEntry(key, value) for key, value in plan.configs.items()),
            )
            for plan in self.swarm.topics
        )
        self.controller_ask(q.CreateTopicsRequest(topics))
        return True

    def controller_ask(self, request: Any) -> None:
        controller = self.quorum.controllers.get(self.quorum.leader)
        if controller is None:
            return

        async def ask() -> None:
            try:
                await controller.loop.ask(request)
            except KafkaError:
                return

        controller.process.context.run(self.loop.create_task, ask())

    # --- clients ---------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        number = 0
        for place in self.places:
            for _ in range(self.swarm.producers):
                acks = 1 if self.rng.random() < 0.2 else -1
                self.producers.append(Producer(self, number, place, acks=acks))
                number += 1
        for reader in range(2):
            Consumer(self, reader)
        self.deleter = Deleter(self)

    # --- faults at named points ------------------------------------------------------------------------------

    def may_kill(self, broker: SimBroker) -> bool:
        """Killing a broker while another has lost unsynced data may be more than was promised."""
        return all(self.tolerates(place, broker, cut=False) for place in self.places_of(broker.id))

    def tolerates(self, place: TopicPartition, broker: SimBroker, *, cut: bool) -> bool:
        """Whether one more replica may stop uncleanly: with a power cut among them, fewer than min.insync."""
        plan, partition = self.plan(place), self.image_partition(place)
        if plan.unclean or plan.sync or partition is None:
            return True
        unclean = {n for n in partition.replicas if place in self.brokers[n].unclean_for} | {broker.id}
        lost = cut or any(place in self.brokers[n].lost_for for n in partition.replicas)
        return not lost or len(unclean) < min(plan.min_insync, plan.replication_factor)

    def at(self, point: str) -> None:
        """A process passes a named point; perhaps it dies there."""
        if self.calm or self._points.random() >= self.swarm.points.get(point, 0.0):
            return
        broker = self.broker_of(current())
        if broker is not None and self.may_kill(broker):
            self.trace("at", point)
            broker.kill()
            raise Killed

    def _lose_reply(self, point: str, process: Process) -> bool:
        if self.calm or self._points.random() >= self.swarm.points.get(point, 0.0):
            return False
        self.trace("lost", point)
        return True

    # --- the real code, put into this world ------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While this holds, the product's code meets the simulation where it would meet the machine."""
        with ExitStack() as stack:
            for target, value in (
                ("rookery.broker.node.broker_role.MetadataFollower", SimMetadataFollower.maker(self)),
                ("rookery.broker.node.broker_role.new_id", self.new_id),
                ("rookery.controller.app.new_id", self.new_id),
                ("rookery.controller.loop.new_id", self.new_id),
                ("rookery.broker.server.server.perf_counter", self.loop.time),
            ):
                stack.enter_context(patch(target, value))
            for module in ("rookery.broker.log.log_dir", "rookery.broker.log.log_dirs"):
                stack.enter_context(patch(f"{module}.set", OrderedSet, create=True))
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
            owner: type, name: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
        ) -> None:
            inner = getattr(owner, name)

            @wraps(inner)
            def hooked(*args: Any, **more: Any) -> Any:
                try:
                    if before is not None:
                        before(*args)
                    result = inner(*args, **more)
                    if after is not None:
                        after(*args)
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
        around(Partition, "append_as_leader", after=lambda *_: self.at("leader append"))
        around(Partition, "apply_fetched", after=self._fetched)
        around(Partition, "_begin_to_lead", after=lambda *_: self.at("elected"))
        around(LogDir, "mark_clean", before=lambda *_: self.at("clean marker"), after=self._marked)
        around(BrokerRole, "_follower_failed", before=self._follower_failed)
        self._small_segments(stack)

    def _fetched(self, partition: Partition, records: Any, *_: Any) -> None:
        if len(records):
            self.at("follower append")

    def _marked(self, log_dir: LogDir, epoch: int) -> None:
        broker = self.broker_of(current())
        if broker is not None:
            self.observer.clean_stops[broker.id] = epoch

    def _follower_failed(self, role: BrokerRole, partition: Any, error: Exception) -> None:
        broker = self.broker_of(current())
        if broker is not None:
            self.oracles.stopped(broker, partition, error)

    def _small_segments(self, stack: ExitStack) -> None:
        """Segments smaller than the options allow."""
        inner = BrokerRole._options_of

        def options_of(role: BrokerRole, topic: str) -> Any:
            settings, config = inner(role, topic)
            plan = self._plans.get(topic)
            if plan is not None:
                config = replace(config, log=replace(config.log, segment_bytes=plan.segment_bytes))
            return settings, config

        stack.enter_context(patch.object(BrokerRole, "_options_of", options_of))
