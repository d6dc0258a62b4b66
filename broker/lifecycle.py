"""The broker's membership: register, keep the session alive, get unfenced, and leave in order.

    starting → registered (fenced) → caught up → unfenced = running → shutting down

A broker that was restarted serves nothing until it has replayed the metadata log past its own registration and the
controller has unfenced it: until then, what it knows may be older than what was decided about it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeVar
from uuid import UUID

from rookery.core.errors import DuplicateBrokerRegistrationError, KafkaError, StaleBrokerEpochError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Endpoint, FeatureRange, Image
from rookery.core.metadata.requests import (
    HeartbeatRequest,
    RegisterBrokerReply,
    RegisterBrokerRequest,
    Request,
)
from rookery.core.service import Service

NO_EPOCH = -1
RETRY_S = 0.1
R = TypeVar("R")
_log = get_logger("broker.lifecycle")


class BrokerState(IntEnum):
    """The numbers of Kafka's BrokerState metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class ControllerAsk(Protocol):
    """The active controller, wherever it is."""

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R: ...

    broker_epoch: int

    async def hold_session(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Membership:
    """Who registers."""

    cluster_id: str
    node_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    heartbeat_s: float
    session_s: float
    registration_timeout_s: float


class RegistrationError(Exception):
    """The cluster refused this broker."""


class Lifecycle(Service):
    """Owns the broker's session with the controller."""

    name = "lifecycle"

    def __init__(
        self,
        membership: Membership,
        controller: ControllerAsk,
        *,
        image: Callable[[], Image],
        offline_dirs: Callable[[], tuple[UUID, ...]],
        on_session: Callable[[bool], None],
    ) -> None:
        """`on_session` is called with whether the session lasts, whenever that changes."""
        self._membership = membership
        self._controller = controller
        self._image = image
        self._offline_dirs = offline_dirs
        self._on_session = on_session
        self._session_lasts = True
        self._answered_s: float | None = None
        """When the last heartbeat was sent that the controller has answered."""
        self._beat_now = asyncio.Event()
        self._changed = asyncio.Event()
        self._want_shut_down = False
        self._may_shut_down = asyncio.Event()
        self._ready = False
        self._log_dirs: tuple[UUID, ...] = ()
        self._previous_epoch = NO_EPOCH
        self.epoch = NO_EPOCH
        self.fenced = True
        self.state = BrokerState.NOT_RUNNING

    # --- what others ask ------------------------------------------------------------------------------------

    def storage_found(self, log_dirs: tuple[UUID, ...], *, previous_epoch: int) -> None:
        """What was found in the log directories: their ids, and the broker epoch of the last clean shutdown."""
        self._log_dirs = log_dirs
        self._previous_epoch = previous_epoch

    def ready(self) -> None:
        """Everything the metadata log demands of this broker has been done: it may be unfenced."""
        self._ready = True
        self._beat_now.set()

    def metadata_changed(self) -> None:
        """The image moved on."""
        self._changed.set()

    def dirs_changed(self) -> None:
        """A log directory failed: report it to the controller at once."""
        self._beat_now.set()

    @property
    def running(self) -> bool:
        """Registered, caught up, and not fenced in this broker's own view of the cluster."""
        registered = self._image().brokers.get(self._membership.node_id)
        return registered is not None and registered.epoch == self.epoch and not registered.fenced

    @property
    def caught_up(self) -> bool:
        """Whether the metadata log has been replayed past this incarnation's registration."""
        registered = self._image().brokers.get(self._membership.node_id)
        return self.epoch != NO_EPOCH and registered is not None and registered.epoch == self.epoch

    # --- life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.state = BrokerState.STARTING

    async def register(self) -> None:
        """Register; returns when this registration has been replayed here."""
        membership = self._membership
        request = RegisterBrokerRequest(
            cluster_id=membership.cluster_id,
            broker_id=membership.node_id,
            incarnation_id=membership.incarnation_id,
            endpoints=membership.endpoints,
            features=membership.features,
            rack=membership.rack,
            log_dirs=self._log_dirs,
            previous_broker_epoch=self._previous_epoch,
        )
        reply = await self._ask_until_answered(request, membership.registration_timeout_s)
        if not isinstance(reply, RegisterBrokerReply):
            raise TypeError(f"not an answer to a registration: {reply!r}")
        self.epoch = self._controller.broker_epoch = reply.broker_epoch
        self.state = BrokerState.RECOVERY
        _log.info("registration.accepted", broker=membership.node_id, epoch=self.epoch)
        await self._until(lambda: self.caught_up, membership.registration_timeout_s, "replay its own registration")

    async def unfenced(self, timeout_s: float) -> None:
        """Wait until this broker is unfenced, in its own view."""
        await self._until(lambda: self.running, timeout_s, "come out of the fence")
        self.state = BrokerState.RUNNING
        _log.info("broker.running", broker=self._membership.node_id, epoch=self.epoch)

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(), name="heartbeats")
            group.create_task(self._hold_session(), name="session")

    async def leave(self, timeout_s: float) -> None:
        """Controlled shutdown: ask that all leaderships be moved, and wait until they are."""
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        self._want_shut_down = True
        self._beat_now.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self._may_shut_down.wait()
            _log.info("broker.left", broker=self._membership.node_id)
        except TimeoutError:
            _log.warning(
                "broker.leave.timeout",
                broker=self._membership.node_id,
                waited_s=timeout_s,
                consequence="leaderships move when the controller fences this broker",
            )

    async def stop(self) -> None:
        self.state = BrokerState.NOT_RUNNING

    # --- inside ---------------------------------------------------------------------------------------------

    async def _ask_until_answered(self, request: Request[R], timeout_s: float) -> R:
        """Ask until the controller answers; a refusal that will not pass is raised. The session of a predecessor
        that was killed may take its time to end."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            try:
                return await self._controller.ask(request, timeout_s=timeout_s)
            except KafkaError as error:
                passed = asyncio.get_running_loop().time() > deadline
                passes = error.retriable or isinstance(error, DuplicateBrokerRegistrationError)
                if passed or not passes:
                    raise RegistrationError(
                        f"broker {self._membership.node_id} could not register: {error}"
                    ) from error
                _log.info("broker.registration.retried", reason=str(error))
            await asyncio.sleep(RETRY_S)

    async def _until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise RegistrationError(
                f"broker {self._membership.node_id} did not {what} within {timeout_s:g} s; "
                "is a majority of the controllers up?"
            ) from None

    async def _beat(self) -> None:
        """One heartbeat an interval, and at once when there is something to report."""
        while True:
            self._beat_now.clear()
            if self.epoch != NO_EPOCH:
                await self._heartbeat()
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._beat_now.wait()
            except TimeoutError:
                continue

    def _pause_s(self) -> float:
        """Quicker while waiting to be unfenced or to leave."""
        waits = self._want_shut_down or (self._ready and self.fenced)
        return min(RETRY_S, self._membership.heartbeat_s) if waits else self._membership.heartbeat_s

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            broker_id=self._membership.node_id,
            broker_epoch=self.epoch,
            metadata_offset=self._image().offset,
            want_fence=not self._ready,
            want_shut_down=self._want_shut_down,
            offline_log_dirs=self._offline_dirs(),
        )
        sent_s = asyncio.get_running_loop().time()
        try:
            reply = await self._controller.ask(
                request, timeout_s=self._membership.heartbeat_s * 2
            )
        except StaleBrokerEpochError as error:
            # another process registered under this id, or the cluster forgot this one: neither can be mended here
            raise RegistrationError(
                f"broker {self._membership.node_id} with epoch {self.epoch} is not the one the cluster knows: "
                f"{error}. Was another node started with the same node.id?"
            ) from error
        except KafkaError as error:
            _log.warning("broker.heartbeat.failed", reason=str(error))
            self._unanswered()
            await asyncio.sleep(RETRY_S)
            return
        self._answered_s = sent_s
        self._set_session(True)
        if reply.fenced != self.fenced:
            self.fenced = reply.fenced
            _log.info("broker.fenced" if reply.fenced else "broker.unfenced", broker=self._membership.node_id)
        if reply.should_shut_down:
            self._may_shut_down.set()

    def _unanswered(self) -> None:
        """After a whole session without an answer the controller, if there is one, has fenced this broker."""
        now_s = asyncio.get_running_loop().time()
        if self._answered_s is not None and now_s - self._answered_s > self._membership.session_s:
            self._set_session(False)

    def _set_session(self, lasts: bool) -> None:
        if lasts != self._session_lasts:
            self._session_lasts = lasts
            _log.info("broker.session.resumed" if lasts else "broker.session.over", broker=self._membership.node_id)
            self._on_session(lasts)

    async def _hold_session(self) -> None:
        """Keep one call open at the active controller: when it breaks off, the controller knows at once."""
        while self.epoch == NO_EPOCH:
            self._changed.clear()
            await self._changed.wait()
        try:
            await self._controller.hold_session()
        except KafkaError as error:
            _log.warning("broker.session.refused", reason=str(error))  # the answers to heartbeats show what it means
