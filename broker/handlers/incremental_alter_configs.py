"""IncrementalAlterConfigs (44): set, delete, append to or take from single options of topics and brokers."""

from rookery.broker.handlers.config_changes import ConfigChanges
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import ConfigAlteration, ConfigAnswer, ConfigChange, ConfigOp
from rookery.core.wire.apis.incremental_alter_configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from rookery.core.wire.served import Served

_OPS = frozenset(ConfigOp)


class IncrementalAlterConfigsHandler:
    served = Served(INCREMENTAL_ALTER_CONFIGS, 0, 1)

    def __init__(self, changes: ConfigChanges) -> None:
        self._changes = changes

    async def handle(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> IncrementalAlterConfigsResponse:
        asked = [_alteration(resource) for resource in request.resources if not _unknown_op(resource)]
        answers = {
            (answer.resource_type, answer.resource_name): answer
            for answer in await self._changes.make(asked, validate_only=request.validate_only, replace=False)
        }
        for resource in filter(_unknown_op, request.resources):
            answers[resource.resource_type, resource.resource_name] = _unknown(resource)
        return IncrementalAlterConfigsResponse(
            responses=[_response(answer, call) for answer in answers.values()]
        )


def _unknown_op(resource: AlterConfigsResource) -> bool:
    return any(config.config_operation not in _OPS for config in resource.configs)


def _unknown(resource: AlterConfigsResource) -> ConfigAnswer:
    known = ", ".join(f"{op.value} ({op.name})" for op in ConfigOp)
    return ConfigAnswer(
        resource.resource_type,
        resource.resource_name,
        ErrorCode.INVALID_REQUEST,
        f"an unknown way to change an option; known are {known}",
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    changes = tuple(map(_change, resource.configs))
    return ConfigAlteration(resource.resource_type, resource.resource_name, changes)


def _change(config: AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, ConfigOp(config.config_operation), config.value)


def _response(answer: ConfigAnswer, call: Call) -> AlterConfigsResourceResponse:
    if answer.error:
        call.error(ErrorCode(answer.error))
    return AlterConfigsResourceResponse(
        error_code=answer.error,
        error_message=answer.message,
        resource_type=answer.resource_type,
        resource_name=answer.resource_name,
    )
