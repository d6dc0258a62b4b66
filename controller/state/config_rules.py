"""Which options can be set on which resource, and to what.

What is wrong with an option of a topic is INVALID_CONFIG, with one of a broker INVALID_REQUEST: clients know it so from
Kafka.
"""

from collections.abc import Mapping, Sequence

from rookery.core.config import ignored, node, topic
from rookery.core.config.options import ConfigError, Option, Reach, Table
from rookery.core.errors import InvalidConfigError, InvalidRequestError, KafkaError
from rookery.core.metadata.image import ConfigResource, ResourceType


class ConfigRules:
    """The tables of options by type of resource; a type without tables cannot be configured."""

    def __init__(self, tables: Mapping[int, Sequence[Table]]) -> None:
        self._tables = tables

    def option(self, resource: ConfigResource, name: str) -> Option[object]:
        """The option `name` of `resource`; raises where there is none or it cannot change at run time."""
        tables = self._tables.get(resource.type)
        if tables is None:
            raise InvalidRequestError(f"resources of type {resource.type} have no configuration here")
        option = next((table[name] for table in tables if name in table), None)
        if option is None:
            raise _refusal(resource, f"there is no option {name!r} for this type of resource")
        if resource.type == ResourceType.BROKER:
            _check_reach(option, resource)
        return option

    def check(self, resource: ConfigResource, name: str, value: str) -> None:
        """Raises unless `value` is allowed."""
        try:
            self.option(resource, name).parse(value)
        except ConfigError as error:
            raise _refusal(resource, str(error)) from error


def _refusal(resource: ConfigResource, why: str) -> KafkaError:
    return InvalidRequestError(why) if resource.type == ResourceType.BROKER else InvalidConfigError(why)


def _check_reach(option: Option[object], resource: ConfigResource) -> None:
    if option.reach is Reach.READ_ONLY:
        raise InvalidRequestError(f"{option.name} cannot change at run time: set it in the file and restart")
    if option.reach is Reach.PER_BROKER and not resource.name:
        raise InvalidRequestError(f"{option.name} belongs to one broker: name its id")


RULES = ConfigRules({ResourceType.TOPIC: (topic.TABLE,), ResourceType.BROKER: (node.TABLE, ignored.TABLE)})
