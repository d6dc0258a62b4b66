"""A controller on a quorum in memory, with a clock that stands still: what tests of the controller work with."""

from itertools import count
from typing import Any
from uuid import UUID

from rookery.controller.controller import Controller
from rookery.controller.settings import ControllerSettings
from rookery.controller.state.defaults import Defaults
from rookery.core.metadata import requests as q
from rookery.core.metadata.image import Changes
from rookery.core.testing.clock import ManualClock
from tests.unit.controller.local_quorum import LocalQuorum
from tests.unit.controller.state.clusters import CLUSTER, register_request

QUIET = {"idle_record_s": 0.0, "rebalance_check_s": 0.0}


class Desk:
    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.quorum = LocalQuorum(1, clock=self.clock)
        self.published: list[Changes] = []
        given: dict[str, Any] = {**QUIET, "defaults": Defaults(), **settings}
        self.settings = ControllerSettings(1, CLUSTER, **given)
        self._ids = count(7000)
        self.restart()

    def restart(self) -> None:
        """A new process with the same log."""
        self.controller = Controller(
            self.settings,
            self.quorum,
            self.clock,
            new_id=lambda: UUID(int=next(self._ids)),
            publish=self.published.append,
        )
        self.quorum.start(self.controller)

    def lead(self) -> "Desk":
        self.quorum.lead()
        self.quorum.commit()
        return self

    def submit(self, request: Any, timeout_s: float = 30.0) -> list[Any]:
        """Decide, and do not commit; the list gets the answer."""
        answers: list[Any] = []
        self.controller.submit(request, answers.append, timeout_s=timeout_s)
        self.controller.run()
        return answers

    def ask(self, request: Any) -> Any:
        answers = self.submit(request)
        self.quorum.commit()
        (answer,) = answers
        return answer

    def broker(self, broker_id: int, incarnation: int = 0, **fields: Any) -> int:
        """Register and unfence; the broker's epoch."""
        request = register_request(broker_id, incarnation or broker_id, **fields)
        epoch: int = self.ask(request).broker_epoch
        self.beat(broker_id)
        return epoch

    def beat(self, broker_id: int, **fields: Any) -> Any:
        epoch = self.controller.committed.brokers[broker_id].epoch
        return self.ask(q.HeartbeatRequest(broker_id, epoch, self.controller.committed.offset, **fields))

    def topic(self, name: str, partitions: int = 1, factor: int = 1) -> Any:
        return self.ask(q.CreateTopicsRequest((q.NewTopic(name, partitions, factor),)))

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.controller.tick()
        self.quorum.commit()
