"""DescribeConfigs (32): the options of topics, of groups and of this broker. No keys, null or an empty list, mean all
of them.

A topic's option is, in this order: what was set for the topic, what was set for its broker-wide key (for this
broker, for all brokers, in this broker's file), the default. Sources are those that Kafka names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import NamedTuple

from rookery.broker.handlers.authorize import check_options
from rookery.broker.handlers.ports import ClusterPort
from rookery.broker.server.client import Call
from rookery.core.config import consumer_groups, ignored, node, topic
from rookery.core.config.options import Option, Settings, String, UpdateMode, as_text
from rookery.core.config.security import PREFIX
from rookery.core.config.topic import topic_defaults
from rookery.core.errors import (
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from rookery.core.metadata.acl_codes import AclOperation
from rookery.core.metadata.image import Image, ResourceType
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


class Source(IntEnum):
    """Where a value was set, by Kafka's numbers."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    GROUP = 8


class Setting(NamedTuple):
    """One place where an option has a value."""

    name: str
    value: str | None
    source: Source


TYPES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}


PROTOCOL_VERSION: Option[object] = Option(
    "inter.broker.protocol.version",
    String(),
    "4.0",
    "The version of Kafka whose protocol is spoken. It cannot be set; tools read here what they may ask for.",
)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """An option, its value, and all places that set it; the first one counts."""

    option: Option[object]
    text: str | None
    settings: tuple[Setting, ...] = ()
    read_only: bool = False

    @property
    def value(self) -> str | None:
        return None if self.option.sensitive else self.text

    @property
    def source(self) -> Source:
        return self.settings[0].source if self.settings else Source.DEFAULT

    @property
    def type(self) -> int:
        return TYPES.get(self.option.kind.type_name, 0)


_OTHER_UNITS = {option.synonyms[0]: option.synonyms for option in topic.TABLE if len(option.synonyms) > 1}
"""Keys of a broker with the keys that say the same in other units, as ``log.retention.ms`` and ``.hours``."""


class ConfigView:
    """Works entries out from the image and this broker's own settings."""

    def __init__(self, node_id: int, settings: Settings) -> None:
        self._node_id = str(node_id)
        self._settings = settings

    def topic(self, image: Image, name: str) -> Iterator[ConfigEntry]:
        overrides = image.topic_config(name)
        defaults = topic_defaults(self._settings_now(image))
        for option in topic.TABLE:
            settings = self._places(image, option.synonyms)
            if option.name in overrides:
                settings = (Setting(option.name, overrides[option.name], Source.TOPIC), *settings)
            yield ConfigEntry(option, overrides.get(option.name, as_text(defaults[option])), settings)

    def broker(self, image: Image) -> Iterator[ConfigEntry]:
        """All options of this broker."""
        now = self._settings_now(image)
        for option in node.TABLE:
            unset = option.nullable and not now.is_set(option)
            settings = self._places(image, _OTHER_UNITS.get(option.name, (option.name,)))
            read_only = option.reach is UpdateMode.READ_ONLY
            yield ConfigEntry(option, None if unset else as_text(now[option]), settings, read_only)
        yield from self._of_listeners(image)
        for option in ignored.TABLE:
            settings = self._places(image, (option.name,))
            if settings[0].source is not Source.DEFAULT:
                yield ConfigEntry(option, settings[0].value, settings)
        shown = Setting(PROTOCOL_VERSION.name, as_text(PROTOCOL_VERSION.default), Source.DEFAULT)
        yield ConfigEntry(PROTOCOL_VERSION, shown.value, (shown,), read_only=True)

    def _of_listeners(self, image: Image) -> Iterator[ConfigEntry]:
        """Options with a listener's name, as far as they are set."""
        given = {*self._settings.given, *image.config(ResourceType.BROKER, self._node_id)}
        for name in sorted(name for name in given if name.startswith(PREFIX)):
            option = node.TABLE.find(name)
            if option is not None:
                settings = self._places(image, (name,))
                yield ConfigEntry(option, settings[0].value, settings, option.reach is UpdateMode.READ_ONLY)

    def group(self, image: Image, name: str) -> Iterator[ConfigEntry]:
        """The options of a group, which need not be there."""
        overrides = image.config(ResourceType.GROUP, name)
        now = consumer_groups.times_of(self._settings_now(image), overrides)
        for option, value in zip(consumer_groups.GROUP_TABLE, now, strict=True):
            settings = self._places(image, option.synonyms)
            if option.name in overrides:
                settings = (Setting(option.name, overrides[option.name], Source.GROUP), *settings)
            yield ConfigEntry(option, as_text(value), settings)

    def all_brokers(self, image: Image) -> Iterator[ConfigEntry]:
        """What is set for all brokers at once."""
        for name, value in sorted(image.config(ResourceType.BROKER, "").items()):
            option = _broker_option(name)
            if option is not None:
                yield ConfigEntry(option, value, (Setting(name, value, Source.ALL_BROKERS),))

    def _settings_now(self, image: Image) -> Settings:
        brokers = ResourceType.BROKER
        return self._settings.overlaid(image.config(brokers, ""), image.config(brokers, self._node_id))

    def _places(self, image: Image, keys: Sequence[str]) -> tuple[Setting, ...]:
        """Where the first of `keys` gets its value from, the strongest place first; the other keys only follow it, as
        in Kafka."""
        places = [
            *_set(keys, image.config(ResourceType.BROKER, self._node_id), Source.BROKER),
            *_set(keys, image.config(ResourceType.BROKER, ""), Source.ALL_BROKERS),
            *_set(keys, self._settings.given, Source.FILE),
            *_set(keys, _DEFAULTS, Source.DEFAULT),
        ]
        return tuple(dropwhile(lambda place: place.name != keys[0], places))


def _set(keys: Sequence[str], values: Mapping[str, object], source: Source) -> Iterator[Setting]:
    return (Setting(key, as_text(values[key]), source) for key in keys if key in values)


def _broker_option(name: str) -> Option[object] | None:
    table = next((table for table in (node.TABLE, ignored.TABLE) if name in table), None)
    return None if table is None else table[name]


_DEFAULTS: Mapping[str, object] = {
    option.name: option.default for table in (node.TABLE, ignored.TABLE) for option in table if not option.nullable
}


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
            check_options(call, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
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
        if resource.resource_type == ResourceType.GROUP:
            if not name:
                raise InvalidRequestError("the name of the group is empty")
            return self._configs.group(image, name)
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
