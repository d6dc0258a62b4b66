"""AlterConfigs (33) gives a topic, a broker or a group exactly the options named; IncrementalAlterConfigs (44) sets,
deletes, appends to or subtracts from single options. Decided by the controller, answered when this broker sees the
change."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from rookery.broker.handlers.authorize import ALTER_CONFIGS, check_options
from rookery.broker.handlers.ports import ClusterPort, ControllerPort
from rookery.broker.server.client import Call
from rookery.broker.server.tls import check_exchange, listener_texts
from rookery.core.config import ignored
from rookery.core.config.consumer_groups import check_group_option
from rookery.core.config.listeners import listeners_of
from rookery.core.config.options import ConfigError, Settings, UpdateMode
from rookery.core.config.security import listener_key
from rookery.core.errors import ErrorCode, InvalidConfigError, InvalidRequestError, KafkaError
from rookery.core.event_logging import get_logger
from rookery.core.metadata.image import Image, ResourceType
from rookery.core.metadata.requests import (
    AlterConfigsRequest,
    ConfigAlteration,
    ConfigAnswer,
    ConfigChange,
    ConfigOp,
)
from rookery.core.net.tls import read_tls, server_context
from rookery.core.wire.apis import alter_configs as whole
from rookery.core.wire.apis import incremental_alter_configs as incremental
from rookery.core.wire.served import Served

_log = get_logger("broker.handlers")

VISIBLE_WITHIN_S = 5.0
"""What was committed is answered as done even if this broker receives it late."""
_OPS = frozenset(ConfigOp)


class ConfigChanges:
    """Asks the controller, and waits until the next request to this broker would find the change."""

    def __init__(self, cluster: ClusterPort, controller: ControllerPort, settings: Settings) -> None:
        self._cluster = cluster
        self._controller = controller
        self._settings = settings

    async def make(
        self, asked: Sequence[ConfigAlteration], call: Call, *, validate_only: bool, replace: bool
    ) -> tuple[ConfigAnswer, ...]:
        """An answer per resource. With `replace`, options that are not named return to their defaults."""
        denied = {one: error for one in asked if (error := _denied(one, call)) is not None}
        alterations = [one for one in asked if one not in denied]
        made = await self._make(alterations, validate_only=validate_only, replace=replace) if alterations else ()
        return *made, *(_refusal(one, error) for one, error in denied.items())

    async def _make(
        self, alterations: Sequence[ConfigAlteration], *, validate_only: bool, replace: bool
    ) -> tuple[ConfigAnswer, ...]:
        request = AlterConfigsRequest(tuple(alterations), validate_only, replace)
        try:
            self._check_groups(alterations)
            await self._check_stores(alterations)
            reply = await self._controller.ask(request)
        except KafkaError as error:
            return tuple(_refusal(alteration, error) for alteration in alterations)
        if not validate_only:
            refused = {(answer.resource_type, answer.resource_name) for answer in reply.resources if answer.error}
            made = [one for one in alterations if (one.resource_type, one.resource_name) not in refused]
            await self._cluster.until(lambda image: all(_holds(image, one) for one in made), VISIBLE_WITHIN_S)
            _note_ignored(made)
        return reply.resources

    async def _check_stores(self, alterations: Iterable[ConfigAlteration]) -> None:
        """Key stores that this broker is to use from now on must be usable."""
        image, brokers, node_id = self._cluster.image, ResourceType.BROKER, str(self._cluster.node_id)
        changes = [
            (found, change.value)
            for one in alterations
            if one.resource_type == brokers and one.resource_name == node_id
            for change in one.changes
            if change.op is ConfigOp.SET and change.value is not None and _is_store(self._settings, change.name)
            if (found := listener_key(change.name)) is not None
        ]
        if not changes:
            return
        now = self._settings.overlaid(image.config(brokers, ""), image.config(brokers, node_id))
        listeners = listeners_of(now)
        for listener in listeners.clients:
            own = {key.option.name: text for key, text in changes if key.listener == listener.name.lower()}
            if not own:
                continue
            before = listener_texts(now, listener)
            try:
                between = listener.name == listeners.inter_broker
                await asyncio.to_thread(_check_store, {**before, **own}, before if between else None)
            except ConfigError as error:
                raise InvalidRequestError(str(error)) from None

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


def _is_store(settings: Settings, name: str) -> bool:
    return listener_key(name) is not None and settings.table[name].reach is UpdateMode.PER_BROKER


def _check_store(texts: Mapping[str, str], before: Mapping[str, str] | None) -> None:
    """`before` is what held for the listener between brokers."""
    tls = read_tls(texts)
    server_context(tls)
    if before is not None:
        try:
            held = read_tls(before)
        except ConfigError:
            return  # its files are gone: nothing would be lost
        check_exchange(held, tls)


def _denied(alteration: ConfigAlteration, call: Call) -> KafkaError | None:
    try:
        check_options(call, ALTER_CONFIGS, alteration.resource_type, alteration.resource_name)
    except KafkaError as error:
        return error
    return None


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


class AlterConfigsHandler:
    served = Served(whole.ALTER_CONFIGS, 0, 2)

    def __init__(self, changes: ConfigChanges) -> None:
        self._changes = changes

    async def handle(self, request: whole.AlterConfigsRequest, call: Call) -> whole.AlterConfigsResponse:
        asked = [
            _alteration(resource, [ConfigChange(each.name, ConfigOp.SET, each.value) for each in resource.configs])
            for resource in request.resources
        ]
        answers = await self._changes.make(asked, call, validate_only=request.validate_only, replace=True)
        return whole.AlterConfigsResponse(
            responses=[whole.AlterConfigsResourceResponse(**_answered(answer, call)) for answer in answers]
        )


class IncrementalAlterConfigsHandler:
    served = Served(incremental.INCREMENTAL_ALTER_CONFIGS, 0, 1)

    def __init__(self, changes: ConfigChanges) -> None:
        self._changes = changes

    async def handle(
        self, request: incremental.IncrementalAlterConfigsRequest, call: Call
    ) -> incremental.IncrementalAlterConfigsResponse:
        unknown = [resource for resource in request.resources if _unknown_op(resource)]
        asked = [
            _alteration(resource, map(_change, resource.configs))
            for resource in request.resources
            if not _unknown_op(resource)
        ]
        answers = {
            (answer.resource_type, answer.resource_name): answer
            for answer in await self._changes.make(asked, call, validate_only=request.validate_only, replace=False)
        }
        for resource in unknown:
            answers[resource.resource_type, resource.resource_name] = _unknown(resource, call)
        return incremental.IncrementalAlterConfigsResponse(
            responses=[
                incremental.AlterConfigsResourceResponse(**_answered(answer, call)) for answer in answers.values()
            ]
        )


def _alteration(
    resource: whole.AlterConfigsResource | incremental.AlterConfigsResource, changes: Iterable[ConfigChange]
) -> ConfigAlteration:
    return ConfigAlteration(resource.resource_type, resource.resource_name, tuple(changes))


def _change(config: incremental.AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, ConfigOp(config.config_operation), config.value)


def _unknown_op(resource: incremental.AlterConfigsResource) -> bool:
    return any(config.config_operation not in _OPS for config in resource.configs)


def _unknown(resource: incremental.AlterConfigsResource, call: Call) -> ConfigAnswer:
    try:
        check_options(call, ALTER_CONFIGS, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        return ConfigAnswer(resource.resource_type, resource.resource_name, error.code, error.message)
    known = ", ".join(f"{op.value} ({op.name})" for op in ConfigOp)
    return ConfigAnswer(
        resource.resource_type,
        resource.resource_name,
        ErrorCode.INVALID_REQUEST,
        f"an unknown way to change an option; known are {known}",
    )


def _answered(answer: ConfigAnswer, call: Call) -> dict[str, Any]:
    """The fields of an answer, which both APIs share."""
    if answer.error:
        call.error(ErrorCode(answer.error))
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "resource_type": answer.resource_type,
        "resource_name": answer.resource_name,
    }
