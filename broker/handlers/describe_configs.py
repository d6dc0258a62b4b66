"""DescribeConfigs (32): the options of topics and of this broker. No keys, null or an empty list, mean all
of them."""

from collections.abc import Iterable

from rookery.broker.handlers.config_entries import ConfigEntry, ConfigView
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.client import Call
from rookery.core.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from rookery.core.metadata.image import ResourceType
from rookery.core.metadata.topic_names import is_valid
from rookery.core.wire.apis.describe_configs import (
    DESCRIBE_CONFIGS,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from rookery.core.wire.served import Served


class DescribeConfigsHandler:
    served = Served(DESCRIBE_CONFIGS, 1, 4)

    def __init__(self, cluster: ClusterPort, configs: ConfigView) -> None:
        self._cluster = cluster
        self._configs = configs

    def handle(self, request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=[self._describe(resource, request, call) for resource in request.resources]
        )

    def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call
    ) -> DescribeConfigsResult:
        try:
            entries = self._entries(resource)
        except KafkaError as error:
            call.error(error.code)
            return DescribeConfigsResult(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=(),
            )
        wanted = resource.configuration_keys or None
        return DescribeConfigsResult(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[
                _result(entry, request) for entry in entries if wanted is None or entry.option.name in wanted
            ],
        )

    def _entries(self, resource: DescribeConfigsResource) -> Iterable[ConfigEntry]:
        image, name = self._cluster.image, resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            if not is_valid(name):
                raise InvalidTopicError(f"{name!r} cannot be a topic's name")
            if image.topic(name) is None:
                raise UnknownTopicOrPartitionError(f"there is no topic {name}")
            return self._configs.topic(image, name)
        if resource.resource_type == ResourceType.BROKER:
            if name == "":
                return self._configs.all_brokers(image)
            if name != str(self._cluster.node_id):
                raise InvalidRequestError(f"this is broker {self._cluster.node_id}, not {name}")
            return self._configs.broker(image)
        raise InvalidRequestError(f"options of resource type {resource.resource_type} cannot be described")


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    hidden = entry.option.sensitive
    synonyms = entry.settings if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.option.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=hidden,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=None if hidden else value, source=source)
            for name, value, source in synonyms
        ],
        config_type=entry.type,
        documentation=entry.option.doc if request.include_documentation else None,
    )
