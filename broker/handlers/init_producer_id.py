"""InitProducerId (22): an id for an idempotent producer, or the next epoch of a transactional one."""

from functools import partial
from typing import Any

from rookery.broker.coordination.reply import Converted, Reply
from rookery.broker.handlers.authorize import IDEMPOTENT_WRITE, WRITE, cluster_denied, transactional_id_denied
from rookery.broker.server.access import TOPIC
from rookery.broker.server.client import Call
from rookery.broker.server.pending import Pending
from rookery.broker.transactions.coordinator import TransactionCoordinator
from rookery.broker.transactions.transaction import Producer
from rookery.core.errors import ErrorCode, InvalidRequestError, KafkaError
from rookery.core.wire.apis.init_producer_id import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from rookery.core.wire.served import Served

FENCED_FROM = 4
"""Older versions know no PRODUCER_FENCED."""
_OLD = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


class InitProducerIdHandler:
    """Requests that find this broker without producer ids wait together for a block of them."""

    served = Served(INIT_PRODUCER_ID, 0, 5)

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def handle(self, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse | Pending[Any]:
        reply = Reply(call, _refusal, None if call.version >= FENCED_FROM else _OLD)
        denied = _denied(request, call) if call.client.access.restricted else None
        if denied is not None:
            reply.refuse(denied)
        elif (request.producer_id == -1) != (request.producer_epoch == -1):
            reply.refuse(InvalidRequestError("a producer is named by its id and its epoch together"))
        else:
            self._transactions.ids.when_there(partial(self._decide, request, reply))
        return reply.outcome()

    def _decide(self, request: InitProducerIdRequest, reply: Reply[InitProducerIdResponse]) -> None:
        to = Converted(reply, _answer)
        if request.transactional_id is None:
            try:
                to.complete(Producer(self._transactions.ids.take(), 0))
            except KafkaError as error:
                to.refuse(error)
            return
        name, timeout_ms = request.transactional_id, request.transaction_timeout_ms
        expected = Producer(request.producer_id, request.producer_epoch) if request.producer_id != -1 else None
        self._transactions.run(
            name,
            to,
            lambda state, now: state.init_producer_id(name, timeout_ms, expected, to, now),
            patient=True,
        )


def _denied(request: InitProducerIdRequest, call: Call) -> KafkaError | None:
    """A client that may write to some topic may be idempotent."""
    access = call.access
    if request.transactional_id is not None:
        allowed = access.transactional_id(WRITE, request.transactional_id)
        return None if allowed else transactional_id_denied(WRITE)
    if access.allowed_somewhere(WRITE, TOPIC):
        return None
    return cluster_denied(call, IDEMPOTENT_WRITE)


def _answer(producer: Producer) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer.id, producer_epoch=producer.epoch)


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
