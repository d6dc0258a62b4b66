"""Changes to configuration: decided by the controller, answered when this broker sees them."""

from collections.abc import Iterable, Sequence
from itertools import chain

from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.core.config import ignored
from rookery.core.config.consumer_groups import check_group_option
from rookery.core.config.options import ConfigError, Settings
from rookery.core.errors import InvalidConfigError, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Image, ResourceType
from rookery.core.metadata.requests import (
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigAnswer,
    ConfigChange,
    ConfigOp,
)

_log = get_logger("broker.handlers")

VISIBLE_WITHIN_S = 5.0
"""What was committed is answered as done even if this broker is slow to hear of it."""


class ConfigChanges:
    """Asks the controller, and waits until the next request to this broker would find the change."""

    def __init__(self, cluster: ClusterPort, controller: ControllerPort, settings: Settings) -> None:
        self._cluster = cluster
        self._controller = controller
        self._settings = settings

    async def make(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool, replace: bool
    ) -> tuple[ConfigAnswer, ...]:
        """An answer per resource. With `replace`, options that are not named return to their defaults."""
        request = AlterConfigsRequest(tuple(alterations), validate_only, replace)
        try:
            self._check_groups(alterations)
            reply = await self._controller.ask(request)
        except KafkaError as error:
            return tuple(_refusal(alteration, error) for alteration in alterations)
        if not validate_only:
            refused = {(answer.resource_type, answer.resource_name) for answer in reply.resources if answer.error}
            made = [one for one in alterations if (one.resource_type, one.resource_name) not in refused]
            await self._cluster.until(lambda image: all(_holds(image, one) for one in made), VISIBLE_WITHIN_S)
            _note_ignored(made)
        return reply.resources


    def _check_groups(self, alterations: Iterable[ConfigAlteration]) -> None:
        """What a group may set depends on options of this node."""
        for alteration in alterations:
            if alteration.resource_type == ResourceType.GROUP:
                for change in alteration.changes:
                    if change.op is ConfigOp.SET and change.value is not None:
                        try:
                            check_group_option(self._settings, change.name, change.value)
                        except ConfigError as error:
                            raise InvalidConfigError(str(error)) from None


def _note_ignored(made: Iterable[ConfigAlteration]) -> None:
    """Say in the log which of the options that were set have no effect."""
    of_brokers = (one for one in made if one.resource_type == ResourceType.BROKER)
    for change in chain.from_iterable(one.changes for one in of_brokers):
        if change.name in ignored.TABLE and change.op is not ConfigOp.DELETE:
            _log.warning("config.ignored", option=change.name, reason=ignored.TABLE[change.name].doc)


def _refusal(alteration: ConfigAlteration, error: KafkaError) -> ConfigAnswer:
    return ConfigAnswer(alteration.resource_type, alteration.resource_name, error.code, error.message)


def _holds(image: Image, alteration: ConfigAlteration) -> bool:
    config = image.config(alteration.resource_type, alteration.resource_name)
    return all(_made(config.get(change.name), change) for change in alteration.changes)


def _made(value: str | None, change: ConfigChange) -> bool:
    if change.op is ConfigOp.DELETE:
        return value is None
    if change.op is ConfigOp.SET:
        return value == change.value
    present, words = _words(value), _words(change.value)
    return words <= present if change.op is ConfigOp.APPEND else not words & present


def _words(text: str | None) -> set[str]:
    return {word.strip() for word in (text or "").split(",")} - {""}
