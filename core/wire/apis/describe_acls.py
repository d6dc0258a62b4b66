"""DescribeAcls (29): the bindings that match a filter."""

from collections.abc import Sequence

from rookery.core.wire.api import Api
from rookery.core.wire.schema import Array, Int8, Int16, Int32, String, Struct, field


class DescribeAclsRequest(Struct):
    resource_type_filter: int = field(Int8)
    resource_name_filter: str | None = field(String, nullable="1+", default=None)
    pattern_type_filter: int = field(Int8, default=3)
    principal_filter: str | None = field(String, nullable="1+", default=None)
    host_filter: str | None = field(String, nullable="1+", default=None)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


class AclDescription(Struct):
    principal: str = field(String)
    host: str = field(String)
    operation: int = field(Int8)
    permission_type: int = field(Int8)


class DescribeAclsResource(Struct):
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    pattern_type: int = field(Int8, default=3)
    acls: Sequence[AclDescription] = field(Array(AclDescription))


class DescribeAclsResponse(Struct):
    throttle_time_ms: int = field(Int32, default=0)
    error_code: int = field(Int16, default=0)
    error_message: str | None = field(String, nullable="1+", default=None)
    resources: Sequence[DescribeAclsResource] = field(Array(DescribeAclsResource))


DESCRIBE_ACLS = Api(
    29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse,
    versions="1-3", flexible="2+",
)
