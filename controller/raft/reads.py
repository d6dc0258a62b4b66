"""Reads that must not be stale: served once a majority has confirmed, after the question, that this node leads."""

import asyncio
from itertools import count

from rookery.controller.raft.engine import Engine
from rookery.controller.raft.errors import RaftRefusedError
from rookery.core.errors import NotControllerError, RequestTimedOutError


class Reads:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._tokens = count(1)

    async def index(self, timeout_s: float) -> int:
        """An offset: state that holds everything below it is fresh. NotControllerError if this node does not
        lead, RequestTimedOutError if no majority answers in time."""
        token, engine = next(self._tokens), self._engine
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            engine.take(engine.guard(lambda: engine.core.read_index(token, engine.now_ms())))
            async with asyncio.timeout(timeout_s):
                return await answer
        except RaftRefusedError as error:
            raise NotControllerError(str(error)) from error
        except TimeoutError:
            raise RequestTimedOutError("no majority of the voters confirmed in time that this node leads") from None
        finally:
            del self._waiting[token]

    def allowed(self, token: int, offset: int) -> None:
        answer = self._waiting.get(token)
        if answer is not None and not answer.done():
            answer.set_result(offset)

    def refused(self, token: int) -> None:
        answer = self._waiting.get(token)
        if answer is not None and not answer.done():
            answer.set_exception(NotControllerError("leadership was lost before the read was confirmed"))
