"""ListConfigResources (74): what has options, by type. v0 asks for the subscriptions of client metrics alone, of which
there are none here; from v1 on no types means all."""

from collections.abc import Callable, Iterable

from rookery.broker.handlers.authorize import DESCRIBE_CONFIGS, cluster_denied
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import Image, ResourceType
from rookery.core.wire.apis.list_config_resources import (
    LIST_CONFIG_RESOURCES,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from rookery.core.wire.served import Served

TYPES_FROM = 1


def _brokers(image: Image) -> Iterable[str]:
    return (str(broker.id) for broker in sorted(image.brokers.values(), key=lambda one: one.id) if not broker.fenced)


def _groups(image: Image) -> Iterable[str]:
    return sorted(resource.name for resource in image.configs if resource.type == ResourceType.GROUP)


def _none(image: Image) -> Iterable[str]:
    return ()


NAMES: dict[int, Callable[[Image], Iterable[str]]] = {
    ResourceType.TOPIC: lambda image: sorted(image.topic_ids),
    ResourceType.BROKER: _brokers,
    ResourceType.BROKER_LOGGER: _brokers,
    ResourceType.CLIENT_METRICS: _none,
    ResourceType.GROUP: _groups,
}


class ListConfigResourcesHandler:
    served = Served(LIST_CONFIG_RESOURCES, 0, 1)

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def handle(self, request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
        denied = cluster_denied(call, DESCRIBE_CONFIGS)
        if denied is not None:
            call.error(denied.code)
            return ListConfigResourcesResponse(error_code=denied.code, config_resources=())
        types = list(dict.fromkeys(request.resource_types or NAMES))
        if call.version < TYPES_FROM:
            types = [ResourceType.CLIENT_METRICS]
        if any(type_ not in NAMES for type_ in types):
            call.error(ErrorCode.UNSUPPORTED_VERSION)
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
        image = self._cluster.image
        return ListConfigResourcesResponse(
            config_resources=[
                ConfigResource(resource_name=name, resource_type=type_)
                for type_ in types
                for name in NAMES[type_](image)
            ]
        )
