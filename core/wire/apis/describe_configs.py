"""DescribeConfigs (32): configs of topics, brokers and groups with their origin.

Null keys mean all of them. v3 adds documentation and types.
"""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Bool, Int8, Int16, Int32, String, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configuration_keys: Sequence[str] | None = field(Array(String), nullable="1+", default=None)


class DescribeConfigsRequest(Struct):
    resources: Sequence[DescribeConfigsResource] = field(Array(DescribeConfigsResource))
    include_synonyms: bool = field(Bool, default=False)
    include_documentation: bool = field(Bool, "3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: str = field(String)
    value: str | None = field(String, nullable="1+", default=None)
    source: int = field(Int8)


class DescribeConfigsResourceResult(Struct):
    name: str = field(String)
    value: str | None = field(String, nullable="1+", default=None)
    read_only: bool = field(Bool)
    config_source: int = field(Int8, default=-1)
    is_sensitive: bool = field(Bool)
    synonyms: Sequence[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym))
    config_type: int = field(Int8, "3+", default=0)
    documentation: str | None = field(String, "3+", nullable="3+", default=None)


class DescribeConfigsResult(Struct):
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: Sequence[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    results: Sequence[DescribeConfigsResult] = field(Array(DescribeConfigsResult))


DESCRIBE_CONFIGS = Api(
    32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse,
    versions="1-4", flexible="4+",
)
