"""Controllers and brokers in virtual time, from one seed: everybody comes, goes, lags and lies."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

from rookery.controller.controller import Controller
from rookery.controller.settings import ControllerSettings
from rookery.controller.state.defaults import Defaults
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.metadata import requests as q
from rookery.core.metadata.image import Changes, ResourceType
from rookery.core.testing.clock import ManualClock
from tests.simulation.controller_broker import Broker
from tests.simulation.controller_log import NO_PROCESS, Seat, SharedLog
from tests.simulation.controller_rules import Observer, require

SETTLED_S = 6.0
"""A fence that was decided while a broker was away may be committed this much later."""
Answered = Callable[[Any], None]


class World:
    """`run` lets random things happen and checks the invariants after each; `heal` ends all faults and checks
    that the cluster comes to rest."""

    cluster_id = "simulated"

    def __init__(self, seed: int, *, controllers: int = 3, brokers: int = 5) -> None:
        self.rng = Random(seed)
        self.clock = ManualClock()
        self.log = SharedLog(self.rng, self.clock.wall_ms)
        self.defaults = Defaults(replication_factor=3, partitions=2, min_insync_replicas=self.rng.randint(1, 2))
        self.observer = Observer(self.defaults)
        self.session_s = 9.0
        self.grace_s = self.rng.choice((0.0, 0.5))
        self.seats = {node: Seat(self.log, node) for node in range(1, controllers + 1)}
        self.controllers: dict[int, Controller] = {}
        self.brokers = {n: Broker(n, self, self.rng) for n in range(1, brokers + 1)}
        self._ids = count(1)
        self._names = count(1)
        self._blocks: set[int] = set()
        self._numbers = count(1)
        self._open: dict[int, dict[int, Answered]] = {node: {} for node in self.seats}
        self.counts: Counter[str] = Counter()
        for node in self.seats:
            self.start_controller(node)
        self.elect()

    # -- controllers

    def start_controller(self, node: int) -> None:
        """A controller starts with nothing but the log (and perhaps a snapshot)."""
        settings = ControllerSettings(
            node,
            self.cluster_id,
            self.defaults,
            session_s=self.session_s,
            reconnect_grace_s=self.grace_s,
            rebalance_check_s=20.0,
            snapshot_bytes=2000,
        )
        seat = self.seats[node]
        controller = Controller(
            settings,
            seat,
            self.clock,
            new_id=lambda: UUID(int=next(self._ids) + (1 << 40)),
            publish=self._published,
        )
        seat.listener, seat.delivered, seat.told = controller, 0, (NO_PROCESS, 0)
        self.controllers[node] = controller

    def stop_controller(self, node: int) -> None:
        self.seats[node].listener = None
        self.controllers.pop(node, None)
        for answer in list(self._open[node].values()):  # the callers' connections break
            answer(ConnectionResetError())
        if self.log.leader == node:
            self.log.leader = NO_PROCESS

    def active(self) -> Controller | None:
        """The controller that leads the newest epoch, if it is up."""
        return self.controllers.get(self.log.leader)

    def elect(self) -> None:
        up = sorted(self.controllers)
        if len(up) * 2 <= len(self.seats):
            return
        self.log.replace_leader(self.seats[self.rng.choice(up)])
        self.counts["activations"] += 1
        for broker in self.brokers.values():
            broker.connected_to = None

    def _published(self, changes: Changes) -> None:
        while self._observed < self.log.committed:
            self.observer.committed(self.log.batches[self._observed])
            self._observed += 1
        self.observer.check_view(changes.after)

    _observed = 0

    # -- requests

    def ask(self, broker: Broker | None, request: Any, answered: Answered) -> None:
        """Ask whoever the caller believes to be active; the answer may come much later, or be a refusal."""
        node = self.log.leader
        if self.rng.random() < 0.05 and self.controllers:
            node = self.rng.choice(sorted(self.controllers))
        controller = self.controllers.get(node)
        if controller is None:
            return
        number = next(self._numbers)

        def answer(reply: Any) -> None:
            require(self._open[node].pop(number, None), "answers", "answered twice", request)
            self.counts[type(reply).__name__] += 1
            answered(reply)

        self._open[node][number] = answer
        controller.submit(request, answer)

    def expect_registration(self, broker_id: int, marker: int) -> None:
        self.observer.clean_stops[broker_id] = marker

    def given_ids(self, reply: Any) -> None:
        if isinstance(reply, q.AllocateProducerIdsReply):
            block = set(range(reply.first, reply.first + reply.count, 100))
            require(not block & self._blocks, "M11", "producer ids were given twice", reply)
            self._blocks |= block

    def _created(self, reply: Any) -> None:
        if isinstance(reply, q.CreateTopicsReply):
            for topic in reply.topics:
                if topic.error == ErrorCode.NONE:
                    require(topic.topic_id in self.observer.topic_ids, "M2", "told before committed", topic)
                if topic.error == ErrorCode.TOPIC_ALREADY_EXISTS:
                    require(topic.name in self.observer.topic_names, "M2", "exists for nobody else", topic)

    # -- what happens

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        action, _ = self.rng.choices(_ACTIONS, [weight for _, weight in _ACTIONS])[0]
        action(self)
        self._pass_time(self.rng.choice((0.01, 0.05, 0.2, 1.0)))

    def _pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for broker in self.brokers.values():
            broker.act()
            broker.follow(self.rng.randint(0, 20))
        for node in sorted(self.controllers):
            self.controllers[node].run()
        self.log.commit(self.rng.randint(0, 6))
        for node in sorted(self.controllers):
            lag = None if node == self.log.leader else self.rng.randint(0, 6)
            self.log.deliver(self.seats[node], lag)
        for node in sorted(self.controllers):
            self.controllers[node].tick()
        self._check_fences()

    def _check_fences(self) -> None:
        """M10, N4: nobody is fenced who is well and has been in touch."""
        for broker_id in self.observer.fenced:
            self.counts["fences"] += 1
            well_s = self.clock.monotonic() - self.brokers[broker_id].well_since
            require(well_s < SETTLED_S, "M10", "fenced though it was well (broker, s)", broker_id, well_s)
        self.observer.fenced.clear()

    def _start_broker(self) -> None:
        down = [broker for broker in self.brokers.values() if not broker.alive]
        if down:
            self.rng.choice(down).start()

    def _kill_broker(self) -> None:
        self.rng.choice(list(self.brokers.values())).kill()

    def _stop_broker(self) -> None:
        self.rng.choice(list(self.brokers.values())).stop()

    def _pause_broker(self) -> None:
        broker = self.rng.choice(list(self.brokers.values()))
        broker.paused = not broker.paused

    def _elect_controller(self) -> None:
        self.elect()

    def _kill_controller(self) -> None:
        if len(self.controllers) * 2 > len(self.seats) + 1:
            node = self.rng.choice(sorted(self.controllers))
            self.stop_controller(node)
            if self.log.leader == NO_PROCESS:
                self.elect()

    def _start_controller(self) -> None:
        down = [node for node in self.seats if node not in self.controllers]
        if down:
            self.start_controller(self.rng.choice(down))

    def _tell_leader(self) -> None:
        for node in sorted(self.controllers):
            told = (self.log.leader, self.log.epoch)
            if self.seats[node].told != told and node != self.log.leader:
                self.seats[node].tell(told)

    def _create_topic(self) -> None:
        name = f"t{next(self._names) if self.rng.random() < 0.7 else self.rng.randint(1, 9)}"
        configs = (q.ConfigEntry("unclean.leader.election.enable", "true"),) if self.rng.random() < 0.2 else ()
        topic = q.NewTopic(name, self.rng.randint(1, 3), self.rng.randint(1, 3), configs=configs)
        self.ask(None, q.CreateTopicsRequest((topic,)), self._created)

    def _topic(self) -> str:
        return self.rng.choice(sorted(self.observer.image.topic_ids) or ["none"])

    def _delete_topic(self) -> None:
        self.ask(None, q.DeleteTopicsRequest((q.TopicReference(name=self._topic()),)), _ignore)

    def _grow_topic(self) -> None:
        name = self._topic()
        topic = self.observer.image.topic(name)
        if topic is not None and len(topic.partitions) < 6:
            growth = q.TopicGrowth(name, len(topic.partitions) + 1)
            self.ask(None, q.CreatePartitionsRequest((growth,)), _ignore)

    def _configure(self) -> None:
        change = q.ConfigChange("min.insync.replicas", q.ConfigOp.SET, str(self.rng.randint(1, 3)))
        where = (ResourceType.TOPIC, self._topic()) if self.rng.random() < 0.8 else (ResourceType.BROKER, "")
        self.ask(None, q.AlterConfigsRequest((q.ConfigAlteration(*where, (change,)),)), _ignore)

    def _reassign(self) -> None:
        target = tuple(self.rng.sample(sorted(self.brokers), self.rng.randint(1, 3)))
        replicas = None if self.rng.random() < 0.2 else target
        self.ask(None, q.ReassignPartitionsRequest((q.Reassignment(self._topic(), 0, replicas),)), _ignore)

    def _elect_leaders(self) -> None:
        self.ask(None, q.ElectLeadersRequest(q.ElectionType.PREFERRED, all_partitions=True), _ignore)

    def _nothing(self) -> None:
        """Time passes."""

    # -- the end

    def heal(self) -> None:
        """All faults end: everybody is up, and within a minute every partition that can have a leader has one."""
        for node in self.seats:
            if node not in self.controllers:
                self.start_controller(node)
        self.elect()
        self._tell_leader()
        for broker in self.brokers.values():
            broker.paused = False
        for _ in range(150):
            for broker in self.brokers.values():
                if not broker.alive:
                    broker.start()
            self._pass_time(0.4)
        for node in sorted(self.controllers):
            self.controllers[node].run()
        self.log.commit(len(self.log.batches))
        for node in sorted(self.controllers):
            self.log.deliver(self.seats[node])
        self._check_rest()

    def _check_rest(self) -> None:
        image = self.observer.image
        for broker in self.brokers:
            require(image.active(broker), "liveness", "not in service", broker, image.brokers.get(broker))
        for topic, index, partition in image.partitions():
            stuck = partition.leader == -1 and (partition.isr or partition.elr)
            require(not stuck, "liveness", "could have a leader", topic.name, index, partition)
        for node, controller in sorted(self.controllers.items()):
            require(not self._open[node], "liveness", "requests were never answered", len(self._open[node]))
            require(controller.active == (node == self.log.leader), "row 74", "not exactly one active controller", node)
            self.observer.check_view(controller.committed)


def _ignore(reply: Any) -> None:
    """Whatever the answer is, the invariants must hold."""
    if isinstance(reply, KafkaError):
        return


_ACTIONS: list[tuple[Callable[[World], None], int]] = [
    (World._nothing, 20),
    (World._start_broker, 14),
    (World._kill_broker, 3),
    (World._stop_broker, 3),
    (World._pause_broker, 4),
    (World._elect_controller, 2),
    (World._kill_controller, 1),
    (World._start_controller, 2),
    (World._tell_leader, 6),
    (World._create_topic, 8),
    (World._delete_topic, 2),
    (World._grow_topic, 2),
    (World._configure, 3),
    (World._reassign, 4),
    (World._elect_leaders, 2),
]
