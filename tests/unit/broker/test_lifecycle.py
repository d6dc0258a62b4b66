"""The broker's session with the controller, as the broker itself knows it."""

from typing import Any
from uuid import UUID

from rookery.broker.lifecycle import Lifecycle, Membership
from rookery.core.errors import RequestTimedOutError
from rookery.core.metadata.image import EMPTY
from rookery.core.metadata.requests import HeartbeatReply
from tests.simulation.loop import Process, SimLoop

BEAT_S, SESSION_S = 0.5, 3.0


class Controller:
    """Answers heartbeats, or nobody does."""

    broker_epoch = 1

    def __init__(self) -> None:
        self.answers = True

    async def ask(self, request: Any, *, timeout_s: float = 30.0) -> Any:
        if not self.answers:
            raise RequestTimedOutError("no active controller answered")
        return HeartbeatReply(caught_up=True, fenced=False, should_shut_down=False)

    async def hold_session(self) -> None:
        pass


def test_a_broker_knows_when_its_session_is_over() -> None:
    """After a whole session without an answer, and not before; the first answer ends it."""
    heard: list[bool] = []
    controller = Controller()
    membership = Membership("c", 1, UUID(int=1), (), (), None, BEAT_S, SESSION_S, 60.0)
    lifecycle = Lifecycle(
        membership, controller, image=lambda: EMPTY, offline_dirs=tuple, on_session=heard.append
    )
    lifecycle.epoch = 1
    loop, process = SimLoop(lambda: 0.0), Process("broker")  # type: ignore[abstract]
    serving = process.context.run(loop.create_task, lifecycle.serve())
    loop.run_until(2 * BEAT_S)
    controller.answers = False
    loop.run_until(SESSION_S)
    assert heard == []
    loop.run_until(2 * BEAT_S + SESSION_S + BEAT_S)
    assert heard == [False]
    loop.run_until(10 * SESSION_S)
    assert heard == [False]
    controller.answers = True
    loop.run_until(10 * SESSION_S + 2 * BEAT_S)
    assert heard == [False, True]
    serving.cancel()
    loop.run_until(loop.time() + 1)
    assert serving.done()
