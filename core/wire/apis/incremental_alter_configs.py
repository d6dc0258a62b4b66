"""IncrementalAlterConfigs (44): set, delete, append to or subtract from single configs."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, field


class AlterableConfig(Struct):
    name: str = field(String)
    config_operation: int = field(Int8)
    value: str | None = field(String, nullable="0+", default=None)


class AlterConfigsResource(Struct):
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: Sequence[AlterableConfig] = field(Array(AlterableConfig))


class IncrementalAlterConfigsRequest(Struct):
    resources: Sequence[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="0+", default=None)
    resource_type: int = field(Int8)
    resource_name: str = field(String)


class IncrementalAlterConfigsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    responses: Sequence[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))


INCREMENTAL_ALTER_CONFIGS = Api(
    44, "IncrementalAlterConfigs", IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    versions="0-1", flexible="1+",
)
