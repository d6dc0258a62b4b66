"""UnregisterBroker (64): forget a broker that will not come back. A broker that is alive is not removed."""

from collections.abc import Callable

from rookery.broker.handlers.admin_request import decide
from rookery.broker.handlers.authorize import ALTER, check_cluster
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.core.errors import KafkaError
from rookery.core.metadata.image import Image
from rookery.core.metadata.requests import UnregisterBrokerReply
from rookery.core.metadata.requests import UnregisterBrokerRequest as AskController
from rookery.core.wire.apis.unregister_broker import (
    UNREGISTER_BROKER,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from rookery.core.wire.served import Served

TIMEOUT_MS = 30_000
"""The request has none of its own."""


class UnregisterBrokerHandler:
    served = Served(UNREGISTER_BROKER, 0, 0)

    def __init__(self, cluster: ClusterPort, controller: ControllerPort) -> None:
        self._cluster = cluster
        self._controller = controller

    async def handle(self, request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerResponse:
        known = self._cluster.image.brokers.get(request.broker_id)

        def gone(reply: UnregisterBrokerReply) -> Callable[[Image], bool]:
            return lambda image: known is None or image.brokers.get(request.broker_id) != known

        try:
            check_cluster(call, ALTER)
            ask = self._controller.ask(AskController(request.broker_id))
            await decide(ask, TIMEOUT_MS, self._cluster, gone)
        except KafkaError as error:
            call.error(error.code)
            return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
        return UnregisterBrokerResponse()
