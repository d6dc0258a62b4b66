"""FindCoordinator (10): the broker in charge of a group or a transactional id.

Versions from 0 on are served, since old clients judge by the lowest whether there are groups at all. From
v4 on several keys can be asked for, each with an error of its own. While there is no coordinator the node
is -1 and the client asks again.
"""

from rookery.broker.coordination.internal_topic import CoordinatorFinder
from rookery.broker.handlers.authorize import (
    CLUSTER_ACTION,
    DESCRIBE,
    check_cluster,
    check_group,
    check_transactional_id,
)
from rookery.broker.server.client import Call
from rookery.core.errors import InvalidRequestError, KafkaError
from rookery.core.wire.apis.find_coordinator import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from rookery.core.wire.served import Served

GROUP, TRANSACTION, SHARE = 0, 1, 2
SEVERAL_KEYS_FROM = 4


class FindCoordinatorHandler:
    served = Served(FIND_COORDINATOR, 0, 6)

    def __init__(self, finders: dict[int, CoordinatorFinder]) -> None:
        """`finders` by type of key."""
        self._finders = finders

    def handle(self, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
        if call.version >= SEVERAL_KEYS_FROM:
            return FindCoordinatorResponse(
                coordinators=[self._find(key, request.key_type, call) for key in request.coordinator_keys]
            )
        found = self._find(request.key, request.key_type, call)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )

    def _find(self, key: str, key_type: int, call: Call) -> Coordinator:
        try:
            _check(key, key_type, call)
            node_id, endpoint = self._finder(key_type).find(key, call.client.listener)
        except KafkaError as error:
            call.error(error.code)
            return Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
            )
        return Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)

    def _finder(self, key_type: int) -> CoordinatorFinder:
        finder = self._finders.get(key_type)
        if finder is not None:
            return finder
        raise InvalidRequestError(f"coordinators of type {key_type} are not served here")


def _check(key: str, key_type: int, call: Call) -> None:
    """Raises KafkaError where the client may not see what the key names."""
    if key_type == GROUP:
        check_group(call, DESCRIBE, key)
    elif key_type == TRANSACTION:
        check_transactional_id(call, DESCRIBE, key)
    elif key_type == SHARE:
        check_cluster(call, CLUSTER_ACTION)
