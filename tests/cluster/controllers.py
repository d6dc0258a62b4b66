"""Controllers as real processes, and brokers that are only a script: they speak to the controllers as brokers do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from rookery.broker.controller_client import ControllerClient
from rookery.core.errors import RequestTimedOutError
from rookery.core.metadata import requests as q
from rookery.core.metadata.features import SUPPORTED
from rookery.core.metadata.image import Endpoint
from tests.cluster.quorum import CLUSTER_ID, Quorum, VoterProcess

OPTIONS = {
    "broker.session.timeout.ms": "30000",
    "rookery.broker.reconnect.grace.ms": "500",
    "controller.quorum.fetch.timeout.ms": "10000",
}
"""Who dies is missed at once, because its connections close. Time alone takes no office from a node that lives."""
BEAT_S = 0.25


class Controllers(Quorum):
    """Controllers instead of bare voters; what they hold is asked through their side doors."""

    def __init__(self, folder: Path, size: int, options: dict[str, str]) -> None:
        super().__init__(folder, size, options)
        for voter in self.voters:
            voter.module = "tests.cluster.controller_process"

    def looks(self) -> list[dict[str, Any]]:
        answers = [voter.look() for voter in self.voters if voter.alive]
        return [answer for answer in answers if answer is not None]

    def active(self) -> VoterProcess | None:
        """The one that is active, if exactly one says so."""
        found = [voter for voter in self.voters if (voter.look() or {}).get("active") == 1]
        return found[0] if len(found) == 1 else None


class ScriptedBroker:
    """Registers, holds its session and beats until it is stopped or killed."""

    def __init__(self, broker_id: int, controllers: Controllers) -> None:
        self.id = broker_id
        self.client = ControllerClient(CLUSTER_ID, broker_id, [voter.endpoint for voter in controllers.voters])
        self._tasks: list[asyncio.Task[None]] = []
        self.fenced = True

    async def start(self, previous_epoch: int = -1) -> None:
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + self.id, "PLAINTEXT")
        request = q.RegisterBrokerRequest(
            CLUSTER_ID,
            self.id,
            uuid4(),
            (endpoint,),
            SUPPORTED,
            log_dirs=(uuid4(),),
            previous_broker_epoch=previous_epoch,
        )
        reply: q.RegisterBrokerReply = await self.client.ask(request)
        self.client.broker_epoch = reply.broker_epoch
        self._tasks = [asyncio.create_task(self.client.hold_session()), asyncio.create_task(self._beat())]
        await until(lambda: not self.fenced, f"broker {self.id} is unfenced")

    async def kill(self) -> None:
        """As kill -9 does: connections close, nothing is said."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    async def _beat(self) -> None:
        while True:
            request = q.HeartbeatRequest(self.id, self.client.broker_epoch, 2**40)
            try:
                reply: q.HeartbeatReply = await self.client.ask(request, timeout_s=5.0, attempt_s=1.0)
                self.fenced = reply.fenced
            except RequestTimedOutError:
                continue
            await asyncio.sleep(BEAT_S)


async def until(holds: Callable[[], object], what: str, within_s: float = 20.0) -> None:
    try:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {within_s} s: {what}") from None


@asynccontextmanager
async def cluster(
    folder: Path, brokers: int = 3, options: dict[str, str] | None = None
) -> AsyncIterator[tuple[Controllers, list[ScriptedBroker]]]:
    """Three controllers with some scripted brokers; on failure the ends of the logs are printed."""
    controllers = Controllers(folder, 3, {**OPTIONS, **(options or {})})
    scripted = [ScriptedBroker(number, controllers) for number in range(11, 11 + brokers)]
    try:
        controllers.start()
        await asyncio.gather(*(broker.start() for broker in scripted))
        yield controllers, scripted
    except BaseException:
        print(controllers.logs())
        raise
    finally:
        await asyncio.gather(*(broker.kill() for broker in scripted))
        controllers.close()
