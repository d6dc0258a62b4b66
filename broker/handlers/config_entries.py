"""The options of a topic or a broker with where each value comes from, as DescribeConfigs shows them.

A topic's option is, in this order: what was set for the topic, what was set for its broker-wide key (for this
broker, for all brokers, in this broker's file), the default.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from rookery.core.config import node, topic
from rookery.core.config.defaults import topic_defaults
from rookery.core.config.options import Option, Reach, Settings, String, as_text
from rookery.core.metadata.image import Image, ResourceType


class Source(IntEnum):
    """Where a value was set, by Kafka's numbers."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5


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
    """An option and all places that set it; the first one counts."""

    option: Option[object]
    settings: tuple[Setting, ...] = field(default_factory=tuple)
    read_only: bool = False

    @property
    def value(self) -> str | None:
        return None if self.option.sensitive else self.settings[0].value

    @property
    def source(self) -> Source:
        return self.settings[0].source

    @property
    def type(self) -> int:
        return TYPES.get(self.option.kind.type_name, 0)


class ConfigView:
    """Works entries out from the image and this broker's own settings."""

    def __init__(self, node_id: int, settings: Settings) -> None:
        self._node_id = str(node_id)
        self._settings = settings
        self._topic_defaults = topic_defaults(settings)

    def topic(self, image: Image, name: str) -> Iterator[ConfigEntry]:
        overrides = image.topic_config(name)
        for option in topic.TABLE:
            yield ConfigEntry(option, tuple(self._topic_settings(image, option, overrides)))

    def broker(self, image: Image) -> Iterator[ConfigEntry]:
        """All options of this broker."""
        for option in node.TABLE:
            settings = (*self._dynamic(image, option.name), *self._static(option))
            yield ConfigEntry(option, settings, read_only=option.reach is Reach.READ_ONLY)
        told = Setting(PROTOCOL_VERSION.name, as_text(PROTOCOL_VERSION.default), Source.DEFAULT)
        yield ConfigEntry(PROTOCOL_VERSION, (told,), read_only=True)

    def all_brokers(self, image: Image) -> Iterator[ConfigEntry]:
        """What is set for all brokers at once."""
        for name, value in sorted(image.config(ResourceType.BROKER, "").items()):
            if name in node.TABLE:
                yield ConfigEntry(node.TABLE[name], (Setting(name, value, Source.ALL_BROKERS),))

    def _topic_settings(
        self, image: Image, option: Option[object], overrides: Mapping[str, str]
    ) -> Iterator[Setting]:
        if option.name in overrides:
            yield Setting(option.name, overrides[option.name], Source.TOPIC)
        for key in option.synonyms:
            yield from self._dynamic(image, key)
        for key in option.synonyms:
            if key in self._settings.given:
                yield Setting(key, as_text(self._topic_defaults[option]), Source.FILE)
                break
        yield Setting(next(iter(option.synonyms), option.name), as_text(option.default), Source.DEFAULT)

    def _dynamic(self, image: Image, key: str) -> Iterator[Setting]:
        for resource, source in ((self._node_id, Source.BROKER), ("", Source.ALL_BROKERS)):
            value = image.config(ResourceType.BROKER, resource).get(key)
            if value is not None:
                yield Setting(key, value, source)

    def _static(self, option: Option[object]) -> Iterable[Setting]:
        if self._settings.is_set(option):
            yield Setting(option.name, as_text(self._settings[option]), Source.FILE)
        yield Setting(option.name, as_text(option.default), Source.DEFAULT)
