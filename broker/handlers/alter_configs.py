"""AlterConfigs (33): give a topic or a broker exactly the options named; all others return to their
defaults."""

from rookery.broker.handlers.config_changes import ConfigChanges
from rookery.broker.server.client import Call
from rookery.core.errors import ErrorCode
from rookery.core.metadata.requests import ConfigAlteration, ConfigAnswer, ConfigChange, ConfigOp
from rookery.core.wire.apis.alter_configs import (
    ALTER_CONFIGS,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from rookery.core.wire.served import Served


class AlterConfigsHandler:
    served = Served(ALTER_CONFIGS, 0, 2)

    def __init__(self, changes: ConfigChanges) -> None:
        self._changes = changes

    async def handle(self, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
        asked = [_alteration(resource) for resource in request.resources]
        answers = await self._changes.make(asked, validate_only=request.validate_only, replace=True)
        return AlterConfigsResponse(responses=[_response(answer, call) for answer in answers])


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    changes = tuple(ConfigChange(config.name, ConfigOp.SET, config.value) for config in resource.configs)
    return ConfigAlteration(resource.resource_type, resource.resource_name, changes)


def _response(answer: ConfigAnswer, call: Call) -> AlterConfigsResourceResponse:
    if answer.error:
        call.error(ErrorCode(answer.error))
    return AlterConfigsResourceResponse(
        error_code=answer.error,
        error_message=answer.message,
        resource_type=answer.resource_type,
        resource_name=answer.resource_name,
    )
