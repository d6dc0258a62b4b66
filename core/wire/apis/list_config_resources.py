"""ListConfigResources (74): names of resources that have configs.

v0 lists client metrics subscriptions only, v1 the types asked for.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class ListConfigResourcesRequest(Struct):
    resource_types: Sequence[int] = field(Array(Int8), "1+", default=())


class ConfigResource(Struct):
    resource_name: str = field(String)
    resource_type: int = field(Int8, "1+", default=16)


class ListConfigResourcesResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    config_resources: Sequence[ConfigResource] = field(Array(ConfigResource))


LIST_CONFIG_RESOURCES = Api(
    74, "ListConfigResources", ListConfigResourcesRequest, ListConfigResourcesResponse,
    versions="0-1", flexible="0+",
)
