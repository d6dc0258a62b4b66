"""The recent contacts of brokers with the active controller: soft state, gone with its leadership.

A broker is given up when it has been silent for a session, or early, when its control connection closed and it
did not come back within the grace. A new controller grants everybody a full session, with one exception: a
broker that does not connect within the grace, while at least half of the others do, is given up early, too. A
false alarm costs an election and no data, and so that it cannot cost more, at most a third of the brokers are
given up early within one session; one that comes back as a new process has shown that the alarm was true, and
counts no more.
"""

from dataclasses import dataclass
from typing import Any

from rookery.controller.state.brokers import Liveness
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import (
    HeartbeatRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    UnregisterBrokerRequest,
)


@dataclass(slots=True)
class _Session:
    epoch: int
    deadline: float
    metadata_offset: int = -1
    contacted: bool = False
    holds: int = 0
    closed_at: float | None = None
    shutdown_offset: int = -1


@dataclass(frozen=True, slots=True)
class Overdue:
    broker_id: int
    early: bool


class Sessions:
    """Pure: time comes with each call, in seconds of one clock."""

    def __init__(self, *, session_s: float, grace_s: float) -> None:
        self._session_s = session_s
        self._grace_s = grace_s
        self._sessions: dict[int, _Session] = {}
        self._began = 0.0
        self._early: list[tuple[int, float]] = []  # who, when

    def begin(self, image: Image, now: float) -> None:
        """A new term: everybody known has a full session."""
        self._began = now
        self._early.clear()
        self._sessions = {
            broker.id: _Session(broker.epoch, now + self._session_s, shutdown_offset=_shutdown(image, broker.id))
            for broker in image.brokers.values()
        }

    def stalled(self, seconds: float) -> None:
        """The controller itself did not run: that time does not count as silence of the brokers."""
        self._began += seconds
        for session in self._sessions.values():
            session.deadline += seconds
            if session.closed_at is not None:
                session.closed_at += seconds

    def arrived(self, request: Any, image: Image, now: float) -> None:
        """A heartbeat counts when it arrives, not when its turn comes: a busy controller fences no broker by
        mistake."""
        if isinstance(request, HeartbeatRequest):
            broker = image.brokers.get(request.broker_id)
            if broker is not None and broker.epoch == request.broker_epoch:
                self.contact(broker.id, broker.epoch, now, request.metadata_offset)

    def decided(self, request: Any, reply: Any, after: Image, now: float) -> None:
        """What the decision of `request` means for its broker; `after` holds its records."""
        match request, reply:
            case RegisterBrokerRequest(broker_id=broker_id), RegisterBrokerReply(broker_epoch=epoch):
                self.contact(broker_id, epoch, now)
            case HeartbeatRequest(broker_id=broker_id), _ if after.brokers[broker_id].in_controlled_shutdown:
                self.shutting_down(broker_id, after.offset)
            case UnregisterBrokerRequest(broker_id=broker_id), _:
                self.forget(broker_id)

    def contact(self, broker_id: int, epoch: int, now: float, metadata_offset: int = -1) -> None:
        """The broker sent a request."""
        session = self._session(broker_id, epoch, now)
        session.deadline = now + self._session_s
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        session.contacted = True
        if session.closed_at is not None:
            session.closed_at = now  # it has another grace: a request can arrive behind the end of its connection

    def opened(self, broker_id: int, epoch: int, now: float) -> None:
        """The broker holds a control connection open."""
        self.contact(broker_id, epoch, now)
        self._sessions[broker_id].holds += 1
        self._sessions[broker_id].closed_at = None

    def closed(self, broker_id: int, epoch: int, now: float) -> None:
        """A control connection of the broker is gone."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch and session.holds > 0:
            session.holds -= 1
            if session.holds == 0:
                session.closed_at = now

    def shutting_down(self, broker_id: int, offset: int) -> None:
        """The broker gave up its leaderships with the record at `offset`."""
        session = self._sessions.get(broker_id)
        if session is not None and session.shutdown_offset < 0:
            session.shutdown_offset = offset

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def liveness(self, image: Image, broker_id: int, now: float) -> Liveness:
        """What the handlers in state/brokers.py want to know."""
        session = self._sessions.get(broker_id)
        others = [
            self._offset(broker.id) for broker in image.brokers.values() if broker.active and broker.id != broker_id
        ]
        return Liveness(
            in_session=session is not None and self._alive(session, now),
            others_offset=min(others, default=image.offset),
            shutdown_offset=-1 if session is None else session.shutdown_offset,
        )

    def overdue(self, image: Image, now: float) -> list[Overdue]:
        """The unfenced brokers to give up now."""
        found = []
        for broker in image.brokers.values():
            if broker.fenced:
                continue
            session = self._session(broker.id, broker.epoch, now)
            if now >= session.deadline:
                found.append(Overdue(broker.id, early=False))
            elif self._gone(session, image, now) and self._may_give_up_early(image, now):
                self._early.append((broker.id, now))
                found.append(Overdue(broker.id, early=True))
        return found

    def _session(self, broker_id: int, epoch: int, now: float) -> _Session:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = _Session(epoch, now + self._session_s)
            self._early = [(who, when) for who, when in self._early if who != broker_id]
        return session

    def _offset(self, broker_id: int) -> int:
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.metadata_offset

    def _alive(self, session: _Session, now: float) -> bool:
        if now >= session.deadline or session.closed_at is not None:
            return False
        return session.contacted or self._grace_s == 0 or now < self._began + self._grace_s

    def _gone(self, session: _Session, image: Image, now: float) -> bool:
        if self._grace_s == 0:
            return False
        if session.closed_at is not None:
            return now >= session.closed_at + self._grace_s
        return not session.contacted and now >= self._began + self._grace_s and self._half_contacted(image)

    def _half_contacted(self, image: Image) -> bool:
        """Evidence that brokers can reach this controller at all."""
        unfenced = [broker.id for broker in image.brokers.values() if not broker.fenced]
        contacted = [broker for broker in unfenced if broker in self._sessions and self._sessions[broker].contacted]
        return 0 < len(unfenced) <= 2 * len(contacted)

    def _may_give_up_early(self, image: Image, now: float) -> bool:
        self._early = [(who, when) for who, when in self._early if now - when < self._session_s]
        return len(self._early) < max(1, len(image.brokers) // 3)


def _shutdown(image: Image, broker_id: int) -> int:
    return image.offset if image.brokers[broker_id].in_controlled_shutdown else -1
