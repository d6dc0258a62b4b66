"""Configuration overrides: which options can be set on which resource, and to what. They are checked before they are
written, so that every node can rely on what it reads.

What is wrong with an option of a topic is INVALID_CONFIG, with one of a broker INVALID_REQUEST: clients know it so from
Kafka.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from rookery.controller.state.decision import Decision, decided, replayed
from rookery.controller.state.defaults import MIN_ISR, Defaults, check_min_isr
from rookery.controller.state.partitions import Electorate
from rookery.core.config import consumer_groups, ignored, node, topic
from rookery.core.config.options import ConfigError, Option, Table, UpdateMode, as_text
from rookery.core.errors import (
    BrokerIdNotRegisteredError,
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from rookery.core.metadata.image import ConfigResource, Image, ResourceType
from rookery.core.metadata.records import ConfigRecord, PartitionChangeRecord
from rookery.core.metadata.requests import (
    AlterConfigsReply,
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigAnswer,
    ConfigChange,
    ConfigEntry,
    ConfigOp,
)


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
    if option.reach is UpdateMode.READ_ONLY:
        raise InvalidRequestError(f"{option.name} cannot change at run time: set it in the file and restart")
    if option.reach is UpdateMode.PER_BROKER and not resource.name:
        raise InvalidRequestError(f"{option.name} belongs to one broker: name its id")


RULES = ConfigRules(
    {
        ResourceType.TOPIC: (topic.TABLE,),
        ResourceType.BROKER: (node.TABLE, ignored.TABLE),
        ResourceType.GROUP: (consumer_groups.GROUP_TABLE,),
    }
)


_RULES = (MIN_ISR, "unclean.leader.election.enable")
"""Options by which leaders are elected."""


def alter_configs(
    image: Image, request: AlterConfigsRequest, rules: ConfigRules, defaults: Defaults
) -> Decision[AlterConfigsReply]:
    """Each resource gets all of its changes or none."""
    records: list[ConfigRecord] = []
    answers = []
    seen: set[ConfigResource] = set()
    for alteration in request.resources:
        resource = ConfigResource(alteration.resource_type, alteration.resource_name)
        try:
            if resource in seen:
                raise InvalidRequestError(f"{resource.name!r} is named twice")
            seen.add(resource)
            records += _alter(image, resource, alteration, rules, defaults, request.replace)
        except KafkaError as error:
            answers.append(ConfigAnswer(*resource, error.code, error.message))
        else:
            answers.append(ConfigAnswer(*resource))
    reply = AlterConfigsReply(tuple(answers))
    if request.validate_only:
        return decided((), reply)
    return decided((*records, *_after_new_rules(image, records, defaults)), reply)


def topic_config_records(
    name: str, entries: Iterable[ConfigEntry], rules: ConfigRules
) -> Iterator[ConfigRecord]:
    """The overrides a new topic is created with."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    seen = set()
    for entry in entries:
        if entry.value is None:
            raise InvalidConfigError(f"{entry.name} has no value")
        if entry.name in seen:
            raise InvalidConfigError(f"{entry.name} is named twice")
        seen.add(entry.name)
        rules.check(resource, entry.name, entry.value)
        yield ConfigRecord(*resource, entry.name, entry.value)


def _alter(
    image: Image,
    resource: ConfigResource,
    alteration: ConfigAlteration,
    rules: ConfigRules,
    defaults: Defaults,
    replace: bool,
) -> list[ConfigRecord]:
    _check_exists(image, resource)
    current = image.config(*resource)
    wanted: dict[str, str | None] = dict.fromkeys(sorted(current)) if replace else {}
    named = set()
    for change in alteration.changes:
        if change.name in named:
            raise InvalidRequestError(f"{change.name} is named twice")
        named.add(change.name)
        effective = partial(_effective, image, resource, defaults=defaults)
        wanted[change.name] = _value(rules, resource, change, effective)
    records = [
        ConfigRecord(*resource, name, value)
        for name, value in wanted.items()
        if current.get(name) != value
    ]
    for record in records:
        check_min_isr(image, record)
    return records


def _check_exists(image: Image, resource: ConfigResource) -> None:
    if resource.type == ResourceType.TOPIC and image.topic(resource.name) is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {resource.name!r}")
    if resource.type == ResourceType.BROKER and resource.name:
        if not resource.name.isdecimal():
            raise InvalidRequestError(f"a broker's id is a number, not {resource.name!r}; '' means all brokers")
        if int(resource.name) not in image.brokers:
            raise BrokerIdNotRegisteredError(f"there is no broker {resource.name}")


def _value(
    rules: ConfigRules,
    resource: ConfigResource,
    change: ConfigChange,
    effective: Callable[[Option[object]], str | None],
) -> str | None:
    """What the option becomes; None is its default."""
    option = rules.option(resource, change.name)
    if change.op is ConfigOp.DELETE:
        return None
    if change.value is None:
        raise InvalidRequestError(f"{change.name} has no value")
    value = change.value
    if change.op is not ConfigOp.SET:
        if option.kind.type_name != "list":
            raise InvalidConfigError(f"{change.name} is no list: nothing can be appended or taken away")
        present = effective(option)
        value = _changed_list(change.op, _words(present or ""), _words(value))
        if not value and option.default:
            raise InvalidConfigError(f"nothing would be left of {change.name}={present}: set the new value instead")
    rules.check(resource, change.name, value)
    return value


def _effective(image: Image, resource: ConfigResource, option: Option[object], *, defaults: Defaults) -> str | None:
    """What the option is now: its own value, what is set for all brokers, the controller's own file, the default."""
    own, cluster = image.config(*resource), image.config(ResourceType.BROKER, "")
    if option.name in own:
        return own[option.name]
    if resource.type == ResourceType.TOPIC:
        key = next((key for key in option.synonyms if key in cluster), None)
        return as_text(defaults.topics[option]) if key is None else cluster[key]
    return cluster.get(option.name, as_text(option.default))


def _changed_list(op: ConfigOp, present: list[str], given: list[str]) -> str:
    if op is ConfigOp.APPEND:
        return ",".join([*present, *(word for word in given if word not in present)])
    return ",".join(word for word in present if word not in given)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _after_new_rules(
    image: Image, records: list[ConfigRecord], defaults: Defaults
) -> list[PartitionChangeRecord]:
    """What new rules mean for partitions, in the same batch. Where fewer replicas in sync suffice from now on, the
    high watermark may pass the eligible ones: they must leave the ELR. Where an unclean election is allowed from now
    on, it is held."""
    touched = {
        ConfigResource(record.resource_type, record.resource_name) for record in records if record.name in _RULES
    }
    if not touched:
        return []
    everywhere = ConfigResource(ResourceType.BROKER, "") in touched
    return Electorate(replayed(image, records), defaults).reconsidered(
        lambda topic: everywhere or ConfigResource(ResourceType.TOPIC, topic.name) in touched
    )
