"""InitProducerId (22): an id for an idempotent producer, out of the block the controller gave this broker."""

from collections.abc import Callable, Coroutine
from typing import Any

from rookery.broker.handlers.ports import ControllerPort
from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.core.errors import ErrorCode, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.wire.apis.init_producer_id import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from rookery.core.wire.served import Served

_log = get_logger("broker.handlers")


class InitProducerIdHandler:
    """Requests that find the block empty wait together for one new block."""

    served = Served(INIT_PRODUCER_ID, 0, 5)

    def __init__(
        self,
        controller: ControllerPort,
        start_task: Callable[[Coroutine[Any, Any, Any], str], Pending[Any]],
    ) -> None:
        self._controller = controller
        self._start_task = start_task
        self._ids: range = range(0)
        self._waiting: list[tuple[Pending[Any], Call]] = []

    def handle(
        self, request: InitProducerIdRequest, call: Call
    ) -> InitProducerIdResponse | Pending[Any]:
        if request.transactional_id is not None:
            return _refusal(ErrorCode.UNSUPPORTED_VERSION, call)
        if self._ids:
            return self._take()
        pending: Pending[Any] = Pending()
        self._waiting.append((pending, call))
        if len(self._waiting) == 1:
            self._start_task(self._refill(), "producer ids")
        return pending

    def _take(self) -> InitProducerIdResponse:
        producer_id, self._ids = self._ids[0], self._ids[1:]
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def _refill(self) -> None:
        try:
            self._ids = await self._controller.allocate_producer_ids()
        except KafkaError as error:
            _log.warning("producer.ids.unavailable", reason=str(error))
        finally:
            waiting, self._waiting = self._waiting, []
            for pending, call in waiting:
                unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # clients try again
                pending.complete(self._take() if self._ids else _refusal(unavailable, call))


def _refusal(code: ErrorCode, call: Call) -> InitProducerIdResponse:
    call.error(code)
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
