"""The controller on an event loop: requests as awaitables, ticks by the clock, long decisions in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from rookery.controller.controller import Controller, Work
from rookery.controller.quorum import Quorum
from rookery.controller.settings import ControllerSettings
from rookery.core.clock import Clock
from rookery.core.errors import KafkaError
from rookery.core.ids import new_id
from rookery.core.metadata.image import Changes
from rookery.core.metadata.requests import Request
from rookery.core.service import Service

R = TypeVar("R")
TICK_S = 0.05
STALL_S = 0.2
"""A tick that comes later than this shows that the loop was held up, and heartbeats with it."""
EVENTS_PER_TURN = 32
"""Events handled before the loop gets a turn for other work."""


class ControllerLoop(Service):
    """Owns a `Controller`. Give `controller` to the quorum as its listener before it starts."""

    name = "controller"

    def __init__(
        self,
        settings: ControllerSettings,
        quorum: Quorum,
        clock: Clock,
        publish: Callable[[Changes], None] = lambda changes: None,
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False
        self._failed: asyncio.Future[None] | None = None
        self._inactive: asyncio.Future[None] | None = None
        self._elsewhere: asyncio.Task[None] | None = None
        self.controller = Controller(
            settings,
            quorum,
            clock,
            new_id=new_id,
            wake=self._wake,
            publish=publish,
            deactivated=self._deactivated,
            offload=self._offload,
        )

    async def ask(self, request: Request[R], *, timeout_s: float = 30.0) -> R:
        """The reply to one of core.metadata.requests; raises its KafkaError."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def settle(outcome: Any) -> None:
            if answer.done():
                return
            if isinstance(outcome, KafkaError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        self.controller.submit(request, settle, timeout_s=timeout_s)
        return await answer

    async def inactive(self) -> None:
        """Wait until this node stops being the active controller."""
        if self.controller.active:
            if self._inactive is None:
                self._inactive = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._inactive)

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._failed = self._loop.create_future()
        self._wake()
        ticked = self.controller.now()
        try:
            while True:
                done, _ = await asyncio.wait([self._failed], timeout=TICK_S)
                if done:
                    self._failed.result()
                before, ticked = ticked, self.controller.now()
                late = ticked - before - TICK_S
                if late > STALL_S:
                    self.controller.sessions.stalled(late)
                self.controller.tick()
        finally:
            self._loop = None
            if self._elsewhere is not None:
                self._elsewhere.cancel()

    def _wake(self) -> None:
        if self._loop is not None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Handle some events; a failure here is a bug and must end the service, not vanish in the loop."""
        self._scheduled = False
        try:
            if self.controller.run(EVENTS_PER_TURN):
                self._wake()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _offload(self, work: Work, done: Callable[[Any], None]) -> None:
        """Do `work` in a thread. One at a time: the controller decides nothing else meanwhile."""
        if self._loop is None:
            done(work())
            return
        self._elsewhere = self._loop.create_task(self._in_thread(work, done), name="controller-decision")
        self._elsewhere.add_done_callback(self._task_done)

    async def _in_thread(self, work: Work, done: Callable[[Any], None]) -> None:
        done(await asyncio.to_thread(work))

    def _deactivated(self) -> None:
        inactive, self._inactive = self._inactive, None
        if inactive is not None and not inactive.done():
            inactive.set_result(None)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)
