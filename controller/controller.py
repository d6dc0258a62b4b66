"""The active controller: one writer for everything the cluster agrees on.

    request → queue → handler (pure, found in the table) → records proposed → committed → reply

It is driven from outside and starts nothing by itself: requests come through `submit`, `run` handles what is queued,
`tick` does what is due, and the quorum reports what is committed and who leads. So the same code runs in a node, on its
event loop, and in a simulator, in virtual time.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from rookery.controller.events import log_changes
from rookery.controller.metrics import ControllerMetrics
from rookery.controller.quorum import Quorum
from rookery.controller.sessions import Sessions
from rookery.controller.settings import ControllerSettings
from rookery.controller.state import brokers, features
from rookery.controller.state.decision import Decision, decided
from rookery.controller.state.scram import with_decoys
from rookery.controller.table import HANDLERS, Facts
from rookery.controller.upkeep import SnapshotTimer, Upkeep
from rookery.controller.writer import Prepared, Writer, prepare
from rookery.core.clock import Clock
from rookery.core.errors import (
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
)
from rookery.core.event_logging import get_logger
from rookery.core.metadata.features import Release
from rookery.core.metadata.image import Changes, Image
from rookery.core.metadata.records import NoOpRecord, Record
from rookery.core.metadata.requests import Request
from rookery.core.metadata.snapshot import snapshot_values
from rookery.core.metadata_log import CommittedBatch, SnapshotId

_log = get_logger("controller")
R = TypeVar("R")
NO_LEADER = -1
OFFLOADED_FROM = 2000
"""Partitions in the cluster from which heavy work is done off the loop."""

Answer = Callable[[Any], None]
"""Takes the reply, or the KafkaError in its place; called exactly once."""


Work = Callable[[], Any]
Offload = Callable[[Work, Callable[[Any], None]], None]
"""Does work elsewhere and hands over its result later, on this loop."""


@dataclass(slots=True)
class _Event(Generic[R]):
    name: str
    decide: Callable[[Image], Decision[R]]
    answer: Answer | None
    queued: float
    deadline: float
    heavy: bool = False

    def end(self, outcome: R | KafkaError) -> None:
        answer, self.answer = self.answer, None
        if answer is not None:
            answer(outcome)


class Controller:
    """Implements the quorum's listener. Not thread-safe: everything happens on one loop."""

    def __init__(
        self,
        settings: ControllerSettings,
        quorum: Quorum,
        clock: Clock,
        *,
        new_id: Callable[[], UUID],
        wake: Callable[[], None] = lambda: None,
        publish: Callable[[Changes], None] = lambda changes: None,
        deactivated: Callable[[], None] = lambda: None,
        offload: Offload | None = None,
    ) -> None:
        """`new_id` gives unused ids; `wake` is called when there is something for `run`; `publish` gets every committed
        change; `deactivated` is called when this node stops being active; `offload` runs work that takes long in a big
        cluster (by default on the spot)."""
        self.settings = settings
        self.metrics = ControllerMetrics()
        self.sessions = Sessions(session_s=settings.session_s, grace_s=settings.reconnect_grace_s)
        self._quorum = quorum
        self._writer = Writer(quorum, settings.release)
        self._snapshots = SnapshotTimer(settings)
        self._upkeep = Upkeep(settings)
        self._clock = clock
        self._new_id = new_id
        self._wake = wake
        self._publish = publish
        self._queue: deque[_Event[Any]] = deque()
        self._waiting: deque[_Event[Any]] = deque()
        self._leader = (NO_LEADER, 0)
        self._epoch: int | None = None
        self._offload = offload
        self._busy = False
        self._fencing: set[int] = set()
        self._deactivated = deactivated

    @property
    def committed(self) -> Image:
        """What cannot be lost any more: the only image that reads may answer from."""
        return self._writer.committed

    @property
    def active(self) -> bool:
        return self._epoch is not None

    @property
    def leader(self) -> tuple[int, int]:
        """(leader id or -1, epoch) as last reported by the quorum."""
        return self._leader

    def now(self) -> float:
        return self._clock.monotonic()

    def check_active(self) -> None:
        """Raises NotControllerError unless this node is the active controller."""
        if not self.active:
            raise self._not_controller()

    def submit(self, request: Request[R], answer: Answer, *, timeout_s: float = 30.0) -> None:
        """Queue a request; `answer` gets its reply or its KafkaError, at the latest after `timeout_s`."""
        now, name = self.now(), type(request).__name__
        if self.active:
            self.sessions.arrived(request, self.committed, now)
        heavy = HANDLERS[type(request)].heavy(self.committed, request)
        event = _Event(name, partial(self._decide, request), answer, now, now + timeout_s, heavy)
        if not self.active:
            event.end(self._not_controller())
        elif len(self._queue) + self._writer.parked >= self.settings.queue_max:
            event.end(ThrottlingQuotaExceededError(f"{self.settings.queue_max} requests wait already; try later"))
        else:
            self._queue.append(event)
            self._wake()

    def run(self, events_max: int | None = None) -> bool:
        """Handle up to `events_max` queued events; True if some can be handled at once."""
        for _ in range(len(self._queue) if events_max is None else events_max):
            if self._busy or not self._queue:
                break
            self._handle(self._queue.popleft())
        return bool(self._queue) and not self._busy

    def tick(self) -> None:
        """What is due: fencing, rebalancing, timeouts, snapshots."""
        now = self.now()
        self._time_out(now)
        if self.active and not self._busy:
            waiting = len(self._queue)
            for overdue in self.sessions.overdue(self._writer.proposed, now):
                self._fence(overdue.broker_id, overdue.early)
            for work in self._upkeep.due(now, self._writer.proposed):
                self._do(*work)
            self.run(len(self._queue) - waiting)
        if self._snapshots.due(now):
            self.write_snapshot()

    def write_snapshot(self) -> None:
        """Begin to write a snapshot of the committed image; the quorum does it in a thread."""
        image = self.committed
        self._quorum.write_snapshot(
            SnapshotId(image.offset + 1, image.epoch), snapshot_values(image, self.settings.release)
        )

    # -- the quorum's listener

    def on_commit(self, batch: CommittedBatch) -> None:
        self._committed(self._writer.commit(batch), sum(map(len, batch.values)))

    def on_snapshot(self, snapshot: SnapshotId, values: Sequence[bytes]) -> None:
        self._committed(self._writer.install(snapshot, values), 0)

    def on_leader(self, leader_id: int, epoch: int) -> None:
        self._leader = (leader_id, epoch)
        if self.active:
            self._deactivate()
        if leader_id == self.settings.node_id:
            self._activate(epoch)

    # -- inside

    def _committed(self, changes: Changes | None, size: int) -> None:
        if changes is None:
            return
        self._snapshots.committed(self.now(), size)
        self.metrics.committed(changes)
        if self.active:
            log_changes(changes)
        self._publish(changes)
        self._writer.release()

    def _activate(self, epoch: int) -> None:
        self._epoch = epoch
        self.metrics.active = True
        self.metrics.activations += 1
        now = self.now()
        self.sessions.begin(self.committed, now)
        self._upkeep.begin(now, self.committed)
        _log.info("controller.activated", node=self.settings.node_id, epoch=epoch, offset=self.committed.offset)
        settings = self.settings
        first = partial(_first_records, settings=settings, new_id=self._new_id)
        self._do("activation", lambda image: decided(first(image), None), heavy=True)
        self.run()

    def _deactivate(self) -> None:
        _log.info("controller.deactivated", node=self.settings.node_id, epoch=self._epoch, leader=self._leader[0])
        self._epoch = None
        self.metrics.active = False
        self._writer.drop()
        waiting = [*self._waiting, *self._queue]
        self._waiting.clear()
        self._queue.clear()
        for event in waiting:
            event.end(self._not_controller())
        self._deactivated()

    def _decide(self, request: Request[R], image: Image) -> Decision[R]:
        liveness = partial(self.sessions.liveness, now=self.now())
        facts = Facts(self.settings, self._upkeep.position, self._new_id, liveness, self._quorum.voter_features)
        decision: Decision[R] = HANDLERS[type(request)].decide(image, request, facts)

        def reply(after: Image) -> R:
            answer = decision.reply(after)
            self.sessions.decided(request, answer, after, self.now())
            return answer

        return Decision(decision.records, reply)

    def _do(
        self,
        name: str,
        decide: Callable[[Image], Decision[None]],
        heavy: bool = False,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Queue the controller's own work, before requests."""

        def ended(outcome: Any) -> None:
            done()
            if isinstance(outcome, KafkaError) and not isinstance(outcome, NotControllerError):
                _log.error("controller.work.failed", work=name, error=str(outcome))

        self._queue.appendleft(_Event(name, decide, ended, self.now(), math.inf, heavy))

    def _handle(self, event: _Event[Any]) -> None:
        """Decide now, or elsewhere where that may take long; meanwhile nothing else is decided."""
        if self._epoch is None:
            event.end(self._not_controller())
            return
        started, epoch, before = self.now(), self._epoch, self._writer.proposed
        self.metrics.events_started += 1
        self.metrics.queue_time.add(started - event.queued)

        def work() -> Any:
            return _decided(event, before, epoch, self.settings.release)

        if event.heavy and self._offload is not None and self.metrics.partitions > OFFLOADED_FROM:
            self._busy = True
            self._offload(work, lambda outcome: self._decided_elsewhere(event, started, epoch, outcome))
        else:
            self._finish(event, started, work())

    def _decided_elsewhere(self, event: _Event[Any], started: float, epoch: int, outcome: Any) -> None:
        self._busy = False
        if self._epoch == epoch:
            self._finish(event, started, outcome)
        else:
            event.end(self._not_controller())
        self._wake()

    def _finish(self, event: _Event[Any], started: float, outcome: Any) -> None:
        """Propose what was decided; the reply waits until all that is proposed now is committed."""
        if isinstance(outcome, tuple):
            outcome = self._propose(*outcome)
        self._writer.park(lambda: event.end(outcome))
        if event.answer is not None:
            self._waiting.append(event)
        self.metrics.processing_time.add(self.now() - started)

    def _propose(self, decision: Decision[R], prepared: Prepared | None) -> R | KafkaError:
        try:
            image = self._writer.proposed
            if prepared is not None:
                self.check_active()
                image = self._writer.propose(self._epoch or 0, prepared)
                self._upkeep.proposed(self.now(), decision.records)
            return decision.reply(image)
        except KafkaError as error:
            return error

    def _fence(self, broker_id: int, early: bool) -> None:
        if broker_id in self._fencing:
            return
        self._fencing.add(broker_id)
        self.metrics.heartbeats_timed_out += not early
        why = "connection closed" if early else "session timed out"
        _log.warning("broker.silent", broker=broker_id, why=why)
        defaults = self.settings.defaults
        self._do(
            "fence",
            lambda image: decided(brokers.fence(image, broker_id, defaults), None),
            heavy=True,
            done=lambda: self._fencing.discard(broker_id),
        )

    def _time_out(self, now: float) -> None:
        """Give up requests whose time is over; what they proposed may still be committed."""
        for events in (self._queue, self._waiting):
            for event in events:
                if event.answer is not None and now >= event.deadline:
                    self.metrics.events_timed_out += 1
                    event.end(RequestTimedOutError(f"{event.name} was not committed in time; it may still be"))
        self._queue = deque(event for event in self._queue if event.answer is not None)
        self._waiting = deque(event for event in self._waiting if event.answer is not None)

    def _not_controller(self) -> NotControllerError:
        leader, epoch = self._leader
        known = f"node {leader} is (epoch {epoch})" if leader != NO_LEADER else "no other node is known to be"
        return NotControllerError(f"node {self.settings.node_id} is not the active controller; {known}")


def _first_records(image: Image, settings: ControllerSettings, new_id: Callable[[], UUID]) -> list[Record]:
    """What a new leader writes first: what a new cluster starts with, or a record that only shows where in the
    log this epoch stands, so that later records are replayed once, at the offsets they get. What its own release or
    configuration demands of the state it found follows."""
    if image.features:
        first: Sequence[Record] = [NoOpRecord()]
    else:
        first = [*features.bootstrap(settings.release), *with_decoys(image, settings.first_users, new_id)]
    return features.with_consequences(image, first, settings.defaults)


def _decided(
    event: _Event[R], before: Image, epoch: int, release: Release
) -> tuple[Decision[R], Prepared | None] | KafkaError:
    """The costly part of handling an event. Touches nothing but values, so it may run in a thread."""
    try:
        decision = event.decide(before)
        return decision, prepare(before, decision.records, epoch, release) if decision.records else None
    except KafkaError as error:
        return error
