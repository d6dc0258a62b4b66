"""AlterConfigs (33): replace all configs of a resource."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, field


class AlterableConfig(Struct):
    name: str = field(String)
    value: str | None = field(String, nullable="0+", default=None)


class AlterConfigsResource(Struct):
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: Sequence[AlterableConfig] = field(Array(AlterableConfig))


class AlterConfigsRequest(Struct):
    resources: Sequence[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    resource_type: int = field(Int8)
    resource_name: str = field(String)


class AlterConfigsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    responses: Sequence[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))


ALTER_CONFIGS = Api(
    33, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse,
    versions="0-2", flexible="2+",
)
